"""Sends requests for topics, elections and reassignments; a refusal raises `ClusterError`."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_partition_reassignments.v0.response import (
    AlterPartitionReassignmentsResponse,
)
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.delete_topics.v5.response import DeleteTopicsResponse
from kio.schema.delete_topics.v6 import request as by_id
from kio.schema.delete_topics.v6 import response as of_id
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta
from kio.static.protocol import RequestPayload

from cluster.kafka import questions
from cluster.kafka.dialects import UnknownQuestionError
from cluster.kafka.lines import Lines
from cluster.kafka.questions import Place
from cluster.kafka.versions import NO_TOPIC_ID
from cluster.kafka.wire import A, WireError
from cluster.protocol import ClusterError, UserError
from results.record.topics import CreatedTopic

ORDER_TIMEOUT_S = 20.0
PREFERRED = i8(0)
UNCLEAN = i8(1)
_DELETED = {ErrorCode.none, ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id}
_USERS_FAULT = {
    ErrorCode.invalid_config,
    ErrorCode.invalid_replication_factor,
    ErrorCode.invalid_partitions,
    ErrorCode.invalid_replica_assignment,
    ErrorCode.invalid_topic_exception,
    ErrorCode.policy_violation,
}


class NotControllerError(ClusterError):
    """The broker is not the controller; in ZooKeeper mode only the controller accepts requests."""


class TopicExistsError(ClusterError):
    """A topic of this name already exists."""


def create_topics(
    lines: Lines, request: CreateTopicsRequest, *, nodes: Sequence[str]
) -> list[CreatedTopic]:
    """Create topics.

    Args:
        lines: Connections to the brokers.
        request: The request with the topics.
        nodes: The nodes to ask, one after another, until one of them responds.

    Raises:
        UserError: Kafka refuses the topics for a reason that the user can fix.
        ClusterError: No node answers, or the controller cannot create the topics.
    """
    answer = _first(lines, nodes, request, CreateTopicsResponse, what="creates the topics")
    counts = {
        topic.name: max(int(topic.num_partitions), len(topic.assignments))
        for topic in request.topics
    }
    return [_created(result, counts[result.name]) for result in answer.topics]


def ask_for_topics(lines: Lines, node: str, names: Sequence[str], *, timeout_s: float) -> None:
    """Ask one broker to create topics with one partition and one replica each.

    Raises:
        WireError: No response came in time. The topics may still be created.
        ClusterError: The broker refused the topics.
    """
    request = questions.new_topics(
        names, partitions=1, replication=1, configs={}, timeout_s=ORDER_TIMEOUT_S
    )
    answer = lines.ask(node, request, CreateTopicsResponse, timeout_s=timeout_s)
    for result in answer.topics:
        _created(result, 1)


def delete_topics(lines: Lines, names: Sequence[str], *, nodes: Sequence[str]) -> None:
    """Delete topics; a topic that does not exist is not an error.

    Raises:
        ClusterError: No node answers, or the controller refuses.
    """
    request = DeleteTopicsRequest(
        topic_names=tuple(TopicName(name) for name in names),
        timeout=i32Timedelta.parse(timedelta(seconds=ORDER_TIMEOUT_S)),
    )
    answer = _first(lines, nodes, request, DeleteTopicsResponse, what="deletes topics")
    for each in answer.responses:
        _check_deleted(str(each.name), each.error_message, each.error_code)


def delete_incarnation(lines: Lines, name: str, topic_id: str, *, node: str) -> None:
    """Delete a topic by its id (KIP-516). A broker that is older than Kafka 2.8 gets the name.

    A broker forwards the request to the controller. If no response comes, it sends the request
    again, perhaps to the next controller. With a name, this request could delete a topic that was
    created after the first deletion.

    Raises:
        ClusterError: The node does not answer, or the controller refuses.
    """
    if topic_id == NO_TOPIC_ID:
        delete_topics(lines, [name], nodes=[node])
        return
    request = by_id.DeleteTopicsRequest(
        topics=(by_id.DeleteTopicState(name=None, topic_id=UUID(topic_id)),),
        timeout=i32Timedelta.parse(timedelta(seconds=ORDER_TIMEOUT_S)),
    )
    what = f"{node} does not delete {name}"
    try:
        answer = lines.ask(node, request, of_id.DeleteTopicsResponse, timeout_s=ORDER_TIMEOUT_S + 5)
    except UnknownQuestionError:
        delete_topics(lines, [name], nodes=[node])
        return
    except WireError as unanswered:
        raise ClusterError(f"{what}: {unanswered}") from unanswered
    for each in answer.responses:
        _check_deleted(name, each.error_message, each.error_code)


def _check_deleted(name: str, message: str | None, code: ErrorCode) -> None:
    if code not in _DELETED:
        raise refusal(f"the topic {name} cannot be deleted", message, code)


def elect(lines: Lines, place: Place, *, unclean: bool, nodes: Sequence[str]) -> None:
    """Elect a partition's preferred leader; with `unclean`, elect any live replica (KIP-460).

    Raises:
        ClusterError: No node answers, or the controller refuses.
    """
    request = ElectLeadersRequest(
        election_type=UNCLEAN if unclean else PREFERRED,
        topic_partitions=(TopicPartitions(topic=TopicName(place[0]), partitions=(i32(place[1]),)),),
        timeout=i32Timedelta.parse(timedelta(seconds=ORDER_TIMEOUT_S)),
    )
    answer = _first(lines, nodes, request, ElectLeadersResponse, what="elects a leader")
    results = [each for topic in answer.replica_election_results for each in topic.partition_result]
    codes = [(answer.error_code, None)] + [(it.error_code, it.error_message) for it in results]
    for code, message in codes:
        if code not in (ErrorCode.none, ErrorCode.election_not_needed):
            raise refusal(f"the leader election for {text(place)} failed", message, code)


def reassign(lines: Lines, place: Place, replicas: Sequence[int], *, nodes: Sequence[str]) -> None:
    """Change the replicas of a partition, or their order (KIP-455).

    Raises:
        ClusterError: No node answers, or the controller refuses.
    """
    partition = ReassignablePartition(
        partition_index=i32(place[1]), replicas=tuple(BrokerId(each) for each in replicas)
    )
    request = AlterPartitionReassignmentsRequest(
        timeout=i32Timedelta.parse(timedelta(seconds=ORDER_TIMEOUT_S)),
        topics=(ReassignableTopic(name=TopicName(place[0]), partitions=(partition,)),),
    )
    answer = _first(
        lines, nodes, request, AlterPartitionReassignmentsResponse, what="reassigns replicas"
    )
    results = [each for topic in answer.responses for each in topic.partitions]
    codes = [(answer.error_code, answer.error_message)]
    codes += [(each.error_code, each.error_message) for each in results]
    for code, message in codes:
        if code is not ErrorCode.none:
            raise refusal(
                f"the reassignment of the replicas of {text(place)} failed", message, code
            )


def refusal(what: str, message: str | None, code: ErrorCode) -> ClusterError:
    """Return the error to raise for a request that Kafka refused."""
    sentence = f"{what}: {message or code.name.upper()}"
    if code is ErrorCode.not_controller:
        return NotControllerError(sentence)
    if code is ErrorCode.topic_already_exists:
        return TopicExistsError(sentence)
    return (UserError if code in _USERS_FAULT else ClusterError)(sentence)


def text(place: Place) -> str:
    """Return a partition's name in Kafka's notation, such as `log-0-3`."""
    return f"{place[0]}-{place[1]}"


def _first(
    lines: Lines, nodes: Sequence[str], request: RequestPayload, answer: type[A], *, what: str
) -> A:
    """Return the response of the first node that answers."""
    failure: WireError | None = None
    for node in nodes:
        try:
            return lines.ask(node, request, answer, timeout_s=ORDER_TIMEOUT_S + 5)
        except WireError as unanswered:
            failure = unanswered
    raise ClusterError(f"no broker {what}: {failure}") from failure


def _created(result: CreatableTopicResult, partitions: int) -> CreatedTopic:
    if result.error_code is not ErrorCode.none:
        what = f"the topic {result.name} cannot be created"
        raise refusal(what, result.error_message, result.error_code)
    return CreatedTopic(
        topic=str(result.name),
        topic_id=str(result.topic_id or NO_TOPIC_ID),
        partitions=max(partitions, int(result.num_partitions)),
    )
