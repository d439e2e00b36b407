"""Queries one broker, for scenarios: metadata, replicas, and the responses that clients get.

Each method queries only the named broker. The broker can have any version since 0.11. If its
version does not report a field, the field is None.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kio.schema.describe_quorum.v1.response import DescribeQuorumResponse, PartitionData
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.fetch.v13.response import FetchResponse as QuorumFetchResponse
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse

from cluster.kafka import orders, questions, rows
from cluster.kafka.dialects import UnknownQuestionError
from cluster.kafka.lines import ANSWER_TIMEOUT_S, Lines
from cluster.kafka.questions import NO_EPOCH, Place
from cluster.protocol import Endpoint

NO_ERROR = "NONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """One broker's own metadata of a partition.

    Attributes:
        leader: The leader's broker id; -1 if there is none.
        leader_epoch: None before Kafka 2.1, where metadata have no leader epoch.
        isr: Broker ids, ascending.
    """

    leader: int
    leader_epoch: int | None
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAnswer:
    """The offsets that a broker reports for its own replica; None if not reported."""

    log_start_offset: int | None
    log_end_offset: int | None
    high_watermark: int | None
    last_stable_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The end of an epoch in a leader's log (OffsetForLeaderEpoch).

    Attributes:
        error: Kafka's error name, such as `NONE`, `FENCED_LEADER_EPOCH`, `NOT_LEADER_OR_FOLLOWER`.
        leader_epoch: The requested epoch, or the highest lower epoch in the log. None if the log
            has neither epoch, or if the broker does not report one (before Kafka 2.0).
        end_offset: The end offset of `leader_epoch`, or None if unknown.
    """

    error: str
    leader_epoch: int | None
    end_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A broker's response to a client whose request states the leader epoch that the client knows.

    Attributes:
        error: Kafka's error name, such as `NONE`, `FENCED_LEADER_EPOCH`, `UNKNOWN_LEADER_EPOCH`.
        offset: The broker's high watermark; None with an error.
        leader_epoch: The epoch in which the broker leads; None if not reported.
    """

    error: str
    offset: int | None
    leader_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumAnswer:
    """The quorum's state, as the quorum's leader reports it.

    Attributes:
        leader, leader_epoch: Node id and epoch of the leader.
        high_watermark: The high watermark of the metadata log.
        voters, observers: Log end offsets by node id; -1 if the leader does not know the offset.
    """

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: Mapping[int, int]
    observers: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumBelief:
    """The leader of the controllers' quorum that one controller knows.

    Attributes:
        leader: The leader's node id; -1 if the controller knows no leader, e.g. during a vote.
        leader_epoch: The controller's current epoch.
    """

    leader: int
    leader_epoch: int


class Asker:
    """Connections for queries to each node; several threads may use it at once.

    Every method raises `WireError` if the node does not answer in time. If the node's version does
    not know the request, the method raises the subclass `UnknownQuestionError`.

    Args:
        endpoints: The addresses of brokers, and of controllers that are not brokers.
        answers: Returns whether a node is running and not paused.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], answers: Callable[[str], bool]) -> None:
        self._lines = Lines(endpoints, answers)
        self._voters = Lines(
            {
                node: replace(at, broker_port=at.controller_port)
                for node, at in endpoints.items()
                if at.controller_port
            },
            answers,
        )

    def ask_for_topics(self, node: str, names: Sequence[str], *, timeout_s: float) -> None:
        """Ask one broker to create topics with one partition and one replica each.

        Raises:
            WireError: No response came in time. The topics may still be created.
            ClusterError: The broker refused the topics.
        """
        orders.ask_for_topics(self._lines, node, names, timeout_s=timeout_s)

    def belief(
        self, node: str, place: Place, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Belief | None:
        """Return a broker's own metadata of a partition, or None if the partition is unknown."""
        answer = self._lines.ask(
            node, questions.metadata([place[0]]), MetadataResponse, timeout_s=timeout_s
        )
        said = {each.place: each for each in rows.beliefs(answer, {})}.get(place)
        if said is None:
            return None
        return Belief(
            leader=said.leader, leader_epoch=_known(said.leader_epoch), isr=said.isr or ()
        )

    def replica(
        self, node: str, place: Place, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> ReplicaAnswer:
        """Return the offsets that a broker reports for its own replica, as a leader or follower."""
        ends = self._lines.ask(
            node, questions.replica_ends([place]), ListOffsetsResponse, timeout_s=timeout_s
        )
        end = rows.log_ends(ends).get(place)
        fetched, start = self._at_start(node, place, timeout_s=timeout_s)
        told = rows.replica_ends(fetched).get(place)
        return ReplicaAnswer(
            log_start_offset=_known(told.log_start_offset) if told else start,
            log_end_offset=end,
            high_watermark=told.high_watermark if told else None,
            last_stable_offset=_known(told.last_stable_offset) if told else None,
        )

    def epoch_end(
        self,
        node: str,
        place: Place,
        *,
        epoch: int,
        current_leader_epoch: int | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> EpochEnd:
        """Ask a leader for the end offset of an epoch.

        Args:
            node: The node to ask.
            place: Topic and partition.
            epoch: The epoch in question.
            current_leader_epoch: The epoch that the client claims to know (Kafka 2.1 and later), or
                None.
            timeout_s: The time limit in seconds.
        """
        question = questions.epoch_end(
            place, epoch=epoch, current_leader_epoch=_or_none(current_leader_epoch)
        )
        answer = self._lines.ask(node, question, OffsetForLeaderEpochResponse, timeout_s=timeout_s)
        said = answer.topics[0].partitions[0]
        return EpochEnd(
            error=_error(said.error_code),
            leader_epoch=_known(said.leader_epoch),
            end_offset=_known(said.end_offset),
        )

    def leader_answer(
        self,
        node: str,
        place: Place,
        *,
        current_leader_epoch: int | None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> Answer:
        """Ask for the partition's end as a consumer does (ListOffsets). Only a leader returns it.

        Args:
            node: The node to ask.
            place: Topic and partition.
            current_leader_epoch: The epoch that the client claims to know (Kafka 2.1 and later), or
                None.
            timeout_s: The time limit in seconds.
        """
        question = questions.leader_end(place, current_leader_epoch=_or_none(current_leader_epoch))
        answer = self._lines.ask(node, question, ListOffsetsResponse, timeout_s=timeout_s)
        said = answer.topics[0].partitions[0]
        return Answer(
            error=_error(said.error_code),
            offset=_known(said.offset),
            leader_epoch=_known(said.leader_epoch),
        )

    def quorum(self, node: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> QuorumAnswer | None:
        """Ask a node for the state of the controllers' quorum.

        A broker, or a combined node, forwards the request to the quorum's leader. A separate
        controller does not forward the request: it reports the state only while it considers itself
        the leader.

        Returns:
            None if there is no leader or no quorum, or if the asked controller is not the leader in
            its own view.
        """
        try:
            answer = self._lines.ask(
                node, questions.quorum(), DescribeQuorumResponse, timeout_s=timeout_s
            )
        except UnknownQuestionError:
            return None
        if answer.error_code is not ErrorCode.none or not answer.topics:
            return None
        said = answer.topics[0].partitions[0]
        return _quorum(said) if said.error_code is ErrorCode.none else None

    def quorum_belief(
        self, node: str, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> QuorumBelief | None:
        """Ask a controller, combined or separate, which node it considers the quorum's leader.

        The controller itself responds, even if it is not the leader. In this, the method differs
        from `quorum`.

        Returns:
            None if the controller does not report a leader, or if the node is not a controller.
        """
        if node not in self._voters.nodes:
            return None
        answer = self._voters.ask(
            node, questions.quorum_belief(), QuorumFetchResponse, timeout_s=timeout_s
        )
        said = rows.quorum_belief(answer, node)
        if said is None:
            return None
        return QuorumBelief(leader=said.leader, leader_epoch=said.epoch)

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self._lines.close()
        self._voters.close()

    def _at_start(
        self, node: str, place: Place, *, timeout_s: float
    ) -> tuple[FetchResponse, int | None]:
        """Fetch at the log's start. If the broker reports another start, fetch there instead."""
        start: int | None = None
        for _attempt in range(2):
            answer = self._lines.ask(
                node, questions.log_starts({place: start or 0}), FetchResponse, timeout_s=timeout_s
            )
            told = answer.responses[0].partitions[0]
            start = _known(told.log_start_offset)
            if told.error_code is not ErrorCode.offset_out_of_range or start is None:
                break
        return answer, start


def _quorum(said: PartitionData) -> QuorumAnswer:
    return QuorumAnswer(
        leader=int(said.leader_id),
        leader_epoch=int(said.leader_epoch),
        high_watermark=int(said.high_watermark),
        voters={int(each.replica_id): int(each.log_end_offset) for each in said.current_voters},
        observers={int(each.replica_id): int(each.log_end_offset) for each in said.observers},
    )


def _error(code: ErrorCode) -> str:
    return code.name.upper()


def _known(number: int) -> int | None:
    return int(number) if number >= 0 else None


def _or_none(epoch: int | None) -> int:
    return NO_EPOCH if epoch is None else epoch
