"""The first offset and the end offset of a replica's log, from its segment files."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from cluster.protocol import Disk, Logs


def log_bounds(disk: Disk, segments: Sequence[PurePosixPath], logs: Logs) -> tuple[int, int]:
    """Return the first segment's base offset, and the offset after the log's last record."""
    if not segments:
        return (0, 0)
    batches = logs.read(disk.read(segments[-1])).batches
    end = batches[-1].end_offset if batches else int(segments[-1].stem)
    return (int(segments[0].stem), end)
