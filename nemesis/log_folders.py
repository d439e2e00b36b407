"""The replicas in a broker's log folder, as its files have them, whether it runs or not."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from cluster.files.batches import read_segment
from cluster.files.checkpoints import offset_checkpoint, properties
from cluster.files.damage import DamagedFileError
from cluster.protocol import ClusterError, Disk

Place = tuple[str, int]
"""A topic and a partition of it."""

DATA = "data"
"""The folder of a node's logs, in its own."""
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
FLUSH_INTERVAL = "log.flush.interval.messages"
METADATA_LOG = "__cluster_metadata"


def replica_folders(disk: Disk) -> Iterator[tuple[Place, PurePosixPath]]:
    """Yield the partitions that have a log on a disk, in order; the metadata log is none."""
    for folder in sorted({path.parent for path in disk.files(f"{DATA}/*/*")}):
        topic, _, partition = folder.name.rpartition("-")
        if topic and partition.isdecimal() and topic != METADATA_LOG:
            yield (topic, int(partition)), folder


def segments(disk: Disk, folder: PurePosixPath) -> list[PurePosixPath]:
    """Return the segments of a log, the oldest first."""
    return [path for path in disk.files(f"{folder}/*.log") if path.stem.isdecimal()]


def recovery_points(disk: Disk) -> dict[Place, int]:
    """Return below which offset each log was flushed; none if nothing ever was.

    Raises:
        ClusterError: The checkpoint is damaged, so that nobody knows.
    """
    try:
        return offset_checkpoint(disk.read(f"{DATA}/{RECOVERY_POINTS}").decode())
    except FileNotFoundError:
        return {}
    except (DamagedFileError, UnicodeDecodeError) as damaged:
        raise ClusterError(f"{RECOVERY_POINTS} cannot be read: {damaged}") from damaged


def flush_interval(disk: Disk) -> int | None:
    """Return after how many messages a broker flushes a log, None if it leaves that to the kernel.

    `log.flush.interval.messages` in its `server.properties`: a log is flushed by the append that
    reaches so many, before that is acknowledged. The recovery point on disk says so only once a
    minute (`log.flush.offset.checkpoint.interval.ms`).
    """
    try:
        settings = properties(disk.read("server.properties").decode())
        return int(settings[FLUSH_INTERVAL])
    except (FileNotFoundError, KeyError, ValueError, DamagedFileError):
        return None


def log_bounds(disk: Disk, logs: Sequence[PurePosixPath]) -> tuple[int, int]:
    """Return the first offset that segments may hold, and the one behind their last record."""
    if not logs:
        return (0, 0)
    batches = read_segment(disk.read(logs[-1])).batches
    end = batches[-1].end_offset if batches else int(logs[-1].stem)
    return (int(logs[0].stem), end)
