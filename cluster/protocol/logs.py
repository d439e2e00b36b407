"""Access to replicas' files, for faults that change the files while a broker is down.

The files are in Kafka's format. A segment contains record batches with checksums. The segment's
name is its first offset.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import PurePosixPath
from typing import Protocol, runtime_checkable

from cluster.protocol.machines import Disk


class Batch(Protocol):
    """A record batch with a correct checksum."""

    @property
    def position(self) -> int:
        """The batch's position in the bytes that were read."""

    @property
    def base_offset(self) -> int:
        """The batch's first offset."""

    @property
    def end_offset(self) -> int:
        """The batch's last offset plus one."""

    @property
    def magic(self) -> int:
        """The batch's format: 2, or an older one."""

    @property
    def control(self) -> bool:
        """Whether the batch was written by a broker instead of a client."""

    @property
    def body(self) -> Sized:
        """The records after the batch's header, as bytes."""


class Segment(Protocol):
    """The readable content of one segment."""

    @property
    def batches(self) -> Sequence[Batch]:
        """The batches with correct checksums, in order."""

    @property
    def damage(self) -> Sequence[str]:
        """A sentence for each place of the segment that could not be read."""

    @property
    def torn(self) -> bool:
        """Whether the last unreadable place is an incomplete batch at the end of the file."""


class Vote(Protocol):
    """A vote that a voter granted to a candidate."""

    @property
    def epoch(self) -> int:
        """The epoch in which the vote counts."""

    @property
    def voted_for(self) -> int:
        """The node id of the candidate."""


class KnowsReplicas(Protocol):
    """Finds the logs of replicas on a node's disk and reads their content.

    Attributes:
        data: The folder of a node's logs, within the node's folder.
        checkpoints: The names of the files in this folder that describe the logs, including the
            marker of a clean stop.
    """

    data: str
    checkpoints: tuple[str, ...]

    def replica_folders(self, disk: Disk) -> Iterator[tuple[tuple[str, int], PurePosixPath]]:
        """Yield, sorted, the partitions with a log on a disk. Skip the metadata partition."""

    def replica_files(self, disk: Disk) -> list[PurePosixPath]:
        """Return the files in all partition folders on a disk, except the metadata log's files."""

    def segments(self, disk: Disk, folder: PurePosixPath) -> list[PurePosixPath]:
        """Return the segments of a log, oldest first."""

    def read(self, data: bytes) -> Segment:
        """Return the batches in the bytes of a segment."""


class KnowsFlushes(Protocol):
    """Finds out which parts of a node's logs were flushed to disk."""

    def recovery_points(self, disk: Disk) -> Mapping[tuple[str, int], int]:
        """Return, for each log, the offset up to which the log was flushed.

        Raises:
            ClusterError: The checkpoint cannot be read.
        """

    def flush_interval(self, disk: Disk) -> int | None:
        """Return the number of messages after which a broker flushes a log.

        The result is None if the broker leaves flushes to the kernel.
        """


class KnowsVotes(Protocol):
    """Finds the votes that a controller granted.

    Attributes:
        votes_log: The file in a node's folder that has a line for each vote.
    """

    votes_log: PurePosixPath

    def votes(self, lines: Iterable[str]) -> Iterator[Vote]:
        """Yield, in order, the votes that the file's lines report."""


class Logs(KnowsReplicas, KnowsFlushes, KnowsVotes, Protocol):
    """Finds the logs, flush points and votes in the files of a system's nodes."""


@runtime_checkable
class HasLogs(Protocol):
    """Clusters whose node files have Kafka's format and can be read.

    Attributes:
        logs: The reader of these files.
    """

    logs: Logs
