"""Where a replica's log begins and ends, by its files."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from cluster.protocol import Disk, Logs


def log_bounds(disk: Disk, segments: Sequence[PurePosixPath], logs: Logs) -> tuple[int, int]:
    """Return the first offset that segments may hold, and the one behind their last record."""
    if not segments:
        return (0, 0)
    batches = logs.read(disk.read(segments[-1])).batches
    end = batches[-1].end_offset if batches else int(segments[-1].stem)
    return (int(segments[0].stem), end)
