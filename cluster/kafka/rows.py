"""Converts brokers' responses to rows of the run's tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kio.schema.describe_quorum.v1.response import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.fetch.v13.response import FetchResponse as QuorumFetchResponse
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.metadata.v12.response import MetadataResponse

from cluster.kafka.questions import Place
from cluster.kafka.thinning import Thinning
from cluster.kafka.versions import NO_TOPIC_ID
from results.record.clock import NS_PER_S
from results.record.nodes import node_id
from results.record.tables import LIVE

NOTED = "noted"
"""The name of the last snapshot before a run's stop."""
LEADER_REPEAT_NS = 2 * NS_PER_S
"""The longest time between two rows about an unchanged leader.

A repeated row shows that the high watermark has not changed. The check for consumers that read
beyond the high watermark needs these rows.
"""
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The times of a broker's answer, and the broker's incarnation.

    Attributes:
        asked_ns, observed_ns: The times before the request and after the response.
        incarnation: How many times the broker was started.
        snapshot: The name of the snapshot for which every row is written. None: write only changed
            rows.
    """

    asked_ns: int
    observed_ns: int
    incarnation: int
    snapshot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """A report about a partition's leader. Leader -1: no leader; epoch -1: not reported."""

    place: Place
    topic_id: str
    leader: int
    leader_epoch: int
    isr: tuple[int, ...] | None = None
    high_watermark: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEnds:
    """The high watermark, last stable offset and log start that a replica itself reports."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """A node's state in the controllers' quorum.

    Attributes:
        role: leader, follower (a voter) or observer (no voter). None if no leader is known.
        epoch, leader: The quorum's epoch, and the leader's node id or -1.
        high_watermark, log_end_offset: The offsets that the leader reports; None if it does not
            report them.
    """

    role: str | None
    epoch: int
    leader: int
    high_watermark: int | None = None
    log_end_offset: int | None = None


def beliefs(answer: MetadataResponse, topic_ids: Mapping[str, str]) -> Iterator[Leadership]:
    """Yield the leader and ISR of each partition in a broker's metadata.

    Args:
        answer: The broker's answer.
        topic_ids: The id of each topic, for brokers that do not report ids (before Kafka 2.8).
    """
    for topic in answer.topics:
        for state in topic.partitions:
            yield Leadership(
                place=(str(topic.name), int(state.partition_index)),
                topic_id=str(topic.topic_id or topic_ids.get(str(topic.name), NO_TOPIC_ID)),
                leader=int(state.leader_id),
                leader_epoch=int(state.leader_epoch),
                isr=tuple(sorted(int(replica) for replica in state.isr_nodes)),
            )


def claims(
    answer: ListOffsetsResponse, node: str, topic_ids: Mapping[str, str]
) -> Iterator[Leadership]:
    """Yield the partitions for which a broker answers as the leader.

    Partitions with an error are skipped. Responses up to Kafka 2.1 have no leader epoch. Then the
    result has epoch -1.
    """
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code is ErrorCode.none and each.offset >= 0:
                yield Leadership(
                    place=(str(topic.name), int(each.partition_index)),
                    topic_id=topic_ids[topic.name],
                    leader=node_id(node),
                    leader_epoch=int(each.leader_epoch),
                    high_watermark=int(each.offset),
                )


def log_ends(answer: ListOffsetsResponse) -> dict[Place, int]:
    """Return the log end offsets of a broker's replicas."""
    return {
        (str(topic.name), int(each.partition_index)): int(each.offset)
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code is ErrorCode.none and each.offset >= 0
    }


def replica_ends(answer: FetchResponse) -> dict[Place, ReplicaEnds]:
    """Return the high watermark, last stable offset and log start of a broker's replicas."""
    return {
        (str(topic.topic), int(each.partition_index)): ReplicaEnds(
            high_watermark=int(each.high_watermark),
            last_stable_offset=int(each.last_stable_offset),
            log_start_offset=int(each.log_start_offset),
        )
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code is ErrorCode.none and each.high_watermark >= 0
    }


def quorum_state(answer: DescribeQuorumResponse, node: str) -> QuorumState | None:
    """Return a node's state as the quorum's leader reports it, or None without a report."""
    if answer.error_code is not ErrorCode.none or not answer.topics:
        return None
    state = answer.topics[0].partitions[0]
    if state.error_code is not ErrorCode.none:
        return None
    own = node_id(node)
    ends = {int(voter.replica_id): int(voter.log_end_offset) for voter in state.current_voters}
    observers = {int(each.replica_id): int(each.log_end_offset) for each in state.observers}
    end = ends.get(own, observers.get(own, -1))
    follows = "follower" if own in ends else "observer"
    return QuorumState(
        role="leader" if state.leader_id == own else follows,
        epoch=int(state.leader_epoch),
        leader=int(state.leader_id),
        high_watermark=int(state.high_watermark),
        log_end_offset=end if end >= 0 else None,
    )


def quorum_belief(answer: QuorumFetchResponse, node: str) -> QuorumState | None:
    """Return the quorum's leader that a controller reports, or None if it reports no leader.

    The response is normally an error, because the request states no epoch. The error response also
    contains the leader.
    """
    told = [each for topic in answer.responses for each in topic.partitions]
    if not told or told[0].current_leader.leader_epoch < 0:
        return None
    leader = int(told[0].current_leader.leader_id)
    follows = "follower" if leader >= 0 else None
    return QuorumState(
        role="leader" if leader == node_id(node) else follows,
        epoch=int(told[0].current_leader.leader_epoch),
        leader=leader,
    )


@dataclass(slots=True)
class RowMaker:
    """Makes the rows of one node's observer, and skips rows that repeat known values.

    Attributes:
        node: The observed node.
        topic_ids: Topic ids by topic.
    """

    node: str
    topic_ids: Mapping[str, str]
    _beliefs: Thinning = field(default_factory=lambda: Thinning(repeat_ns=LEADER_REPEAT_NS))
    _claims: Thinning = field(default_factory=lambda: Thinning(repeat_ns=LEADER_REPEAT_NS))
    _replicas: Thinning = field(default_factory=Thinning)
    _quorum: Thinning = field(default_factory=lambda: Thinning(repeat_ns=LEADER_REPEAT_NS))

    def leadership(self, source: str, said: Leadership, at: Moment) -> Row | None:
        """Return a row of `leadership`, or None if the row would repeat known values."""
        deciding = (said.topic_id, said.leader, said.leader_epoch, said.isr, at.incarnation)
        growing = () if said.high_watermark is None else (said.high_watermark,)
        thinning = self._claims if source == "list-offsets" else self._beliefs
        due = thinning.is_due(said.place, at_ns=at.observed_ns, deciding=deciding, growing=growing)
        if not due and at.snapshot is None:
            return None
        return _row(
            "leadership",
            topic=said.place[0],
            topic_id=said.topic_id,
            partition=said.place[1],
            asked_ns=at.asked_ns,
            observed_ns=at.observed_ns,
            source=source,
            observer=self.node,
            incarnation=at.incarnation,
            leader=said.leader,
            leader_epoch=said.leader_epoch if said.leader_epoch >= 0 else None,
            isr=None if said.isr is None else list(said.isr),
            high_watermark=said.high_watermark,
        )

    def replica(
        self, place: Place, end: int | None, *, ends: ReplicaEnds | None, at: Moment
    ) -> Row | None:
        """Return a row of `replica_states`, or None if the row would repeat known values."""
        high = ends.high_watermark if ends else None
        stable = ends.last_stable_offset if ends and ends.last_stable_offset >= 0 else None
        start = ends.log_start_offset if ends and ends.log_start_offset >= 0 else None
        due = self._replicas.is_due(
            place,
            at_ns=at.observed_ns,
            deciding=(at.incarnation, start, high is None, end is None),
            growing=tuple(-1 if number is None else number for number in (end, high, stable)),
        )
        if not due and at.snapshot is None:
            return None
        return _row(
            "replica_states",
            topic=place[0],
            topic_id=self.topic_ids[place[0]],
            partition=place[1],
            observed_ns=at.observed_ns,
            snapshot=at.snapshot,
            node=self.node,
            incarnation=at.incarnation,
            log_start_offset=start,
            log_end_offset=end,
            high_watermark=high,
            high_watermark_source=None if high is None else "fetch",
            high_watermark_ns=None if high is None else at.observed_ns,
            last_stable_offset=stable,
        )

    def quorum(self, state: QuorumState, at: Moment) -> Row | None:
        """Return a row of `quorum_states`, or None if the row would repeat known values."""
        due = self._quorum.is_due(
            "quorum",
            at_ns=at.observed_ns,
            deciding=(state.role, state.epoch, state.leader, at.incarnation),
            growing=(-1 if state.high_watermark is None else state.high_watermark,),
        )
        if not due and at.snapshot is None:
            return None
        return _row(
            "quorum_states",
            observed_ns=at.observed_ns,
            node=self.node,
            incarnation=at.incarnation,
            role=state.role,
            epoch=state.epoch,
            leader=state.leader,
            high_watermark=state.high_watermark,
            log_end_offset=state.log_end_offset,
        )


def _row(table: str, **values: object) -> Row:
    return tuple(values.get(name) for name in LIVE[table].names)
