"""Asks a broker what it believes, holds and accepts, for scenarios: one question, one answer.

Everything is asked of the broker that is named and of no other, of any version from 0.11 on. What a
version cannot tell is None.
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
    """What a broker's own metadata say of a partition.

    Attributes:
        leader: A broker's id; -1: none.
        leader_epoch: None before Kafka 2.1, whose metadata have none.
        isr: Broker ids, ascending.
    """

    leader: int
    leader_epoch: int | None
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAnswer:
    """What a broker tells of its own replica; None of what it did not tell."""

    log_start_offset: int | None
    log_end_offset: int | None
    high_watermark: int | None
    last_stable_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """Where an epoch ends in a leader's log (OffsetForLeaderEpoch).

    Attributes:
        error: Kafka's constant: `NONE`, `FENCED_LEADER_EPOCH`, `NOT_LEADER_OR_FOLLOWER`, ...
        leader_epoch: The asked epoch, or the highest one below that the leader has; None if it
            knows none, or does not say which (before Kafka 2.0).
        end_offset: None if it knows none.
    """

    error: str
    leader_epoch: int | None
    end_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a broker says to a client that names the epoch it knows.

    Attributes:
        error: Kafka's constant: `NONE`, `FENCED_LEADER_EPOCH`, `UNKNOWN_LEADER_EPOCH`, ...
        offset: Its high watermark; None with an error.
        leader_epoch: In which it leads; None if it does not say.
    """

    error: str
    offset: int | None
    leader_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumAnswer:
    """What the leader of the controllers' quorum says of it.

    Attributes:
        leader, leader_epoch: Node id and epoch.
        high_watermark: Of the metadata log.
        voters, observers: Log end offsets by node id; -1 of those that it does not know.
    """

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: Mapping[int, int]
    observers: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumBelief:
    """Whom a controller takes for the quorum's leader, by itself.

    Attributes:
        leader: Node id; -1: it knows none, as while it votes.
        leader_epoch: The epoch that it is in.
    """

    leader: int
    leader_epoch: int


class Asker:
    """Connections of its own to each node; safe to use from several threads.

    Every method raises `WireError` if the node does not answer within its limit, and its subclass
    `UnknownQuestionError` if it is too old for the question.

    Args:
        endpoints: Of brokers, and of controllers of their own.
        answers: Tells of a node whether asking it is worth the wait.
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
        """Ask one broker, and no other, for topics of one partition and one replica each.

        Raises:
            WireError: No answer came in time; the topics may come to be all the same.
            ClusterError: They are refused.
        """
        orders.ask_for_topics(self._lines, node, names, timeout_s=timeout_s)

    def belief(
        self, node: str, place: Place, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Belief | None:
        """Return what a broker's own metadata say of a partition; None if they do not know it."""
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
        """Return what a broker tells of its own replica, whether it leads or follows."""
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
        """Ask a leader where an epoch ends.

        Args:
            node: Whom.
            place: Topic and partition.
            epoch: Whose end is asked for.
            current_leader_epoch: The epoch that the asker knows (Kafka 2.1 and later); None: none.
            timeout_s: The limit.
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
        """Ask as a consumer for the partition's end (ListOffsets), which a leader answers only.

        Args:
            node: Whom.
            place: Topic and partition.
            current_leader_epoch: The epoch that the asker knows (Kafka 2.1 and later); None: none.
            timeout_s: The limit.
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
        """Ask for the controllers' quorum.

        A broker, and a node that is both, asks the quorum's leader; a controller of its own answers
        by itself, and only while it believes to lead.

        Returns:
            None: there is no leader, or the controller does not believe to be it, or the cluster
            has no such quorum.
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
        """Ask a controller, be it combined or of its own, whom it takes for the quorum's leader.

        Unlike `quorum`, it answers by itself, whoever leads.

        Returns:
            None: it does not say, or the node is no controller.
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
        """Fetch at the log's start, which the answer tells if it is not 0."""
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
