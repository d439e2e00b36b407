"""The questions that Logquake asks a broker, each of a version that Kafka 4.0 and later know."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.create_topics.v7.request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.describe_quorum.v1.request import DescribeQuorumRequest
from kio.schema.describe_quorum.v1.request import PartitionData as QuorumPartition
from kio.schema.describe_quorum.v1.request import TopicData as QuorumTopic
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.list_offsets.v7.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

Place = tuple[str, int]
"""A topic's name and a partition."""

METADATA_TOPIC = TopicName("__cluster_metadata")
LATEST = i64(-1)
CONSUMER = BrokerId(-1)
ANY_REPLICA = BrokerId(-2)
"""Kafka's "debugging consumer": the only one to whom a replica that does not lead tells its log's
end."""


def api_versions() -> ApiVersionsRequest:
    """Ask whether the broker serves requests at all."""
    return ApiVersionsRequest(client_software_name="logquake", client_software_version="1")


def metadata(topics: Sequence[str] | None) -> MetadataRequest:
    """Ask which brokers are registered and not fenced, and who leads; None: of all topics."""
    asked = None
    if topics is not None:
        asked = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in topics)
    return MetadataRequest(
        topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def quorum() -> DescribeQuorumRequest:
    """Ask for the controllers' quorum; a broker forwards it to the one that leads."""
    partition = QuorumPartition(partition_index=i32(0))
    topic = QuorumTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    return DescribeQuorumRequest(topics=(topic,))


def leader_ends(places: Iterable[Place], *, committed: bool = False) -> ListOffsetsRequest:
    """Ask for high watermarks (or last stable offsets), which only a partition's leader answers."""
    return _ends(places, CONSUMER, i8(1 if committed else 0))


def replica_ends(places: Iterable[Place]) -> ListOffsetsRequest:
    """Ask for log end offsets, which every replica answers."""
    return _ends(places, ANY_REPLICA, i8(0))


def log_starts(starts: Mapping[Place, int]) -> FetchRequest:
    """Fetch at each log's start as little as can be: the answer has the replica's high watermark.

    Past its end a follower answers OFFSET_OUT_OF_RANGE without a high watermark; its start is in
    every log. At most one batch comes back, however many partitions are asked for (KIP-74).

    Args:
        starts: Log start offset by place.
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
        for topic, partitions in _by_topic(starts).items()
    )
    return FetchRequest(
        max_wait=i32Timedelta.parse(timedelta()),
        min_bytes=i32(0),
        max_bytes=i32(1),
        topics=topics,
        forgotten_topics_data=(),
    )


def new_topics(
    names: Iterable[str],
    *,
    partitions: int,
    replication: int,
    configs: Mapping[str, str],
    timeout_s: float,
) -> CreateTopicsRequest:
    """Ask for topics to be made, their replicas wherever the controller likes."""
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
        for topic, partitions in _by_topic(places).items()
    )
    return ListOffsetsRequest(replica_id=who, isolation_level=isolation, topics=topics)


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, partition in places:
        grouped.setdefault(topic, []).append(partition)
    return grouped
