"""Builds the requests that Logquake sends, in versions that Kafka 4.0 and later support.

For brokers that only support older versions, `dialects` converts the requests.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.request import TopicRequest as ProducersTopic
from kio.schema.describe_quorum.v1.request import DescribeQuorumRequest
from kio.schema.describe_quorum.v1.request import PartitionData as QuorumPartition
from kio.schema.describe_quorum.v1.request import TopicData as QuorumTopic
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v13.request import FetchPartition as QuorumFetchPartition
from kio.schema.fetch.v13.request import FetchRequest as QuorumFetchRequest
from kio.schema.fetch.v13.request import FetchTopic as QuorumFetchTopic
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.schema.list_offsets.v7.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.list_transactions.v0.request import ListTransactionsRequest
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.types import BrokerId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from cluster.protocol import CoordinatorKind

Place = tuple[str, int]
"""A topic's name and a partition number."""

METADATA_TOPIC = TopicName("__cluster_metadata")
METADATA_TOPIC_ID = UUID(int=1)
LATEST = i64(-1)
CONSUMER = BrokerId(-1)
NO_EPOCH = -1
ANY_REPLICA = BrokerId(-2)
"""The replica id of Kafka's "debugging consumer". A follower reports its log end offset only to
requests with this id."""


def metadata(topics: Sequence[str] | None) -> MetadataRequest:
    """Ask for the unfenced brokers and the leaders of topics; None means all topics."""
    asked = None
    if topics is not None:
        asked = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in topics)
    return MetadataRequest(
        topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def quorum() -> DescribeQuorumRequest:
    """Ask for the state of the controllers' quorum; a broker forwards this to the leader."""
    partition = QuorumPartition(partition_index=i32(0))
    topic = QuorumTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    return DescribeQuorumRequest(topics=(topic,))


def quorum_belief() -> QuorumFetchRequest:
    """Ask a controller for the quorum's leader: send a fetch request without an epoch.

    The controller returns no data for this request. But its response always names the leader and
    the epoch that it knows, even if the response is an error (KIP-595).
    """
    partition = QuorumFetchPartition(
        partition=i32(0), fetch_offset=i64(0), partition_max_bytes=i32(1)
    )
    return QuorumFetchRequest(
        max_wait=i32Timedelta.parse(timedelta()),
        min_bytes=i32(0),
        max_bytes=i32(1),
        topics=(QuorumFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def coordinator(kind: CoordinatorKind, key: str) -> FindCoordinatorRequest:
    """Ask for the coordinator of a group or transactional id (KIP-98)."""
    return FindCoordinatorRequest(
        key=key, key_type=i8(1 if kind is CoordinatorKind.TRANSACTION else 0)
    )


def leader_ends(places: Iterable[Place], *, committed: bool = False) -> ListOffsetsRequest:
    """Ask for high watermarks or last stable offsets; only a partition's leader answers."""
    return _ends(places, CONSUMER, i8(1 if committed else 0))


def producers(places: Iterable[Place]) -> DescribeProducersRequest:
    """Ask a leader for the producers and open transactions of partitions (KIP-664)."""
    return DescribeProducersRequest(
        topics=tuple(
            ProducersTopic(name=TopicName(topic), partition_indexes=tuple(map(i32, partitions)))
            for topic, partitions in by_topic(places).items()
        )
    )


def transactions_of(producer_ids: Iterable[int]) -> ListTransactionsRequest:
    """Ask a broker which transactional ids of these producers the broker coordinates (KIP-664)."""
    return ListTransactionsRequest(
        state_filters=(), producer_id_filters=tuple(map(ProducerId, map(i64, producer_ids)))
    )


def transactions(transactional_ids: Iterable[TransactionalId]) -> DescribeTransactionsRequest:
    """Ask a coordinator for the state and partitions of transactions (KIP-664)."""
    return DescribeTransactionsRequest(transactional_ids=tuple(transactional_ids))


def replica_ends(places: Iterable[Place]) -> ListOffsetsRequest:
    """Ask for log end offsets; every replica answers."""
    return _ends(places, ANY_REPLICA, i8(0))


def log_starts(starts: Mapping[Place, int]) -> FetchRequest:
    """Fetch as little as possible at each log's start, to get the replica's high watermark.

    Every fetch response has the high watermark. The fetch is at the log's start because every
    replica has this offset. A fetch beyond a follower's log end would return OFFSET_OUT_OF_RANGE
    without a high watermark. The response has at most one batch for all partitions (KIP-74). A
    follower before 2.4 (KIP-392) responds only to the debugging consumer.

    Args:
        starts: The log start offset of each partition.
    """
    topics = tuple(
        FetchTopic(
            topic=TopicName(topic),
            partitions=tuple(
                FetchPartition(
                    partition=i32(partition),
                    fetch_offset=i64(starts[topic, partition]),
                    partition_max_bytes=i32(1),
                )
                for partition in partitions
            ),
        )
        for topic, partitions in by_topic(starts).items()
    )
    return FetchRequest(
        replica_id=ANY_REPLICA,
        max_wait=i32Timedelta.parse(timedelta()),
        min_bytes=i32(0),
        max_bytes=i32(1),
        # Before 2.3 only answers to read_committed consumers have the last stable offset.
        isolation_level=i8(1),
        topics=topics,
        forgotten_topics_data=(),
    )


def leader_end(place: Place, *, current_leader_epoch: int = NO_EPOCH) -> ListOffsetsRequest:
    """Ask for a partition's high watermark, like a consumer that knows a leader epoch.

    A leader in a newer epoch answers FENCED_LEADER_EPOCH. A leader in an older epoch answers
    UNKNOWN_LEADER_EPOCH (KIP-320). The value -1 means that no epoch is sent.
    """
    asked = ListOffsetsPartition(
        partition_index=i32(place[1]),
        current_leader_epoch=i32(current_leader_epoch),
        timestamp=LATEST,
    )
    topic = ListOffsetsTopic(name=TopicName(place[0]), partitions=(asked,))
    return ListOffsetsRequest(replica_id=CONSUMER, isolation_level=i8(0), topics=(topic,))


def epoch_end(
    place: Place, *, epoch: int, current_leader_epoch: int = NO_EPOCH
) -> OffsetForLeaderEpochRequest:
    """Ask a leader for the end offset of an epoch, as a follower does (KIP-101, KIP-279)."""
    asked = OffsetForLeaderPartition(
        partition=i32(place[1]),
        current_leader_epoch=i32(current_leader_epoch),
        leader_epoch=i32(epoch),
    )
    topic = OffsetForLeaderTopic(topic=TopicName(place[0]), partitions=(asked,))
    return OffsetForLeaderEpochRequest(replica_id=ANY_REPLICA, topics=(topic,))


def new_topic(
    name: str,
    *,
    assignment: Mapping[int, Sequence[int]],
    configs: Mapping[str, str],
    timeout_s: float,
) -> CreateTopicsRequest:
    """Ask for a new topic. `assignment` has the broker ids of each partition's replicas."""
    topic = CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(-1),
        replication_factor=i16(-1),
        assignments=tuple(
            CreatableReplicaAssignment(
                partition_index=i32(partition), broker_ids=tuple(BrokerId(each) for each in brokers)
            )
            for partition, brokers in sorted(assignment.items())
        ),
        configs=tuple(CreatableTopicConfig(name=key, value=configs[key]) for key in configs),
    )
    timeout = i32Timedelta.parse(timedelta(seconds=timeout_s))
    return CreateTopicsRequest(topics=(topic,), timeout=timeout)


def new_topics(
    names: Iterable[str],
    *,
    partitions: int,
    replication: int,
    configs: Mapping[str, str],
    timeout_s: float,
) -> CreateTopicsRequest:
    """Ask for new topics, and let the controller choose the brokers of their replicas."""
    settings = tuple(CreatableTopicConfig(name=key, value=configs[key]) for key in configs)
    topics = tuple(
        CreatableTopic(
            name=TopicName(name),
            num_partitions=i32(partitions),
            replication_factor=i16(replication),
            assignments=(),
            configs=settings,
        )
        for name in names
    )
    timeout = i32Timedelta.parse(timedelta(seconds=timeout_s))
    return CreateTopicsRequest(topics=topics, timeout=timeout)


def _ends(places: Iterable[Place], who: BrokerId, isolation: i8) -> ListOffsetsRequest:
    topics = tuple(
        ListOffsetsTopic(
            name=TopicName(topic),
            partitions=tuple(
                ListOffsetsPartition(partition_index=i32(partition), timestamp=LATEST)
                for partition in partitions
            ),
        )
        for topic, partitions in by_topic(places).items()
    )
    return ListOffsetsRequest(replica_id=who, isolation_level=isolation, topics=topics)


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in places:
        grouped.setdefault(topic, []).append(partition)
    return grouped
