"""Asks a cluster about itself and gives it orders, at whichever node answers."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial

from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.describe_quorum.v1.response import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.metadata.v12.response import MetadataResponse

from cluster.kafka import questions
from cluster.kafka.configuration import Endpoint, node_id
from cluster.kafka.questions import Place
from cluster.kafka.wire import Connection, WireError
from cluster.protocol import ClusterError, ClusterView, PartitionState, UserError
from results.record.clock import pause_until, stopwatch_s
from results.record.topics import CreatedTopic

ANSWER_TIMEOUT_S = 0.8
CREATE_TIMEOUT_S = 20.0
RETRY_S = 0.2
_USERS_FAULT = {
    ErrorCode.invalid_config,
    ErrorCode.invalid_replication_factor,
    ErrorCode.invalid_partitions,
    ErrorCode.invalid_topic_exception,
    ErrorCode.policy_violation,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What one node says of the cluster.

    Attributes:
        node: Who says so.
        metadata: Its metadata.
        quorum_leader: Node that leads the controllers, None if it knows or reaches none.
        quorum_epoch: Epoch of that; -1 if none.
    """

    node: str
    metadata: MetadataResponse
    quorum_leader: str | None = None
    quorum_epoch: int = -1


class Admin:
    """Connections of its own to each node; safe to use from several threads.

    Args:
        endpoints: Of all nodes.
        answers: Tells of a node whether asking it is worth the wait.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], answers: Callable[[str], bool]) -> None:
        self._answers = answers
        self._names = {node_id(node): node for node in endpoints}
        self._connections = {
            node: Connection(at.host, at.broker_port) for node, at in endpoints.items()
        }
        self._locks = {node: threading.Lock() for node in endpoints}
        self._pool = ThreadPoolExecutor(2 * len(endpoints), thread_name_prefix="admin")

    def view(self) -> ClusterView | None:
        """Ask all nodes at once, and take the answer of the one nearest to the truth.

        A broker that is cut off goes on believing what it knew last, and answers so. The quorum's
        leader knows best: of the answers that name one, that of the highest quorum epoch counts,
        from the leader itself if it answered. As soon as a majority names the same leader of the
        same epoch, the others are not waited for.
        """
        answers = self._ask_all()
        if not answers:
            return None
        best = max(answers, key=lambda it: (it.quorum_epoch, it.node == it.quorum_leader))
        return self._as_view(best)

    def lists_itself(self, node: str) -> bool:
        """Tell whether a node answers and its own metadata list it among the brokers.

        A broker serves requests only once it has read its new registration from the quorum, and
        such a registration starts fenced: what it says of itself is never left over from before its
        restart.
        """
        if not self._answers(node):
            return False
        with self._locks[node]:
            try:
                answer = self._metadata(node, [])
            except WireError:
                return False
        return node in self._registered(answer)

    def create_topics(
        self,
        names: Sequence[str],
        *,
        partitions: int,
        replication: int,
        configs: Mapping[str, str],
    ) -> list[CreatedTopic]:
        """Create topics; see `KafkaCluster.create_topics`."""
        request = questions.new_topics(
            names,
            partitions=partitions,
            replication=replication,
            configs=configs,
            timeout_s=CREATE_TIMEOUT_S,
        )
        failure: WireError | None = None
        for node in self._connections:
            try:
                with self._locks[node]:
                    answer = self._connections[node].ask(
                        request, CreateTopicsResponse, timeout_s=CREATE_TIMEOUT_S + 5
                    )
            except WireError as unanswered:
                failure = unanswered
                continue
            return [_created(result) for result in answer.topics]
        raise ClusterError(f"no broker creates the topics: {failure}") from failure

    def leader_ends(
        self, places: Iterable[Place], *, committed: bool, timeout_s: float
    ) -> dict[Place, int]:
        """Ask the leaders for their high watermarks or last stable offsets; see `KafkaCluster`.

        A last stable offset is asked for again until it has caught up with the leader's log: with
        acks 1 a record is acknowledged before it is committed.
        """
        missing = set(places)
        found: dict[Place, int] = {}
        deadline_s = stopwatch_s() + timeout_s
        while missing:
            for node, led in self._by_leader(missing).items():
                logs = self._ends_at(node, questions.replica_ends(led)) if committed else {}
                ends = self._ends_at(node, questions.leader_ends(led, committed=committed))
                found |= ends
                missing -= {
                    place
                    for place, end in ends.items()
                    if not committed or (place in logs and end >= logs[place])
                }
            if stopwatch_s() >= deadline_s:
                break
            if missing:
                pause_until(min(deadline_s, stopwatch_s() + RETRY_S))
        return found

    def close(self) -> None:
        """Close all connections."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for connection in self._connections.values():
            connection.close()

    def _ask_all(self) -> list[_Answer]:
        nodes = [node for node in self._connections if self._answers(node)]
        majority = len(self._connections) // 2 + 1
        answers: list[_Answer] = []
        tasks: list[Future[_Answer | None]] = [
            self._pool.submit(partial(self._ask, node)) for node in nodes
        ]
        for task in as_completed(tasks):
            answer = task.result()
            if answer is None:
                continue
            answers.append(answer)
            if _agreeing(answers, answer) >= majority:
                break
        return answers

    def _ask(self, node: str) -> _Answer | None:
        # A node that keeps an earlier question waiting is not asked again meanwhile.
        if not self._locks[node].acquire(blocking=False):
            return None
        try:
            answer = _Answer(node=node, metadata=self._metadata(node, None))
            return self._with_quorum(answer)
        except WireError:
            return None
        finally:
            self._locks[node].release()

    def _metadata(self, node: str, topics: Sequence[str] | None) -> MetadataResponse:
        request = questions.metadata(topics)
        return self._connections[node].ask(request, MetadataResponse, timeout_s=ANSWER_TIMEOUT_S)

    def _with_quorum(self, answer: _Answer) -> _Answer:
        connection = self._connections[answer.node]
        try:
            quorum = connection.ask(
                questions.quorum(), DescribeQuorumResponse, timeout_s=ANSWER_TIMEOUT_S
            )
        except WireError:
            return answer
        if quorum.error_code is not ErrorCode.none:
            return answer
        state = quorum.topics[0].partitions[0]
        leader = self._names.get(state.leader_id)
        if state.error_code is not ErrorCode.none or leader is None:
            return answer
        return _Answer(
            node=answer.node,
            metadata=answer.metadata,
            quorum_leader=leader,
            quorum_epoch=state.leader_epoch,
        )

    def _registered(self, metadata: MetadataResponse) -> frozenset[str]:
        ids = {int(broker.node_id) for broker in metadata.brokers}
        return frozenset(name for number, name in self._names.items() if number in ids)

    def _as_view(self, answer: _Answer) -> ClusterView:
        partitions = {
            (str(topic.name), int(state.partition_index)): PartitionState(
                topic=str(topic.name),
                partition=int(state.partition_index),
                leader=self._names.get(state.leader_id),
                leader_epoch=int(state.leader_epoch),
                replicas=tuple(self._names[replica] for replica in state.replica_nodes),
                isr=tuple(self._names[replica] for replica in state.isr_nodes),
            )
            for topic in answer.metadata.topics
            for state in topic.partitions
        }
        return ClusterView(
            asked=answer.node,
            registered=self._registered(answer.metadata),
            controller=answer.quorum_leader,
            partitions=partitions,
        )

    def _by_leader(self, places: Iterable[Place]) -> dict[str, list[Place]]:
        view = self.view()
        grouped: dict[str, list[Place]] = {}
        for place in sorted(places):
            state = view.partitions.get(place) if view else None
            if state is not None and state.leader is not None:
                grouped.setdefault(state.leader, []).append(place)
        return grouped

    def _ends_at(self, node: str, request: ListOffsetsRequest) -> dict[Place, int]:
        try:
            with self._locks[node]:
                answer = self._connections[node].ask(
                    request, ListOffsetsResponse, timeout_s=ANSWER_TIMEOUT_S
                )
        except WireError:
            return {}
        return {
            (str(topic.name), int(each.partition_index)): int(each.offset)
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code is ErrorCode.none and each.offset >= 0
        }


def _agreeing(answers: list[_Answer], one: _Answer) -> int:
    if one.quorum_leader is None:
        return 0
    named = (one.quorum_leader, one.quorum_epoch)
    return sum((it.quorum_leader, it.quorum_epoch) == named for it in answers)


def _created(result: CreatableTopicResult) -> CreatedTopic:
    if result.error_code is not ErrorCode.none or result.topic_id is None:
        reason = result.error_message or result.error_code.name
        sentence = f"the topic {result.name} cannot be created: {reason}"
        raise (UserError if result.error_code in _USERS_FAULT else ClusterError)(sentence)
    return CreatedTopic(
        topic=str(result.name),
        topic_id=str(result.topic_id),
        partitions=int(result.num_partitions),
    )
