"""The messages that move records: Produce, Fetch, ListOffsets, OffsetsForLeaderEpoch.

`topic` and `partition` name a partition. If both sides know the topic's id, they can distinguish a
topic from a deleted topic of the same name (KIP-516). -1 means "none", as in Kafka's protocol.
"""

from typing import Annotated
from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Meta, Struct

UNKNOWN = -1
"""No offset, no epoch or no node."""
CONSUMER = -1
"""The replica id of a client that is not a replica."""
ANY_REPLICA = -2
"""Kafka's "debugging consumer", which may read any replica, up to the end of the replica's log."""
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
"""Special timestamps of ListOffsets."""
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
"""The topics that brokers use themselves. Brokers must be able to read all records in them."""


LARGEST_EPOCH = (1 << 31) - (1 << 20)
"""The largest leader epoch that a message of another node may have.

An epoch is a 32-bit integer, and this limit leaves numbers for further elections.
"""
Epoch = Annotated[int, Meta(ge=UNKNOWN, le=LARGEST_EPOCH)]


class ProducePartition(Struct, frozen=True, kw_only=True, gc=False):
    """The records for one partition.

    Attributes:
        topic, partition: The partition.
        topic_id: The topic's id, if the producer sent it (since Produce 13).
        records: One record batch of magic 2, exactly as the producer made it.
    """

    topic: str
    partition: int
    records: bytes
    topic_id: UUID | None = None


class ProduceRequest(Struct, frozen=True, kw_only=True, gc=False):
    """A request to append records. With `acks` 0, the response is not sent.

    Attributes:
        acks: 0, 1, or -1 for "all".
        timeout_ms: How long to wait for the in-sync replicas.
        to_internal: Whether the request may write to internal topics.
    """

    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]
    to_internal: bool = False


class ProducedPartition(Struct, frozen=True, kw_only=True, gc=False):
    """The result of appending one partition's records.

    Attributes:
        base_offset: The first record's offset. If the batch is a duplicate, this is the offset at
            which it was appended before.
        current_leader, current_leader_epoch: The leader, if it is known and is not this node
            (KIP-951).
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
    """The response to a `ProduceRequest`, with the partitions in the same order."""

    partitions: tuple[ProducedPartition, ...]


class FetchPartition(Struct, frozen=True, kw_only=True, gc=False):
    """The position from which to read one partition.

    Attributes:
        current_leader_epoch: The leader epoch that the reader knows; -1: not checked (KIP-320).
        fetch_offset: The first requested offset. For a replica, this is the replica's log end
            offset.
        last_fetched_epoch: The epoch of a replica's last record (KIP-595); -1: unknown.
        log_start_offset: A replica's log start offset.
        topic_id: The topic's id.
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
    """A request to read partitions; it waits at most `max_wait_ms` for `min_bytes`.

    Attributes:
        replica_id: The id of a broker or quorum member; -1 for a consumer.
        replica_epoch: The replica's broker epoch (KIP-903); -1: unknown.
        max_bytes: The limit for all partitions together. If the first batch is larger, it is still
            sent (KIP-74).
        isolation_level: `READ_UNCOMMITTED` or `READ_COMMITTED`.
        cluster_id: The cluster id, in fetches of the quorum.
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
    """The records read from one partition.

    Attributes:
        high_watermark: The leader's high watermark; -1 with an error.
        last_stable_offset: Readers with READ_COMMITTED stop here. It equals the high watermark,
            because this cluster has no transactions.
        records: Whole batches. The first batch may begin before the requested offset.
        diverging_epoch, diverging_end_offset: If the logs diverge (KIP-595): the leader's largest
            epoch that is not above the fetched epoch, and the end offset of that epoch. Otherwise
            -1.
        current_leader, current_leader_epoch: The leader, if known and not this node.
        snapshot_end_offset, snapshot_epoch: The snapshot to fetch first (KIP-630); otherwise -1.
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
    """The response to a `FetchRequest`, with the partitions in the same order."""

    partitions: tuple[FetchedPartition, ...]
    error_code: ErrorCode = ErrorCode.none


class ListOffsetsPartition(Struct, frozen=True, kw_only=True):
    """A request for an offset of a partition.

    Attributes:
        timestamp: `EARLIEST`, `LATEST`, `MAX_TIMESTAMP`, or a time in milliseconds. A time in
            milliseconds asks for the first record that has this timestamp or a later one.
    """

    topic: str
    partition: int
    timestamp: int
    current_leader_epoch: int = UNKNOWN


class ListOffsetsRequest(Struct, frozen=True, kw_only=True):
    """A request for offsets of partitions.

    `LATEST` means the log's end if a replica asks, and the high watermark if a consumer asks.
    """

    partitions: tuple[ListOffsetsPartition, ...]
    replica_id: int = CONSUMER
    isolation_level: int = READ_UNCOMMITTED


class ListedOffset(Struct, frozen=True, kw_only=True):
    """An offset, and the timestamp and leader epoch of the record there; -1 without a record."""

    topic: str
    partition: int
    error_code: ErrorCode
    timestamp: int = UNKNOWN
    offset: int = UNKNOWN
    leader_epoch: int = UNKNOWN


class ListOffsetsResponse(Struct, frozen=True, kw_only=True):
    """The response to a `ListOffsetsRequest`, with the partitions in the same order."""

    partitions: tuple[ListedOffset, ...]


class EpochPartition(Struct, frozen=True, kw_only=True):
    """A request for the end of an epoch in the leader's log (KIP-101, KIP-279, KIP-320)."""

    topic: str
    partition: int
    leader_epoch: int
    current_leader_epoch: int = UNKNOWN


class OffsetsForLeaderEpochRequest(Struct, frozen=True, kw_only=True):
    """A request for the ends of epochs; `replica_id` is -1 for a consumer."""

    partitions: tuple[EpochPartition, ...]
    replica_id: int = CONSUMER


class EpochEnd(Struct, frozen=True, kw_only=True):
    """The end of an epoch.

    Attributes:
        leader_epoch: The leader's largest epoch that is not above the requested epoch; -1 if there
            is none.
        end_offset: The end of that epoch; -1: unknown.
    """

    topic: str
    partition: int
    error_code: ErrorCode
    leader_epoch: int = UNKNOWN
    end_offset: int = UNKNOWN


class OffsetsForLeaderEpochResponse(Struct, frozen=True, kw_only=True):
    """The response to an `OffsetsForLeaderEpochRequest`, with the partitions in the same order."""

    partitions: tuple[EpochEnd, ...]
