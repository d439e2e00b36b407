"""Queries and administers a KRaft cluster through any node that answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.describe_quorum.v1.response import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponse

from cluster.kafka import orders, questions
from cluster.kafka.beliefs import coordinator_of, topics_of
from cluster.kafka.ends import leader_ends
from cluster.kafka.lines import Lines
from cluster.kafka.open_transactions import open_transactions
from cluster.kafka.questions import Place
from cluster.kafka.wire import WireError
from cluster.protocol import ClusterView, CoordinatorKind, Endpoint, PartitionState
from results.record.declared import Sight
from results.record.nodes import node_id
from results.record.runtime import Task, new_event, new_lock, start
from results.record.topics import CreatedTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """One node's answer about the cluster.

    Attributes:
        node: The node that answered.
        metadata: The metadata that this node returned.
        quorum_leader: The leader of the controllers' quorum; None if the node does not know it.
        quorum_epoch: The epoch of this leader; -1 if there is none.
    """

    node: str
    metadata: MetadataResponse
    quorum_leader: str | None = None
    quorum_epoch: int = -1


class Admin:
    """Connections to each broker of a KRaft cluster; several threads may use it at once.

    Args:
        endpoints: The addresses of all brokers.
        answers: Returns whether a node is running and not paused.
        controllers: The names of controllers that are not brokers. One of them may lead the quorum.
        only: The topics to ask about. Topics that this object creates are added. None means all
            topics.
        sees: The observations that the system under test supports.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        answers: Callable[[str], bool],
        *,
        controllers: Iterable[str] = (),
        only: Iterable[str] | None = None,
        sees: frozenset[Sight] = frozenset(Sight),
    ) -> None:
        self._lines, self._lock = Lines(endpoints, answers), new_lock()
        self._sees = sees
        self._asking: list[Task[None]] = []
        self._only = None if only is None else {*only}
        self._brokers = {node_id(node): node for node in endpoints}
        self._names = self._brokers | {node_id(node): node for node in controllers}

    def view(self) -> ClusterView | None:
        """Ask all nodes at once, and combine the answers into the most recent view of the cluster.

        A broker that is cut off still responds, but its metadata are outdated. So this method
        combines the answers by these rules:

        - An answer with the highest quorum epoch wins. If the quorum's leader answered, only the
          leader's answer counts.
        - If the leader did not answer, the answers of that epoch are merged. For each partition the
          highest leader epoch wins, then the smallest ISR.
        - As soon as a majority names the same leader and epoch, the method stops waiting.

        A system that does not expose its quorum is asked for metadata only. Then the controller is
        also known from the metadata.

        Returns:
            None if no node answers.
        """
        answers = self._ask_all()
        if not answers:
            return None
        best = max(answers, key=lambda it: (it.quorum_epoch, it.node == it.quorum_leader))
        if best.node == best.quorum_leader:
            return self._as_view(best, [best])
        return self._as_view(best, [it for it in answers if it.quorum_epoch == best.quorum_epoch])

    def lists_itself(self, node: str) -> bool:
        """Return whether a node answers, and whether its metadata list the node itself as a broker.

        A broker serves requests only after it has read its new registration from the quorum.
        Metadata from before a restart never count, because a new registration starts fenced.
        """
        try:
            answer = self._lines.ask(node, questions.metadata([]), MetadataResponse)
        except WireError:
            return False
        return node in self._registered(answer)

    def create(self, request: CreateTopicsRequest) -> list[CreatedTopic]:
        """Create topics.

        Raises:
            UserError: Kafka refuses the topics.
            ClusterError: No node answers.
        """
        if self._only is not None:
            self._only |= {str(topic.name) for topic in request.topics}
        return orders.create_topics(self._lines, request, nodes=self._takers())

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics; a topic that does not exist is not an error.

        Raises:
            ClusterError: The controller refuses, or no node answers.
        """
        orders.delete_topics(self._lines, names, nodes=self._takers())

    def elect_preferred(self, place: Place) -> None:
        """Elect the preferred leader (the first replica of the assignment); wait for the election.

        Raises:
            ClusterError: The controller refuses, or no node answers.
        """
        orders.elect(self._lines, place, unclean=False, nodes=self._takers())

    def elect_unclean(self, place: Place) -> None:
        """Elect any live replica of a partition if no ISR member is alive.

        Raises:
            ClusterError: The controller refuses, or no node answers.
        """
        orders.elect(self._lines, place, unclean=True, nodes=self._takers())

    def reassign(self, place: Place, replicas: Sequence[str]) -> None:
        """Change the replicas of a partition, or their order; wait until the change is accepted.

        Raises:
            ClusterError: The controller refuses, or no node answers.
        """
        ids = [node_id(node) for node in replicas]
        orders.reassign(self._lines, place, ids, nodes=self._takers())

    def coordinator(self, kind: CoordinatorKind, key: str) -> str | None:
        """Return the node that coordinates a group or transactional id; None if it is unknown."""
        return coordinator_of(self._lines, kind, key)

    def topics_of(self, node: str) -> frozenset[str] | None:
        """Return the topics that one broker knows, or None if the broker does not answer."""
        return topics_of(self._lines, node)

    def leader_ends(
        self, places: Iterable[Place], *, committed: bool, timeout_s: float
    ) -> dict[Place, int]:
        """Ask the leaders for their high watermarks or last stable offsets; see module `ends`."""
        return leader_ends(
            self._lines,
            self.view,
            places,
            committed=committed,
            of_replicas=Sight.HIGH_WATERMARKS in self._sees,
            timeout_s=timeout_s,
        )

    def open_transactions(self, places: Iterable[Place]) -> dict[Place, list[str]]:
        """Ask the leaders for open transactions; see module `open_transactions`."""
        return open_transactions(self._lines, self.view, places)

    def close(self) -> None:
        """Close all connections."""
        for each in self._asking:
            each.join()
        self._lines.close()

    def _takers(self) -> Sequence[str]:
        """Return the nodes that may receive a request, in order of preference.

        If the system does not expose its quorum, the controller comes first, because other nodes
        may not accept requests.
        """
        nodes = self._lines.nodes
        if Sight.QUORUM in self._sees:
            return nodes
        view = self.view()
        return sorted(nodes, key=lambda node: view is None or node != view.controller)

    def _ask_all(self) -> list[_Answer]:
        nodes = [node for node in self._lines.nodes if self._lines.answers(node)]
        majority = len(self._lines.nodes) // 2 + 1
        answers: list[_Answer] = []
        bugs: list[Exception] = []
        asked, over, enough = len(nodes), 0, new_event()

        def ask(node: str) -> None:
            nonlocal over
            answer = None
            try:
                answer = self._ask(node)
            except Exception as bug:  # noqa: BLE001 - raised again below, in the caller's thread
                bugs.append(bug)
            finally:
                with self._lock:
                    over += 1
                    if answer is not None and not enough.is_set():
                        answers.append(answer)
                        if _agreeing(answers, answer) >= majority:
                            enough.set()
                    if over == asked:
                        enough.set()

        with self._lock:
            self._asking = [each for each in self._asking if not each.is_over()]
            self._asking += [start(partial(ask, node), "admin") for node in nodes]
        if nodes:
            enough.wait()
        if bugs:  # An unreadable answer must not count as a silent node.
            raise bugs[0]
        return answers

    def _ask(self, node: str) -> _Answer | None:
        # A node that has not yet answered an earlier request is not asked again.
        about = questions.metadata(None if self._only is None else sorted(self._only))
        try:
            metadata = self._lines.ask(node, about, MetadataResponse, patient=False)
        except WireError:
            return None
        answer = _Answer(node=node, metadata=metadata)
        return self._with_quorum(answer) if Sight.QUORUM in self._sees else answer

    def _with_quorum(self, answer: _Answer) -> _Answer:
        try:
            quorum = self._lines.ask(answer.node, questions.quorum(), DescribeQuorumResponse)
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
        return frozenset(name for number, name in self._brokers.items() if number in ids)

    def _as_view(self, answer: _Answer, equals: Sequence[_Answer]) -> ClusterView:
        told = [self._partitions(answer), *map(self._partitions, equals)]
        controller = answer.quorum_leader
        if Sight.QUORUM not in self._sees:
            controller = self._names.get(answer.metadata.controller_id)
        return ClusterView(
            asked=answer.node,
            registered=self._registered(answer.metadata),
            controller=controller,
            controller_epoch=answer.quorum_epoch,
            partitions={
                place: max((each[place] for each in told if place in each), key=_age)
                for place in told[0]
            },
        )

    def _name(self, broker: int) -> str:
        return self._names.get(broker, f"n{broker}")

    def _partitions(self, answer: _Answer) -> dict[Place, PartitionState]:
        return {
            (str(topic.name), int(state.partition_index)): PartitionState(
                topic=str(topic.name),
                partition=int(state.partition_index),
                leader=self._names.get(state.leader_id),
                leader_epoch=int(state.leader_epoch),
                replicas=tuple(map(self._name, state.replica_nodes)),
                isr=tuple(map(self._name, state.isr_nodes)),
            )
            for topic in answer.metadata.topics
            for state in topic.partitions
        }


def _age(state: PartitionState) -> tuple[int, int]:
    """Return a sort key that is higher for the newer of two partition states.

    For equal epochs the smaller ISR counts as newer, because a cut-off broker still lists a full
    ISR.
    """
    return state.leader_epoch, -len(state.isr)


def _agreeing(answers: list[_Answer], one: _Answer) -> int:
    if one.quorum_leader is None:
        return 0
    named = (one.quorum_leader, one.quorum_epoch)
    return sum((it.quorum_leader, it.quorum_epoch) == named for it in answers)
