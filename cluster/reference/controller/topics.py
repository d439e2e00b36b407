"""Create topics, place their partitions on brokers, add partitions, and delete topics.

Partitions are not placed at random: active brokers take turns. Each topic starts with another
broker.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from cluster.files.messages import ConfigRecord, RemoveTopicRecord, TopicRecord
from cluster.reference.controller.draft import Draft
from cluster.reference.controller.image import PartitionImage, TopicImage, placement
from cluster.reference.controller.partitions import directory_of
from cluster.reference.messages.control import (
    TOPIC_RESOURCE,
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
    TopicResult,
)
from cluster.reference.settings import SettingsError

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_TOPIC_IDS = UUID("6e8bb1a2-0f0e-4cf1-9d1f-6f5e0a3f4c11")
_MAX_PARTITIONS = 10_000
"""The most partitions in one request (KAFKA-17870)."""
_MANY = "Excessively large number of partitions per request."
_METADATA_TOPIC = "__cluster_metadata"

Assignment = list[tuple[int, ...]]


@dataclass(slots=True)
class RefusedError(Exception):
    """A request cannot be fulfilled.

    Attributes:
        error: Kafka's error code.
        why: The reason as a sentence.
    """

    error: ErrorCode
    why: str


def create_topics(
    draft: Draft, request: CreateTopicsRequest, *, cluster_id: str
) -> CreateTopicsResponse:
    """Create topics. If one topic cannot be created, the others still are."""
    if sum(_size(draft, each) for each in request.topics) > _MAX_PARTITIONS:
        refused = (
            CreatableTopicResult(
                name=each.name, error_code=ErrorCode.policy_violation, error_message=_MANY
            )
            for each in request.topics
        )
        return CreateTopicsResponse(topics=tuple(refused))
    results = []
    for wanted in request.topics:
        try:
            assignment = _planned(draft, wanted)
        except RefusedError as refused:
            results.append(
                CreatableTopicResult(
                    name=wanted.name, error_code=refused.error, error_message=refused.why
                )
            )
            continue
        topic_id = _topic_id(draft, cluster_id, wanted.name)
        if not request.validate_only:
            _write_topic(draft, wanted, topic_id=topic_id, assignment=assignment)
        results.append(
            CreatableTopicResult(
                name=wanted.name,
                topic_id=topic_id,
                error_code=ErrorCode.none,
                num_partitions=len(assignment),
                replication_factor=len(assignment[0]),
                configs=wanted.configs,
            )
        )
    return CreateTopicsResponse(topics=tuple(results))


def create_partitions(draft: Draft, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add partitions to topics."""
    if sum(max(each.count, 0) for each in request.topics) > _MAX_PARTITIONS:
        refused = (
            TopicResult(name=each.name, error_code=ErrorCode.policy_violation, error_message=_MANY)
            for each in request.topics
        )
        return CreatePartitionsResponse(results=tuple(refused))
    results = []
    for wanted in request.topics:
        try:
            topic, assignment = _more(draft, wanted)
        except RefusedError as refused:
            results.append(
                TopicResult(name=wanted.name, error_code=refused.error, error_message=refused.why)
            )
            continue
        if not request.validate_only:
            _write_partitions(draft, topic, assignment)
        results.append(TopicResult(name=wanted.name, error_code=ErrorCode.none))
    return CreatePartitionsResponse(results=tuple(results))


def delete_topics(draft: Draft, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete topics, by name or by id."""
    return DeleteTopicsResponse(responses=tuple(_delete(draft, each) for each in request.topics))


def _delete(draft: Draft, wanted: DeleteTopicState) -> TopicResult:
    if wanted.topic_id is not None:
        topic, unknown = draft.image.topic(wanted.topic_id), ErrorCode.unknown_topic_id
    else:
        topic = draft.image.topics.get(wanted.name or "")
        unknown = ErrorCode.unknown_topic_or_partition
    if topic is None:
        return TopicResult(
            name=wanted.name,
            topic_id=wanted.topic_id,
            error_code=unknown,
            error_message="This server does not host this topic-partition.",
        )
    draft.write(RemoveTopicRecord(topic_id=topic.topic_id))
    return TopicResult(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.none)


def _topic_id(draft: Draft, cluster_id: str, name: str) -> UUID:
    """Return a unique topic id, derived from the next offset of the metadata log."""
    return uuid5(_TOPIC_IDS, f"{cluster_id}/{draft.next_offset}/{name}")


def _write_topic(
    draft: Draft, wanted: CreatableTopic, *, topic_id: UUID, assignment: Assignment
) -> None:
    draft.write(TopicRecord(name=wanted.name, topic_id=topic_id))
    for name, value in wanted.configs:
        draft.write(
            ConfigRecord(
                resource_type=i8(TOPIC_RESOURCE),
                resource_name=wanted.name,
                name=name,
                value=value,
            )
        )
    _write_partitions(draft, draft.image.topics[wanted.name], assignment)


def _write_partitions(draft: Draft, topic: TopicImage, assignment: Assignment) -> None:
    """Create partitions. Replicas on fenced brokers start outside the ISR (KIP-841)."""
    first = len(topic.partitions)
    for number, replicas in enumerate(assignment, first):
        isr = tuple(each for each in replicas if draft.image.is_active(each))
        partition = PartitionImage(
            topic=topic.name,
            topic_id=topic.topic_id,
            partition=number,
            replicas=replicas,
            isr=isr,
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=tuple(directory_of(draft, each) for each in replicas),
        )
        draft.write(placement(partition))


def _size(draft: Draft, wanted: CreatableTopic) -> int:
    """Return how many partitions a request wants; an invalid number counts as 0."""
    if wanted.assignments:
        return len(wanted.assignments)
    count = wanted.num_partitions
    return max(draft.settings.num_partitions if count == -1 else count, 0)


def _planned(draft: Draft, wanted: CreatableTopic) -> Assignment:
    if wanted.name == _METADATA_TOPIC:
        # Its folder would be the folder of the quorum's log.
        raise RefusedError(
            ErrorCode.invalid_request,
            f"Creation of internal topic {_METADATA_TOPIC} is prohibited.",
        )
    if not _NAME.fullmatch(wanted.name) or wanted.name in (".", ".."):
        raise RefusedError(ErrorCode.invalid_topic_exception, f"Invalid topic: {wanted.name!r}")
    if wanted.name in draft.image.topics:
        raise RefusedError(ErrorCode.topic_already_exists, f"Topic '{wanted.name}' already exists.")
    try:
        draft.settings.topic({name: value for name, value in wanted.configs if value is not None})
    except SettingsError as wrong:
        raise RefusedError(ErrorCode.invalid_config, str(wrong)) from wrong
    if wanted.assignments:
        return _manual(draft, wanted.assignments)
    settings = draft.settings
    count = settings.num_partitions if wanted.num_partitions == -1 else wanted.num_partitions
    if count <= 0:
        raise RefusedError(
            ErrorCode.invalid_partitions,
            f"Number of partitions was set to an invalid value: {count}.",
        )
    factor = wanted.replication_factor
    factor = settings.default_replication_factor if factor == -1 else factor
    return _placed(draft, count, factor=factor)


def _manual(draft: Draft, assignments: Sequence[tuple[int, tuple[int, ...]]]) -> Assignment:
    by_number = dict(assignments)
    if sorted(by_number) != list(range(len(assignments))):
        raise RefusedError(
            ErrorCode.invalid_replica_assignment, "partitions should be a consecutive sequence"
        )
    chosen = [by_number[number] for number in range(len(assignments))]
    for replicas in chosen:
        check_replicas(draft, replicas)
        if len(replicas) != len(chosen[0]):
            raise RefusedError(
                ErrorCode.invalid_replica_assignment, "replication factors must be the same"
            )
        if not any(draft.image.is_active(each) for each in replicas):
            raise RefusedError(
                ErrorCode.invalid_replica_assignment, f"all of {list(replicas)} are fenced"
            )
    return chosen


def check_replicas(draft: Draft, replicas: Sequence[int]) -> None:
    """Raise if a list of replicas is invalid.

    Raises:
        RefusedError: The list is empty, has a duplicate, or names an unknown broker.
    """
    unknown = [each for each in replicas if each not in draft.image.brokers]
    if not replicas or len(set(replicas)) != len(replicas) or unknown:
        raise RefusedError(
            ErrorCode.invalid_replica_assignment,
            f"the replicas {list(replicas)} are empty, repeated, or not registered",
        )


def _placed(draft: Draft, count: int, *, factor: int, first: int = 0) -> Assignment:
    """Place partitions on brokers in turn. Fenced brokers come last: they can only follow."""
    brokers = sorted(draft.image.brokers)
    active = [each for each in brokers if draft.image.is_active(each)]
    if not 0 < factor <= len(brokers) or not active:
        raise RefusedError(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {factor} time(s): The target replication factor"
            f" of {factor} cannot be reached because only {len(brokers)} broker(s) are registered"
            f" and {len(active)} of them active.",
        )
    fenced = [each for each in brokers if each not in active]
    shift = len(draft.image.topics) + first
    return [tuple((_turned(active, shift + number) + fenced)[:factor]) for number in range(count)]


def _turned(brokers: list[int], by: int) -> list[int]:
    start = by % len(brokers)
    return brokers[start:] + brokers[:start]


def _more(draft: Draft, wanted: CreatePartitionsTopic) -> tuple[TopicImage, Assignment]:
    topic = draft.image.topics.get(wanted.name)
    if topic is None:
        raise RefusedError(
            ErrorCode.unknown_topic_or_partition, f"there is no topic {wanted.name!r}"
        )
    has, count = len(topic.partitions), wanted.count - len(topic.partitions)
    if count <= 0:
        raise RefusedError(
            ErrorCode.invalid_partitions,
            f"The topic {wanted.name} currently has {has} partition(s);"
            f" {wanted.count} would not be an increase.",
        )
    if wanted.assignments is None:
        factor = len(topic.partitions[0].replicas)
        return topic, _placed(draft, count, factor=factor, first=has)
    if len(wanted.assignments) != count:
        raise RefusedError(
            ErrorCode.invalid_replica_assignment,
            f"{count} new partition(s) need {count} assignments, not {len(wanted.assignments)}",
        )
    return topic, _manual(draft, list(enumerate(wanted.assignments)))
