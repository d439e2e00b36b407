"""Reads the replicas in a broker's log folder, while the broker runs or after its end.

The class implements `cluster.protocol.Logs`, through which faults find replicas and their content.
"""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from cluster.files.batches import Segment, read_segment
from cluster.files.checkpoints import offset_checkpoint, properties
from cluster.files.damage import DamagedFileError
from cluster.files.quorum_log import LoggedVote, quorum_votes
from cluster.protocol import ClusterError, Disk
from results.record.terms import CLEAN_SHUTDOWN, QUORUM_TOPIC, CheckpointFile

Place = tuple[str, int]
"""A topic and a partition number."""

DATA = "data"
RECOVERY_POINTS = CheckpointFile.RECOVERY_POINTS.value
FLUSH_INTERVAL = "log.flush.interval.messages"


class KafkaLogs:
    """The logs of Kafka, or of another system that writes the same files."""

    data: str = DATA
    checkpoints: tuple[str, ...] = (
        RECOVERY_POINTS,
        CheckpointFile.HIGH_WATERMARKS.value,
        CheckpointFile.LOG_STARTS.value,
        "cleaner-offset-checkpoint",
        CLEAN_SHUTDOWN,
    )
    votes_log: PurePosixPath = PurePosixPath("logs/server.log")

    def replica_folders(self, disk: Disk) -> Iterator[tuple[Place, PurePosixPath]]:
        """Yield, sorted, the partitions with a log on a disk. Skip the metadata partition."""
        for folder in sorted({path.parent for path in disk.files(f"{DATA}/*/*")}):
            topic, _, partition = folder.name.rpartition("-")
            if topic and partition.isdecimal() and topic != QUORUM_TOPIC:
                yield (topic, int(partition)), folder

    def replica_files(self, disk: Disk) -> list[PurePosixPath]:
        """Return the files in all partition folders on a disk, except the metadata log's files."""
        return [
            path
            for path in disk.files(f"{DATA}/*/*")
            if not path.parent.name.startswith(f"{QUORUM_TOPIC}-")
        ]

    def segments(self, disk: Disk, folder: PurePosixPath) -> list[PurePosixPath]:
        """Return the segments of a log, oldest first."""
        return [path for path in disk.files(f"{folder}/*.log") if path.stem.isdecimal()]

    def read(self, data: bytes) -> Segment:
        """Return the batches in the bytes of a segment."""
        return read_segment(data)

    def recovery_points(self, disk: Disk) -> dict[Place, int]:
        """Return the offset up to which each log was flushed; {} before the first checkpoint.

        Raises:
            ClusterError: The checkpoint file is damaged.
        """
        try:
            return offset_checkpoint(disk.read(f"{DATA}/{RECOVERY_POINTS}").decode())
        except FileNotFoundError:
            return {}
        except (DamagedFileError, UnicodeDecodeError) as damaged:
            raise ClusterError(f"{RECOVERY_POINTS} cannot be read: {damaged}") from damaged

    def flush_interval(self, disk: Disk) -> int | None:
        """Return after how many messages a broker flushes a log, or None if this is not set.

        The broker's setting is `log.flush.interval.messages` in its `server.properties`. When an
        append reaches this number, the broker flushes the log before it acknowledges the append.
        Without this setting the kernel decides when to flush. The recovery point on disk is updated
        only once a minute (`log.flush.offset.checkpoint.interval.ms`).
        """
        try:
            settings = properties(disk.read("server.properties").decode())
            return int(settings[FLUSH_INTERVAL])
        except (FileNotFoundError, KeyError, ValueError, DamagedFileError):
            return None

    def votes(self, lines: Iterable[str]) -> Iterator[LoggedVote]:
        """Yield, in order, the votes that the lines of a voter's own log report."""
        return quorum_votes(lines)
