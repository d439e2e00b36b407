"""Messages that move records: Produce, Fetch, ListOffsets, OffsetsForLeaderEpoch.

A partition is named by `topic` and `partition`; the topic's id, where both sides know it, keeps a
topic apart from its deleted namesake (KIP-516). -1 is "none" as on the wire.
"""

from typing import Annotated
from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Meta, Struct

UNKNOWN = -1
"""No offset, no epoch, no node."""
CONSUMER = -1
"""The replica id of whoever is no replica."""
ANY_REPLICA = -2
"""Kafka's "debugging consumer": whoever has a replica answers it, of the log to its end."""
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
"""Special time stamps of ListOffsets."""
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
"""What brokers keep in topics, as records of forms that they must be able to read."""


LARGEST_EPOCH = (1 << 31) - (1 << 20)
"""No message of a node may tell a larger one: it is an i32, and elections count on from it."""
Epoch = Annotated[int, Meta(ge=UNKNOWN, le=LARGEST_EPOCH)]


class ProducePartition(Struct, frozen=True, kw_only=True, gc=False):
    """Records for one partition.

    Attributes:
        topic, partition: Which.
        topic_id: If the producer names it (since Produce 13).
        records: One record batch of magic 2, as the producer made it.
    """

    topic: str
    partition: int
    records: bytes
    topic_id: UUID | None = None


class ProduceRequest(Struct, frozen=True, kw_only=True, gc=False):
    """Append these. With `acks` 0 the reply is made too, but not put on the wire.

    Attributes:
        acks: 0, 1, or -1 for "all".
        timeout_ms: How long to wait for the in-sync replicas.
        to_internal: Whether internal topics are meant, too.
    """

    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]
    to_internal: bool = False


class ProducedPartition(Struct, frozen=True, kw_only=True, gc=False):
    """What became of the records of one partition.

    Attributes:
        base_offset: Of the first record; of the first time if they were there already.
        current_leader, current_leader_epoch: Who leads, if it is known and not this node (KIP-951).
    """

    topic: str
    partition: int
    error_code: ErrorCode
    base_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    error_message: str | None = None
    current_leader: int = UNKNOWN
    current_leader_epoch: int = UNKNOWN


class ProduceResponse(Struct, frozen=True, kw_only=True, gc=False):
    """Answers a `ProduceRequest`, in its order of partitions."""

    partitions: tuple[ProducedPartition, ...]


class FetchPartition(Struct, frozen=True, kw_only=True, gc=False):
    """From where to read one partition.

    Attributes:
        current_leader_epoch: The epoch that the reader believes in; -1: not checked (KIP-320).
        fetch_offset: The first offset wanted; of a replica: its log end offset.
        last_fetched_epoch: The epoch of the last record that a replica has (KIP-595); -1: unknown.
        log_start_offset: A replica's.
        topic_id: Which topic of this name.
    """

    topic: str
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = UNKNOWN
    last_fetched_epoch: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    topic_id: UUID | None = None


class FetchRequest(Struct, frozen=True, kw_only=True, gc=False):
    """Read these; wait at most `max_wait_ms` for `min_bytes`.

    Attributes:
        replica_id: A broker's (or a member of the quorum's) id; -1 for a consumer.
        replica_epoch: Its broker epoch (KIP-903); -1: unknown.
        max_bytes: For all partitions together; the first batch is given however big it is (KIP-74).
        isolation_level: `READ_UNCOMMITTED` or `READ_COMMITTED`.
        cluster_id: Of the quorum's fetches.
    """

    partitions: tuple[FetchPartition, ...]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    replica_id: int = CONSUMER
    replica_epoch: int = UNKNOWN
    isolation_level: int = READ_UNCOMMITTED
    cluster_id: str | None = None


class FetchedPartition(Struct, frozen=True, kw_only=True, gc=False):
    """What was read of one partition.

    Attributes:
        high_watermark: The leader's; -1 with an error.
        last_stable_offset: Where READ_COMMITTED ends: the high watermark, without transactions.
        records: Whole batches; the first may begin before the offset that was asked for.
        diverging_epoch, diverging_end_offset: If the logs differ (KIP-595): the largest epoch up to
            the fetched one that the leader has, and where it ends; else -1.
        current_leader, current_leader_epoch: Who leads, if it is known and not this node.
        snapshot_end_offset, snapshot_epoch: Fetch this snapshot first (KIP-630); else -1.
    """

    topic: str
    partition: int
    error_code: ErrorCode
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    records: bytes = b""
    diverging_epoch: Epoch = UNKNOWN
    diverging_end_offset: int = UNKNOWN
    current_leader: int = UNKNOWN
    current_leader_epoch: Epoch = UNKNOWN
    snapshot_end_offset: int = UNKNOWN
    snapshot_epoch: Epoch = UNKNOWN
    topic_id: UUID | None = None


class FetchResponse(Struct, frozen=True, kw_only=True, gc=False):
    """Answers a `FetchRequest`, in its order of partitions."""

    partitions: tuple[FetchedPartition, ...]
    error_code: ErrorCode = ErrorCode.none


class ListOffsetsPartition(Struct, frozen=True, kw_only=True):
    """Ask a partition for an offset.

    Attributes:
        timestamp: `EARLIEST`, `LATEST`, `MAX_TIMESTAMP`, or milliseconds: the first record that is
            not older.
    """

    topic: str
    partition: int
    timestamp: int
    current_leader_epoch: int = UNKNOWN


class ListOffsetsRequest(Struct, frozen=True, kw_only=True):
    """Ask for offsets; the latest is a replica's log end offset, a consumer's high watermark."""

    partitions: tuple[ListOffsetsPartition, ...]
    replica_id: int = CONSUMER
    isolation_level: int = READ_UNCOMMITTED


class ListedOffset(Struct, frozen=True, kw_only=True):
    """An offset, its record's time stamp, and the epoch it was written in; -1: there is none."""

    topic: str
    partition: int
    error_code: ErrorCode
    timestamp: int = UNKNOWN
    offset: int = UNKNOWN
    leader_epoch: int = UNKNOWN


class ListOffsetsResponse(Struct, frozen=True, kw_only=True):
    """Answers a `ListOffsetsRequest`, in its order of partitions."""

    partitions: tuple[ListedOffset, ...]


class EpochPartition(Struct, frozen=True, kw_only=True):
    """Ask where an epoch ends in the leader's log (KIP-101, KIP-279, KIP-320)."""

    topic: str
    partition: int
    leader_epoch: int
    current_leader_epoch: int = UNKNOWN


class OffsetsForLeaderEpochRequest(Struct, frozen=True, kw_only=True):
    """Ask where epochs end; `replica_id` is -1 for a consumer."""

    partitions: tuple[EpochPartition, ...]
    replica_id: int = CONSUMER


class EpochEnd(Struct, frozen=True, kw_only=True):
    """Where an epoch ends.

    Attributes:
        leader_epoch: The largest epoch up to the one asked for that the leader has; -1: none.
        end_offset: Where that one ends; -1: unknown.
    """

    topic: str
    partition: int
    error_code: ErrorCode
    leader_epoch: int = UNKNOWN
    end_offset: int = UNKNOWN


class OffsetsForLeaderEpochResponse(Struct, frozen=True, kw_only=True):
    """Answers an `OffsetsForLeaderEpochRequest`, in its order of partitions."""

    partitions: tuple[EpochEnd, ...]
