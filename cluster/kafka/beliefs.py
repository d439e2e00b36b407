"""Asks which node coordinates a group or transactional id, or which topics a broker knows."""

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse
from kio.schema.metadata.v12.response import MetadataResponse

from cluster.kafka import questions
from cluster.kafka.lines import Lines
from cluster.kafka.wire import WireError
from cluster.protocol import CoordinatorKind
from results.record.nodes import node_id


def coordinator_of(lines: Lines, kind: CoordinatorKind, key: str) -> str | None:
    """Return the node that coordinates a group or transactional id.

    The function asks the brokers in turn until one knows the coordinator. The coordinator is the
    leader of the internal topic's partition that stores the id. The result is None while this
    partition has no leader, or while Kafka creates the internal topic.
    """
    question = questions.coordinator(kind, key)
    names = {node_id(node): node for node in lines.nodes}
    for node in lines.nodes:
        try:
            answer = lines.ask(node, question, FindCoordinatorResponse)
        except WireError:
            continue
        if answer.error_code is ErrorCode.none and answer.node_id in names:
            return names[answer.node_id]
    return None


def topics_of(lines: Lines, node: str) -> frozenset[str] | None:
    """Return the topics that one broker knows, or None if the broker does not answer."""
    try:
        answer = lines.ask(node, questions.metadata(None), MetadataResponse)
    except WireError:
        return None
    return frozenset(str(topic.name) for topic in answer.topics)
