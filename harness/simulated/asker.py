"""Asks simulated nodes single questions, and lets virtual time pass until they have answered."""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from kio.schema.errors import ErrorCode

from cluster.kafka.asking import NO_ERROR, Answer, Belief, EpochEnd, QuorumAnswer, ReplicaAnswer
from cluster.kafka.wire import WireError
from cluster.reference.machine import Answered, Effect, Event, Request
from cluster.reference.messages.clients import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from cluster.reference.messages.control import CreatableTopic, CreateTopicsRequest
from cluster.reference.messages.data import (
    ANY_REPLICA,
    LATEST,
    UNKNOWN,
    EpochPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
)
from cluster.reference.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from cluster.reference.simulator.simulation import Simulation
from harness.simulated.cluster import SimulatedCluster
from harness.simulated.worker import ClientHosts
from results.record.clock import NS_PER_S

Place = tuple[str, int]
T = TypeVar("T")
R = TypeVar("R")
ANSWER_S = 1.0
STEP_S = 0.01


def passed(simulation: Simulation, steps: Generator[float, None, R]) -> R:
    """Let virtual time pass as steps want it; return what they return."""
    while True:
        try:
            seconds = next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        simulation.run(max(seconds, 0.001))


def came(
    simulation: Simulation,
    probe: Callable[[], bool],
    *,
    limit_s: float,
    interval_s: float = STEP_S,
) -> bool:
    """Let virtual time pass until a probe is true; return whether it became so."""
    end_ns = simulation.now_ns + round(limit_s * NS_PER_S)
    while not probe():
        if simulation.now_ns >= end_ns:
            return False
        simulation.run(interval_s)
    return True


class SimulatedAsker:
    """Asks as `cluster.kafka.asking.Asker` does; each question is a client's of its own.

    Args:
        cluster: The nodes.
        clients: Where questions live.
    """

    def __init__(self, cluster: SimulatedCluster, clients: ClientHosts) -> None:
        self._cluster, self._clients = cluster, clients

    def replica(self, node: str, place: Place) -> ReplicaAnswer:
        """Return what a broker tells of its own replica."""
        topic, part = place
        ends = self._ask(
            node,
            ListOffsetsRequest(
                replica_id=ANY_REPLICA,
                partitions=(ListOffsetsPartition(topic=topic, partition=part, timestamp=LATEST),),
            ),
            ListOffsetsResponse,
        ).partitions[0]
        start = FetchPartition(topic=topic, partition=part, fetch_offset=0, partition_max_bytes=1)
        told = self._ask(
            node,
            FetchRequest(
                replica_id=ANY_REPLICA,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1,
                partitions=(start,),
            ),
            FetchResponse,
        ).partitions[0]
        good = told.error_code is ErrorCode.none
        return ReplicaAnswer(
            log_start_offset=_known(told.log_start_offset),
            log_end_offset=ends.offset if ends.error_code is ErrorCode.none else None,
            high_watermark=told.high_watermark if good else None,
            last_stable_offset=_known(told.last_stable_offset) if good else None,
        )

    def belief(self, node: str, place: Place) -> Belief | None:
        """Return what a broker's own metadata say of a partition."""
        question = MetadataRequest(topics=(MetadataRequestTopic(name=place[0]),))
        for topic in self._ask(node, question, MetadataResponse).topics:
            for each in topic.partitions:
                if (str(topic.name), each.partition_index) == place:
                    isr = tuple(sorted(each.isr_nodes))
                    return Belief(leader=each.leader_id, leader_epoch=each.leader_epoch, isr=isr)
        return None

    def quorum(self, node: str) -> QuorumAnswer | None:
        """Ask for the controllers' quorum."""
        told = self._ask(node, DescribeQuorumRequest(), DescribeQuorumResponse)
        if told.error_code is not ErrorCode.none or told.leader_id < 0:
            return None
        return QuorumAnswer(
            leader=told.leader_id,
            leader_epoch=told.leader_epoch,
            high_watermark=told.high_watermark,
            voters={each.replica_id: each.log_end_offset for each in told.current_voters},
            observers={each.replica_id: each.log_end_offset for each in told.observers},
        )

    def epoch_end(
        self, node: str, place: Place, *, epoch: int, current_leader_epoch: int | None = None
    ) -> EpochEnd:
        """Ask a leader where an epoch ends."""
        asked = EpochPartition(
            topic=place[0],
            partition=place[1],
            leader_epoch=epoch,
            current_leader_epoch=UNKNOWN if current_leader_epoch is None else current_leader_epoch,
        )
        question = OffsetsForLeaderEpochRequest(partitions=(asked,))
        said = self._ask(node, question, OffsetsForLeaderEpochResponse).partitions[0]
        return EpochEnd(
            error=_error(said.error_code),
            leader_epoch=_known(said.leader_epoch),
            end_offset=_known(said.end_offset),
        )

    def leader_answer(self, node: str, place: Place, *, current_leader_epoch: int | None) -> Answer:
        """Ask, as a client that knows an epoch, where the partition ends."""
        epoch = UNKNOWN if current_leader_epoch is None else current_leader_epoch
        asked = ListOffsetsPartition(
            topic=place[0], partition=place[1], timestamp=LATEST, current_leader_epoch=epoch
        )
        question = ListOffsetsRequest(partitions=(asked,))
        said = self._ask(node, question, ListOffsetsResponse).partitions[0]
        return Answer(
            error=_error(said.error_code),
            offset=_known(said.offset),
            leader_epoch=_known(said.leader_epoch),
        )

    def ask_for_topics(self, node: str, names: Sequence[str], *, timeout_s: float) -> None:
        """Ask one node for topics of one partition and one replica each."""
        topics = tuple(
            CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names
        )
        self._ask(node, CreateTopicsRequest(topics=topics), object, timeout_s=timeout_s)

    def _ask(self, node: str, question: object, kind: type[T], *, timeout_s: float = ANSWER_S) -> T:
        one = _Question(self._cluster.hosts[node].id, question, timeout_s)
        host = self._clients.start(one)
        came(self._cluster.simulation, lambda: one.over, limit_s=2 * timeout_s)
        self._clients.end(host)
        if one.answer is None or not isinstance(one.answer, kind):
            raise WireError(f"{node} did not answer within {timeout_s:g} s")
        return one.answer


class _Question:
    """The machine that asks one question."""

    def __init__(self, to: int, message: object, timeout_s: float) -> None:
        self.answer: object | None = None
        self.over = False
        timeout_ns = round(timeout_s * NS_PER_S)
        self._request = Request(number=1, to=to, message=message, timeout_ns=timeout_ns)

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - of all machines alike
        """Ask."""
        return [self._request]

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - as above
        """Take the answer."""
        if isinstance(event, Answered):
            self.answer, self.over = event.message, True
        return []


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _error(code: ErrorCode) -> str:
    return NO_ERROR if code is ErrorCode.none else code.name.upper()
