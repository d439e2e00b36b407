"""Queries and administers a cluster in ZooKeeper mode, as `Admin` does for KRaft.

From 0.11 to 3.9, ZooKeeper stores the current leaders, and the controller reads requests from
ZooKeeper.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.metadata.v12.response import MetadataResponse

from cluster.kafka import orders, questions
from cluster.kafka.beliefs import coordinator_of, topics_of
from cluster.kafka.ends import leader_ends
from cluster.kafka.lines import Lines
from cluster.kafka.open_transactions import open_transactions
from cluster.kafka.orders import ORDER_TIMEOUT_S, NotControllerError
from cluster.kafka.questions import Place
from cluster.kafka.wire import WireError
from cluster.kafka.znodes import Znodes, ZooKeeperError
from cluster.kafka.zookeeper_state import PartitionTruth, ZooKeeperState
from cluster.protocol import ClusterError, ClusterView, CoordinatorKind, Endpoint, PartitionState
from results.record.clock import WaitTimeoutError, pause_until, stopwatch_s, wait_until
from results.record.nodes import ZOOKEEPER_MACHINE, node_id
from results.record.topics import CreatedTopic

T = TypeVar("T")

PREFERRED_ELECTION = "/admin/preferred_replica_election"
REASSIGNMENT = "/admin/reassign_partitions"
RETRY_S = 0.2
TAKEN_S = 0.02
"""How often to check whether the controller has accepted a request: the interval in seconds."""


class ZooKeeperAdmin:
    """Connections to ZooKeeper and to each broker; several threads may use it at once.

    Args:
        endpoints: The addresses of all brokers.
        answers: Returns whether a node is running and not paused.
        zookeeper: `host:port` of the ZooKeeper server.
        incarnation: Returns how many times a node's broker was started.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        answers: Callable[[str], bool],
        *,
        zookeeper: str,
        incarnation: Callable[[str], int],
    ) -> None:
        self._lines = Lines(endpoints, answers)
        self._names = {node_id(node): node for node in endpoints}
        self._incarnation = incarnation
        self._znodes = Znodes(zookeeper)
        self._state = ZooKeeperState(self._znodes)
        self._registrations: dict[str, dict[int, int]] = {node: {} for node in endpoints}

    def view(self) -> ClusterView | None:
        """Return the cluster's state from ZooKeeper, or None if ZooKeeper does not answer.

        A killed, paused or cut-off broker stays registered until its session ends.
        """
        try:
            registered, controller = self._state.registered(), self._state.controller()
            assignments = self._state.assignments(self._state.topics())
            truths = self._state.partitions(assignments)
            epoch = self._state.controller_epoch()
        except ZooKeeperError:
            return None
        return ClusterView(
            asked=ZOOKEEPER_MACHINE,
            registered=frozenset(self._known(registered)),
            controller=None if controller is None else self._names.get(controller),
            controller_epoch=-1 if epoch is None else epoch,
            partitions={
                place: self._partition(place, assignments[place], truth)
                for place, truth in truths.items()
            },
        )

    def lists_itself(self, node: str) -> bool:
        """Return whether a broker answers, lists itself, and has registered since its start.

        The broker's metadata come from the controller, which may still list the broker as it was
        before the restart. The registration in ZooKeeper is therefore checked too. The new
        registration must differ from the registrations of earlier incarnations.
        """
        incarnation = self._incarnation(node)
        try:
            answer = self._lines.ask(node, questions.metadata([]), MetadataResponse)
            registration = self._state.registration(node_id(node))
        except (WireError, ZooKeeperError):
            return False
        listed = {int(broker.node_id) for broker in answer.brokers}
        seen = self._registrations[node]
        earlier = {czxid for number, czxid in seen.items() if number < incarnation}
        if node_id(node) not in listed or registration is None or registration in earlier:
            return False
        seen[incarnation] = registration
        return True

    def is_registered(self, node: str) -> bool | None:
        """Return whether a broker has a ZooKeeper session, or None if ZooKeeper does not answer."""
        try:
            return node_id(node) in self._state.registered()
        except ZooKeeperError:
            return None

    def create(self, request: CreateTopicsRequest) -> list[CreatedTopic]:
        """Create topics; see `Admin.create`."""
        return self._at_controller(
            lambda nodes: orders.create_topics(self._lines, request, nodes=nodes)
        )

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics; see `Admin.delete`."""
        self._at_controller(lambda nodes: orders.delete_topics(self._lines, names, nodes=nodes))

    def elect_preferred(self, place: Place) -> None:
        """Elect the preferred leader (the first replica of the assignment); wait for the election.

        Raises:
            ClusterError: The controller does not accept the request, or elects another leader.
        """
        self._refuse_unknown(place)
        partition = {"topic": place[0], "partition": place[1]}
        self._order(PREFERRED_ELECTION, partition, lambda: not self._pending(PREFERRED_ELECTION))
        truth, replicas = self.partition_state(place), self._assignment(place)
        if truth is None or not replicas or truth.leader != replicas[0]:
            raise ClusterError(
                f"the preferred leader election for {orders.text(place)} failed: the preferred"
                f" replica is not in the ISR, or is not alive; the state is {truth}"
            )

    def elect_unclean(self, place: Place) -> None:
        """Elect any live replica if no ISR member is alive (Kafka 2.4 and later).

        Raises:
            ClusterError: The controller refuses, does not know the request, or does not answer.
        """
        self._at_controller(
            lambda nodes: orders.elect(self._lines, place, unclean=True, nodes=nodes)
        )

    def reassign(self, place: Place, replicas: Sequence[str]) -> None:
        """Change the replicas of a partition, or their order; wait until the change is accepted.

        Raises:
            ClusterError: The controller does not accept the request, or sets another assignment.
        """
        ids = [node_id(node) for node in replicas]
        self._refuse_unknown(place, brokers=ids)
        partition = {"topic": place[0], "partition": place[1], "replicas": ids}

        def is_taken() -> bool:
            # The assignment lists old and new replicas until the new ones are in sync. Before
            # Kafka 2.4 the request stays in ZooKeeper during this time.
            return not self._pending(REASSIGNMENT) or self._assignment(place)[: len(ids)] == ids

        self._order(REASSIGNMENT, partition, is_taken)
        if self._assignment(place)[: len(ids)] != ids:
            raise ClusterError(
                f"the reassignment of {orders.text(place)} to {ids} failed: its replicas are"
                f" {self._assignment(place)}; see the controller.log of the nodes"
            )

    def controller_epoch(self) -> int | None:
        """Return the epoch of the latest controller, or None before the first controller.

        Raises:
            ClusterError: ZooKeeper does not answer.
        """
        return self._state.controller_epoch()

    def partition_state(self, place: Place) -> PartitionTruth | None:
        """Return the state that ZooKeeper stores for a partition, or None if there is none.

        Raises:
            ClusterError: ZooKeeper does not answer.
        """
        return self._state.partitions([place]).get(place)

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
        return leader_ends(self._lines, self.view, places, committed=committed, timeout_s=timeout_s)

    def open_transactions(self, places: Iterable[Place]) -> dict[Place, list[str]]:
        """Ask the leaders for open transactions; see module `open_transactions`."""
        return open_transactions(self._lines, self.view, places)

    def close(self) -> None:
        """Close all connections, and end the ZooKeeper session. Idempotent."""
        self._lines.close()
        self._znodes.close()

    def _known(self, brokers: Iterable[int]) -> Iterable[str]:
        return (self._names[broker] for broker in brokers if broker in self._names)

    def _partition(
        self, place: Place, replicas: Sequence[int], truth: PartitionTruth
    ) -> PartitionState:
        return PartitionState(
            topic=place[0],
            partition=place[1],
            leader=self._names.get(truth.leader),
            leader_epoch=truth.leader_epoch,
            replicas=tuple(self._known(replicas)),
            isr=tuple(self._known(truth.isr)),
        )

    def _assignment(self, place: Place) -> list[int]:
        return list(self._state.assignments([place[0]]).get(place, ()))

    def _refuse_unknown(self, place: Place, brokers: Iterable[int] = ()) -> None:
        """Raise an error for unknown partitions or brokers.

        An old controller would never finish such a request.
        """
        if not self._assignment(place):
            raise ClusterError(f"there is no partition {orders.text(place)}")
        if missing := sorted(set(brokers) - self._state.registered()):
            raise ClusterError(
                f"the reassignment of {orders.text(place)} failed: no broker is registered as"
                f" {', '.join(map(str, missing))}"
            )

    def _pending(self, path: str) -> bool:
        return self._znodes.read(path) is not None

    def _order(
        self, path: str, partition: Mapping[str, object], is_taken: Callable[[], bool]
    ) -> None:
        """Write a request; wait until the controller accepts it. After a timeout, delete it."""
        data = json.dumps({"version": 1, "partitions": [partition]}).encode()
        try:
            wait_until(
                lambda: self._znodes.create(path, data),
                timeout_s=ORDER_TIMEOUT_S,
                what=f"the controller to remove the previous request from {path}",
            )
        except WaitTimeoutError as late:
            raise ClusterError(f"{late}; is there a controller?") from late
        try:
            wait_until(
                is_taken,
                timeout_s=ORDER_TIMEOUT_S,
                what=f"the controller to accept {data.decode()}",
                interval_s=TAKEN_S,
            )
        except WaitTimeoutError as late:
            self._znodes.delete(path)
            raise ClusterError(f"{late}; is there a controller?") from late

    def _at_controller(self, order: Callable[[Sequence[str]], T]) -> T:
        """Send a request to the controller; retry while there is none, or while it changes."""
        deadline_s = stopwatch_s() + ORDER_TIMEOUT_S
        while True:
            try:
                return order([self._controller()])
            except NotControllerError:
                if stopwatch_s() >= deadline_s:
                    raise
                pause_until(stopwatch_s() + RETRY_S)

    def _controller(self) -> str:
        """Return the controller's node; raise an error if no controller is running.

        Until the session of a killed controller ends, ZooKeeper still names this controller.

        Raises:
            NotControllerError: There is no controller, or its broker is not running.
        """
        controller = self._state.controller()
        node = None if controller is None else self._names.get(controller)
        if node is None or not self._lines.answers(node):
            raise NotControllerError(
                "no controller accepts requests; see the controller.log of the nodes"
            )
        return node
