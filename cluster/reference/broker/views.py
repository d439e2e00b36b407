"""Answer clients' questions from a broker's own metadata image, with pure functions."""

from collections.abc import Iterator
from dataclasses import fields
from uuid import UUID

from kio.schema.errors import ErrorCode

from cluster.files.group_offsets import OFFSETS_TOPIC
from cluster.reference.controller.image import BrokerImage, MetadataImage, PartitionImage
from cluster.reference.messages.clients import (
    DescribeClusterBroker,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from cluster.reference.messages.control import BROKER_RESOURCE, TOPIC_RESOURCE
from cluster.reference.settings import Settings, TopicSettings

NOBODY = -1
_OF_THE_TOPIC, _OF_THE_FILE = 1, 4
_ZERO = UUID(int=0)


def metadata(
    image: MetadataImage, asked: MetadataRequest, *, cluster_id: str, me: int
) -> MetadataResponse:
    """Return the response to a metadata request: the unfenced brokers, and the leaders of topics.

    The response names this broker as the controller; if this broker is fenced, it names another
    broker. Any broker can be named, because each one forwards requests to the controller (KIP-590).
    """
    live = [broker for broker in image.brokers.values() if not broker.fenced]
    wanted = asked.topics
    if wanted is None:
        wanted = tuple(MetadataRequestTopic(name=name) for name in image.topics)
    ids = [broker.broker_id for broker in live]
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(
                node_id=each.broker_id, host=place[0], port=place[1], rack=each.rack
            )
            for each in live
            if (place := address_of(each)) is not None
        ),
        cluster_id=cluster_id,
        controller_id=me if me in ids else next(iter(ids), NOBODY),
        topics=tuple(_topic(image, each) for each in dict.fromkeys(wanted)),
    )


def address_of(broker: BrokerImage) -> tuple[str, int] | None:
    """Return the address for clients: a broker's first listener."""
    for listener in broker.listeners:
        return listener.host, listener.port
    return None


def cluster(image: MetadataImage, *, cluster_id: str, controller: int) -> DescribeClusterResponse:
    """Return the registered brokers that are not fenced (KIP-700)."""
    return DescribeClusterResponse(
        cluster_id=cluster_id,
        controller_id=controller,
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=each.broker_id, host=place[0], port=place[1], rack=each.rack
            )
            for each in image.brokers.values()
            if not each.fenced and (place := address_of(each)) is not None
        ),
    )


def topic_partitions(
    image: MetadataImage, asked: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return the leaders of topics, without eligible leader replicas (KIP-966)."""
    names = dict.fromkeys(each.name for each in asked.topics) or list(image.topics)
    return DescribeTopicPartitionsResponse(topics=tuple(_described(image, name) for name in names))


def configs(
    image: MetadataImage, asked: DescribeConfigsRequest, settings: Settings
) -> DescribeConfigsResponse:
    """Return the current settings (KIP-133)."""
    return DescribeConfigsResponse(
        # A resource that is named several times is answered once, so that a small request does not
        # cause a large response.
        results=tuple(_configs(image, each, settings) for each in dict.fromkeys(asked.resources))
    )


def _topic(image: MetadataImage, asked: MetadataRequestTopic) -> MetadataResponseTopic:
    by_id = asked.name is None and asked.topic_id is not None
    known = image.topic(asked.topic_id or _ZERO) if by_id else image.topics.get(asked.name or "")
    if known is None:
        error = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
        if not by_id and not is_topic_name(asked.name or ""):
            error = ErrorCode.invalid_topic_exception
        return MetadataResponseTopic(
            error_code=error, name=asked.name or "", topic_id=asked.topic_id if by_id else None
        )
    return MetadataResponseTopic(
        name=known.name,
        topic_id=known.topic_id,
        is_internal=known.name == OFFSETS_TOPIC,
        partitions=tuple(
            MetadataResponsePartition(
                error_code=_availability(image, each),
                partition_index=each.partition,
                leader_id=each.leader,
                leader_epoch=each.leader_epoch,
                replica_nodes=each.replicas,
                isr_nodes=each.isr,
                offline_replicas=tuple(_offline(image, each)),
            )
            for each in known.partitions.values()
        ),
    )


def is_topic_name(name: str) -> bool:
    """Return whether a topic can have this name (Kafka's Topic.validate)."""
    if not 0 < len(name) <= LONGEST_NAME or name in {".", ".."}:
        return False
    return all(each.isascii() and (each.isalnum() or each in "._-") for each in name)


LONGEST_NAME = 249


def _described(image: MetadataImage, name: str) -> DescribeTopicPartitionsResponseTopic:
    known = image.topics.get(name)
    if known is None:
        return DescribeTopicPartitionsResponseTopic(
            error_code=ErrorCode.unknown_topic_or_partition, name=name
        )
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=known.topic_id,
        is_internal=name == OFFSETS_TOPIC,
        partitions=tuple(
            DescribeTopicPartitionsResponsePartition(
                error_code=_availability(image, each),
                partition_index=each.partition,
                leader_id=each.leader,
                leader_epoch=each.leader_epoch,
                replica_nodes=each.replicas,
                isr_nodes=each.isr,
                offline_replicas=tuple(_offline(image, each)),
            )
            for each in known.partitions.values()
        ),
    )


def _availability(image: MetadataImage, partition: PartitionImage) -> ErrorCode:
    leader = image.brokers.get(partition.leader)
    if leader is None or leader.fenced:
        return ErrorCode.leader_not_available
    return ErrorCode.none


def _offline(image: MetadataImage, partition: PartitionImage) -> Iterator[int]:
    for replica in partition.replicas:
        known = image.brokers.get(replica)
        if known is None or known.fenced:
            yield replica


def _configs(
    image: MetadataImage, asked: DescribeConfigsResource, settings: Settings
) -> DescribeConfigsResult:
    name = asked.resource_name
    if asked.resource_type == TOPIC_RESOURCE and name in image.topics:
        own = image.config(TOPIC_RESOURCE, name)
        values = _texts(settings.topic(own))
        found = {key: (value, key in own) for key, value in values.items()}
    elif asked.resource_type == BROKER_RESOURCE:
        found = {key: (value, False) for key, value in _texts(settings).items()}
    else:
        error = ErrorCode.invalid_request
        if asked.resource_type == TOPIC_RESOURCE:
            error = ErrorCode.unknown_topic_or_partition
        return DescribeConfigsResult(
            error_code=error, resource_type=asked.resource_type, resource_name=name
        )
    keys = asked.configuration_keys
    return DescribeConfigsResult(
        resource_type=asked.resource_type,
        resource_name=name,
        configs=tuple(
            DescribeConfigsResourceResult(
                name=key,
                value=value,
                is_default=not own_value,
                config_source=_OF_THE_TOPIC if own_value else _OF_THE_FILE,
            )
            for key, (value, own_value) in found.items()
            if keys is None or key in keys
        ),
    )


def _texts(settings: Settings | TopicSettings) -> dict[str, str]:
    """Return settings as texts, by Kafka's names."""
    found = {}
    for each in fields(settings):
        value = getattr(settings, each.name)
        if isinstance(value, bool | int | str):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            found[each.name.replace("_", ".")] = text
    return found
