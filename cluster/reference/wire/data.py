"""Convert Produce, Fetch, ListOffsets and OffsetForLeaderEpoch between Kafka's messages and ours.

Kafka's messages nest partitions in topics. Ours are lists of partitions. From version 13 on
(KIP-516), Fetch messages contain topic ids, but no topic names. Our message then has an empty topic
name, which the node fills in.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar
from uuid import UUID

from cluster.reference.messages.data import (
    EpochPartition,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from cluster.reference.wire.translation import Theirs, inner, made, milliseconds

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)


class _InTopic(Protocol):
    @property
    def topic(self) -> str: ...


P = TypeVar("P", bound=_InTopic)


ADMIN_CLIENT = "__admin_client"
"""A client with this name may append to internal topics (Kafka's AdminUtils.ADMIN_CLIENT_ID)."""


def read_produce(said: Theirs, *, client: str) -> ProduceRequest:
    """Convert a ProduceRequest to our message."""
    return ProduceRequest(
        to_internal=client == ADMIN_CLIENT,
        acks=said.acks,
        timeout_ms=milliseconds(said.timeout),
        partitions=tuple(
            ProducePartition(
                topic=topic.name, partition=each.index, records=bytes(each.records or b"")
            )
            for topic in said.topic_data
            for each in topic.partition_data
        ),
    )


def write_produced(own: ProduceResponse, form: type) -> Theirs:
    """Convert our response to a ProduceResponse."""
    of_topic = inner(form, "responses")
    of_partition = inner(of_topic, "partition_responses")

    def partition(each: ProducedPartition) -> object:
        return made(
            of_partition,
            index=each.partition,
            error_code=each.error_code,
            base_offset=each.base_offset,
            log_start_offset=each.log_start_offset,
            error_message=each.error_message,
        )

    topics = tuple(
        made(of_topic, name=topic, partition_responses=tuple(map(partition, partitions)))
        for topic, partitions in by_topic(own.partitions)
    )
    return made(form, responses=topics)


def read_fetch(said: Theirs) -> FetchRequest:
    """Convert a FetchRequest to our message."""
    state: Theirs = getattr(said, "replica_state", said)  # Since version 15 (KIP-903).
    partitions = tuple(_fetch_partitions(said))
    # A partition that is named twice is read once, because Kafka keeps a map.
    if len(partitions) > 1:
        by_name = {(each.topic, each.topic_id, each.partition): each for each in partitions}
        partitions = tuple(by_name.values())
    return FetchRequest(
        replica_id=state.replica_id,
        replica_epoch=getattr(state, "replica_epoch", -1),
        max_wait_ms=milliseconds(said.max_wait),
        min_bytes=said.min_bytes,
        max_bytes=said.max_bytes,
        isolation_level=said.isolation_level,
        cluster_id=getattr(said, "cluster_id", None),
        partitions=partitions,
    )


def _fetch_partitions(said: Theirs) -> Iterator[FetchPartition]:
    for topic in said.topics:
        name, topic_id = _named(topic)
        for each in topic.partitions:
            yield FetchPartition(
                topic=name,
                topic_id=topic_id,
                partition=each.partition,
                fetch_offset=each.fetch_offset,
                partition_max_bytes=each.partition_max_bytes,
                current_leader_epoch=getattr(each, "current_leader_epoch", -1),
                last_fetched_epoch=getattr(each, "last_fetched_epoch", -1),
                log_start_offset=getattr(each, "log_start_offset", -1),
            )


def write_fetched(own: FetchResponse, form: type) -> Theirs:
    """Convert our response to a FetchResponse."""
    of_topic = inner(form, "responses")
    of_partition = inner(of_topic, "partitions")
    topics = tuple(
        made(
            of_topic,
            topic=topic,
            topic_id=METADATA_TOPIC_ID if topic == METADATA_TOPIC else partitions[0].topic_id,
            partitions=tuple(_fetched(each, of_partition) for each in partitions),
        )
        for topic, partitions in by_topic(own.partitions)
    )
    return made(form, responses=topics, error_code=own.error_code)


def _fetched(own: FetchedPartition, form: type) -> object:
    values = {
        "partition_index": own.partition,
        "error_code": own.error_code,
        "high_watermark": own.high_watermark,
        "last_stable_offset": own.last_stable_offset,
        "log_start_offset": own.log_start_offset,
        "records": own.records,
    }
    # Tagged fields are written only if they have a value and the version has them.
    if own.diverging_epoch >= 0 or own.diverging_end_offset >= 0:
        values["diverging_epoch"] = _in(
            form, "diverging_epoch", epoch=own.diverging_epoch, end_offset=own.diverging_end_offset
        )
    if own.current_leader_epoch >= 0:
        values["current_leader"] = _in(
            form,
            "current_leader",
            leader_id=own.current_leader,
            leader_epoch=own.current_leader_epoch,
        )
    if own.snapshot_epoch >= 0:
        values["snapshot_id"] = _in(
            form, "snapshot_id", end_offset=own.snapshot_end_offset, epoch=own.snapshot_epoch
        )
    return made(form, **values)


def _in(form: type, name: str, **values: object) -> object:
    nested = inner(form, name)
    return made(nested, **values) if nested is not object else None


def _named(topic: Theirs) -> tuple[str, UUID | None]:
    topic_id = getattr(topic, "topic_id", None)
    if topic_id == METADATA_TOPIC_ID:
        return METADATA_TOPIC, topic_id
    return getattr(topic, "topic", ""), topic_id


def read_list_offsets(said: Theirs) -> ListOffsetsRequest:
    """Convert a ListOffsetsRequest to our message."""
    return ListOffsetsRequest(
        replica_id=said.replica_id,
        isolation_level=getattr(said, "isolation_level", 0),
        partitions=tuple(
            ListOffsetsPartition(
                topic=topic.name,
                partition=each.partition_index,
                timestamp=each.timestamp,
                current_leader_epoch=getattr(each, "current_leader_epoch", -1),
            )
            for topic in said.topics
            for each in topic.partitions
        ),
    )


def write_listed_offsets(own: ListOffsetsResponse, form: type) -> Theirs:
    """Convert our response to a ListOffsetsResponse."""
    of_topic = inner(form, "topics")
    of_partition = inner(of_topic, "partitions")
    topics = tuple(
        made(
            of_topic,
            name=topic,
            partitions=tuple(
                made(
                    of_partition,
                    partition_index=each.partition,
                    error_code=each.error_code,
                    timestamp=each.timestamp,
                    offset=each.offset,
                    leader_epoch=each.leader_epoch,
                )
                for each in partitions
            ),
        )
        for topic, partitions in by_topic(own.partitions)
    )
    return made(form, topics=topics)


def read_epochs(said: Theirs) -> OffsetsForLeaderEpochRequest:
    """Convert an OffsetForLeaderEpochRequest to our message."""
    return OffsetsForLeaderEpochRequest(
        replica_id=getattr(said, "replica_id", -1),
        partitions=tuple(
            EpochPartition(
                topic=topic.topic,
                partition=each.partition,
                leader_epoch=each.leader_epoch,
                current_leader_epoch=getattr(each, "current_leader_epoch", -1),
            )
            for topic in said.topics
            for each in topic.partitions
        ),
    )


def write_epoch_ends(own: OffsetsForLeaderEpochResponse, form: type) -> Theirs:
    """Convert our response to an OffsetForLeaderEpochResponse."""
    of_topic = inner(form, "topics")
    of_partition = inner(of_topic, "partitions")
    topics = tuple(
        made(
            of_topic,
            topic=topic,
            partitions=tuple(
                made(
                    of_partition,
                    partition=each.partition,
                    error_code=each.error_code,
                    leader_epoch=each.leader_epoch,
                    end_offset=each.end_offset,
                )
                for each in partitions
            ),
        )
        for topic, partitions in by_topic(own.partitions)
    )
    return made(form, topics=topics)


def by_topic(partitions: Iterable[P]) -> list[tuple[str, list[P]]]:
    """Group partitions by topic, and keep their order."""
    grouped: dict[str, list[P]] = {}
    for each in partitions:
        # Topics with different unknown ids must stay separate.
        key = each.topic or str(getattr(each, "topic_id", ""))
        grouped.setdefault(key, []).append(each)
    return [(group[0].topic, group) for group in grouped.values()]
