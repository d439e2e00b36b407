"""The files of replicas, for faults that read and change them while their broker is down.

They are in Kafka's format: segments named by their first offset, of record batches with sums.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import PurePosixPath
from typing import Protocol, runtime_checkable

from cluster.protocol.machines import Disk


class Batch(Protocol):
    """A batch that is sound: its sum is right."""

    @property
    def position(self) -> int:
        """Where it begins in the bytes that were read."""

    @property
    def base_offset(self) -> int:
        """Its first offset."""

    @property
    def end_offset(self) -> int:
        """The offset behind its last."""

    @property
    def magic(self) -> int:
        """Its format: 2, or an older one."""

    @property
    def control(self) -> bool:
        """Whether brokers wrote it, not a client."""

    @property
    def body(self) -> Sized:
        """Its records, behind its header."""


class Segment(Protocol):
    """What could be read of one segment."""

    @property
    def batches(self) -> Sequence[Batch]:
        """The sound ones, in order."""

    @property
    def damage(self) -> Sequence[str]:
        """A sentence for each place that could not be read."""

    @property
    def torn(self) -> bool:
        """Whether the last of these is a batch that the file's end cuts off."""


class Vote(Protocol):
    """A voter answered that it votes for who asked."""

    @property
    def epoch(self) -> int:
        """In which the vote counts."""

    @property
    def voted_for(self) -> int:
        """The number of the node that asked."""


class KnowsReplicas(Protocol):
    """Knows where replicas lie on a node's disk, and what is in them.

    Attributes:
        data: The folder of a node's logs, in its own.
        checkpoints: Names of the files in it that tell of its logs, the mark of a clean stop among
            them.
    """

    data: str
    checkpoints: tuple[str, ...]

    def replica_folders(self, disk: Disk) -> Iterator[tuple[tuple[str, int], PurePosixPath]]:
        """Yield the partitions that have a log on a disk, in order; the metadata log is none."""

    def replica_files(self, disk: Disk) -> list[PurePosixPath]:
        """Return the files in all folders of partitions on a disk; the metadata log's are none."""

    def segments(self, disk: Disk, folder: PurePosixPath) -> list[PurePosixPath]:
        """Return the segments of a log, the oldest first."""

    def read(self, data: bytes) -> Segment:
        """Return the batches in the bytes of a segment."""


class KnowsFlushes(Protocol):
    """Knows what of a node's logs is on disk for sure."""

    def recovery_points(self, disk: Disk) -> Mapping[tuple[str, int], int]:
        """Return below which offset each log was flushed.

        Raises:
            ClusterError: It cannot be read.
        """

    def flush_interval(self, disk: Disk) -> int | None:
        """Return after how many messages a broker flushes a log; None: that is the kernel's."""


class KnowsVotes(Protocol):
    """Knows what votes a controller granted.

    Attributes:
        votes_log: The file in a node's folder that tells of them, a line each.
    """

    votes_log: PurePosixPath

    def votes(self, lines: Iterable[str]) -> Iterator[Vote]:
        """Yield the votes that lines of it tell of, in order."""


class Logs(KnowsReplicas, KnowsFlushes, KnowsVotes, Protocol):
    """All that is known of the files of a system's nodes."""


@runtime_checkable
class HasLogs(Protocol):
    """Clusters whose nodes' files are at hand, in Kafka's format.

    Attributes:
        logs: Knows them.
    """

    logs: Logs
