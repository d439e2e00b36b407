"""Runs a cluster of real Kafka on hosts: brokers `n1`, `n2`, ..., controllers and ZooKeeper."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from kio.schema.describe_quorum.v1.response import DescribeQuorumResponse

from cluster.kafka import questions
from cluster.kafka.admin import Admin
from cluster.kafka.broker_clock import clock_error_s
from cluster.kafka.brokers import BrokerProcesses
from cluster.kafka.by_hand import TopicsByHand
from cluster.kafka.collect import collect
from cluster.kafka.configuration import session_timeout_s
from cluster.kafka.failures import sentence
from cluster.kafka.layout import Layout
from cluster.kafka.lines import Lines
from cluster.kafka.observer import Observer
from cluster.kafka.programs import Programs
from cluster.kafka.questions import Place
from cluster.kafka.share_lags import share_lags
from cluster.kafka.stacks import printed_stacks
from cluster.kafka.stopping import Quorum, Voter
from cluster.kafka.topics import make_topic, make_topics
from cluster.kafka.wire import WireError
from cluster.kafka.zookeeper import serves
from cluster.kafka.zookeeper_admin import ZooKeeperAdmin
from cluster.logs import KafkaLogs
from cluster.protocol import (
    ClusterError,
    ClusterView,
    CoordinatorKind,
    Ended,
    Endpoint,
    Hosts,
    ProcessId,
)
from results.record.clock import RunClock, WaitTimeoutError, wait_until
from results.record.declared import Sight
from results.record.nodes import ZOOKEEPER_MACHINE, called, is_controller
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.runtime import Task, all_of, start
from results.record.terms import Mode
from results.record.topics import CreatedTopic

START_TIMEOUT_S = 90.0
GRANT_TIMEOUT_S = 5.0
ZOOKEEPER_STOP_S = 10.0
SESSION_GRACE_S = 15.0
"""The extra seconds that ZooKeeper may need to end a session on a busy machine."""


class KafkaCluster:
    """A running Kafka cluster. Implements the protocols `Cluster`, `CanKill` and `CanPause`.

    In docstrings, "node" means a broker or a controller; "broker" means only a broker.

    Args:
        plan: The run's plan.
        hosts: The running hosts, with one machine for each of `cluster.nodes.machines`.
        programs: The server programs.
        paths: The run's folder; node files are in `nodes/<node>`, ZooKeeper's in `zookeeper`.

    Attributes:
        nodes: The brokers.
        controllers: The separate controllers `n101`, ...; empty in other modes.
        mode: Where the metadata are kept.
        reads_all_at_start: Whether servers read all their logs when they start.
        sees: The observable facts about the servers.
        zookeeper, endpoints: ZooKeeper's `host:port`, or None; the addresses of the nodes.
        logs: Reads the nodes' log files.
        by_hand: Sends single topic requests.
    """

    logs = KafkaLogs()

    def __init__(self, plan: Plan, hosts: Hosts, *, programs: Programs, paths: RunPaths) -> None:
        self._plan = plan
        self._layout = Layout(plan, hosts, programs=programs, paths=paths)
        self.nodes: Sequence[str] = self._layout.brokers
        self.controllers: Sequence[str] = self._layout.controllers
        self.mode = plan.mode
        self.reads_all_at_start = programs.reads_all_at_start
        self.sees = programs.sees
        self.endpoints: Mapping[str, Endpoint] = self._layout.endpoints
        played_by = self._layout.played_by if programs.one_process else None
        self._processes = BrokerProcesses(
            hosts, self._layout.command, played_by=played_by, in_order=Sight.ENDS in programs.sees
        )
        brokers = {node: self.endpoints[node] for node in self.nodes}
        controllers = {node: self.endpoints[node] for node in self.controllers}
        self._quorum = Lines(controllers, self.answers)
        self.by_hand = TopicsByHand(brokers, self.answers)
        self._admin: Admin | ZooKeeperAdmin
        if self.zookeeper is None:
            self._admin = Admin(brokers, self.answers, controllers=self.controllers, sees=self.sees)
        else:
            self._admin = ZooKeeperAdmin(
                brokers, self.answers, zookeeper=self.zookeeper, incarnation=self.incarnation
            )

    @property
    def zookeeper(self) -> str | None:
        """Return `host:port` of ZooKeeper, or None without it."""
        at = self._layout.zookeeper
        return f"{at[0]}:{at[1]}" if at else None

    @property
    def keeper(self) -> str | None:
        """Return the name of ZooKeeper's node, or None without it."""
        return ZOOKEEPER_MACHINE if self._layout.zookeeper else None

    def start(self, first: Sequence[str] = (), *, inherited: bool = False) -> None:
        """Prepare the disks, start all nodes, and wait until each broker is registered and answers.

        Args:
            first: Brokers to start before the others, one after another. Each waits until the
                broker before it is registered. So in ZooKeeper mode the first becomes controller.
                In mode `combined` none waits, because a single node has no quorum.
            inherited: Whether the nodes' folders hold data of an earlier cluster of this plan.

        Raises:
            UserError: A node fails to start for a reason that the user can fix.
            ClusterError: A node ended, or is not ready within `START_TIMEOUT_S`.
        """
        self._layout.prepare(inherited=inherited)
        try:
            if self._layout.zookeeper is not None:
                self._start_zookeeper(self._layout.zookeeper)
            self._start_together(self.controllers)
            for number, node in enumerate(first, start=1):
                self.start_node(node)
                if self.mode is not Mode.COMBINED:
                    self._wait_ready(first[:number])
            self._start_together([node for node in self.nodes if node not in first])
            self._wait_ready(self.nodes)
        except ClusterError:
            self.close()
            raise

    def played_with(self, node: str) -> tuple[str, ...]:
        """Return all nodes that share one process with a node, including this node."""
        return self._layout.played_with(node)

    def start_node(self, node: str) -> ProcessId:
        """Start one node's server, and return as soon as the process runs. `zk` is ZooKeeper.

        ZooKeeper keeps a killed broker's registration until the broker's session ends. Until then,
        ZooKeeper refuses a new registration (NodeExists). This method waits until the session has
        ended. The disk must be prepared.

        Raises:
            ClusterError: The server is already running, or ZooKeeper keeps its old registration.
        """
        of_broker = node != ZOOKEEPER_MACHINE and not self._processes.runs(node)
        if of_broker and isinstance(self._admin, ZooKeeperAdmin):
            self._wait_forgotten(node, self._admin)
        return self._processes.start(node)

    def stop_node(self, node: str, timeout_s: float) -> bool:
        """Stop a node with SIGTERM, later SIGKILL; return whether it ended by itself."""
        return self._processes.stop(node, timeout_s)

    def stop(self, timeout_s: float) -> dict[str, bool]:
        """Stop all nodes for good; ZooKeeper is last. The order allows each node to end by itself.

        A broker ends after its controller permits its shutdown:

        - Separate controllers: their leader permits the shutdown. All brokers stop at once.
        - ZooKeeper mode: one broker is the controller. This broker stops last.
        - Combined nodes: a majority permits the shutdown within 50 ms. All stop at once, because
          closing files takes longer. If they stopped one after another, the last one would wait 5 s
          for a lost quorum (see `stopping`). On a busy machine, this wait can still occur.

        Args:
            timeout_s: The time limit in seconds for each node. Then the node is killed.

        Returns:
            For each node, whether it ended by itself. True also for a node that was killed while it
            waited for a lost quorum, if its broker had closed all logs.
        """
        view = self._admin.view() if self.mode is Mode.ZOOKEEPER else None
        last = [node for node in self.nodes if view and node == view.controller]
        first = [node for node in self.nodes if node not in last]
        quorum = Quorum(self.controllers or self.nodes, self._processes.runs)
        stop = partial(self._stop_for_good, timeout_s=timeout_s, quorum=quorum)
        ended = self._stop_brokers([first, last], stop)
        stops = [partial(stop, node) for node in self.controllers]
        ended |= dict(zip(self.controllers, all_of(stops, "stop"), strict=True))
        self.close()
        if self.mode is Mode.ZOOKEEPER:
            self.stop_node(ZOOKEEPER_MACHINE, ZOOKEEPER_STOP_S)
        return {node: ended[node] for node in (*self.nodes, *self.controllers)}

    def observer(self, topics: Sequence[CreatedTopic], *, clock: RunClock, live: Path) -> Observer:
        """Return an observer that asks each broker about topics; see `Observer`."""
        return Observer(self, topics, clock=clock, live=live, beside=self.by_hand)

    def collect(self, folder: Path) -> None:
        """Tidy a node's folder after the stop; see module `collect`."""
        collect(folder, sees=self.sees)

    def close(self) -> None:
        """Close all connections; processes continue to run. Idempotent. `stop` calls this, too."""
        for connections in (self._admin, self._quorum, self.by_hand):
            connections.close()

    def kill_node(self, node: str) -> None:
        """Kill the node's broker with SIGKILL."""
        self._processes.kill(node)

    def excuse_end(self, node: str) -> None:
        """Send no signal, but if the node's broker ends later, treat this as caused by a fault."""
        self._processes.excuse(node)

    def pause_node(self, node: str) -> None:
        """Pause the node's broker with SIGSTOP."""
        self._processes.pause(node)

    def resume_node(self, node: str) -> None:
        """Resume the node's broker with SIGCONT. Idempotent."""
        self._processes.resume(node)

    def process(self, node: str) -> ProcessId | None:
        """Return the node's most recently started broker process, or None before a start."""
        return self._processes.process(node)

    def incarnation(self, node: str) -> int:
        """Return the number of starts of the node's broker; 1 after the first start."""
        return self._processes.incarnation(node)

    def answers(self, node: str) -> bool:
        """Return whether a node's broker process runs and is not paused."""
        return self._processes.answers(node)

    def exited(self) -> Mapping[str, ProcessId]:
        """Return the processes, including ZooKeeper (`zk`), that ended without a stop or kill."""
        return self._processes.exited()

    def ended(self) -> Sequence[Ended]:
        """Return all processes, also earlier incarnations, that ended or halted by themselves."""
        return self._processes.ended()

    def lives(self) -> int:
        """Return the total number of server starts of all nodes."""
        return self._processes.lives()

    def complaints(self, node: str, *, life: int = 0) -> list[str]:
        """Return the last error lines of a server's log, and the log's last line.

        Args:
            node: The server's node.
            life: The start of the server whose lines are wanted: 1 for the first start, 0 for the
                last.
        """
        return self._layout.complaints(node, life=life)

    def stacks(self) -> dict[str, str]:
        """Make all running JVMs print their stacks; return the deadlocks of each node."""
        if not self._plan.is_kafka:
            return {}
        running = [node for node in (*self.nodes, *self.controllers) if self.answers(node)]
        return printed_stacks(running, self._layout.disk, self._processes.send_signal)

    def last_words(self, node: str) -> str:
        """Return the end of a server's log, and the end of its standard output."""
        return self._layout.last_words(node)

    def view(self) -> ClusterView | None:
        """Return the cluster's state as the nodes report it, or None if no node answers within 2 s.

        In ZooKeeper mode only ZooKeeper is asked. Otherwise `registered` comes from the node that
        has the newest knowledge of the quorum. A killed, paused or cut-off broker stays registered
        until its session ends (3 s). To find out whether a restarted broker is back, use `is_back`.
        """
        return self._admin.view()

    def is_back(self, node: str) -> bool:
        """Return whether a node is registered again after its start, and answers requests.

        The broker's own metadata must list the broker: it is newly registered
        (`Admin.lists_itself`). The node with the newest knowledge of the quorum must list the
        broker, too. A separate controller is back when it answers. ZooKeeper is back when it serves
        requests and knows a controller and all running brokers.
        """
        at = self._layout.zookeeper
        if node == ZOOKEEPER_MACHINE:
            return at is not None and serves(at) and self._is_whole(self.nodes)
        if is_controller(node):
            return self._serves(node)
        if not self._admin.lists_itself(node):
            return False
        return self._is_whole([node])

    def _is_whole(self, nodes: Sequence[str]) -> bool:
        """Return whether a controller is known and each running broker of `nodes` is registered."""
        view, run = self._admin.view(), {*filter(self.answers, nodes)}
        return view is not None and view.controller is not None and run <= view.registered

    def bootstrap(self) -> str:
        """Return the bootstrap servers `host:port,...` for clients."""
        return ",".join(
            f"{at.host}:{at.broker_port}" for at in map(self.endpoints.__getitem__, self.nodes)
        )

    def create_topics(
        self,
        names: Sequence[str],
        *,
        partitions: int,
        replication: int,
        configs: Mapping[str, str] | None = None,
    ) -> list[CreatedTopic]:
        """Create topics, and wait until each partition has a leader and a full ISR.

        Args:
            names: The topics' names.
            partitions: The number of partitions per topic.
            replication: The number of replicas per partition.
            configs: The topics' settings, in addition to the brokers' defaults.

        Raises:
            UserError: Kafka refuses the topics.
            ClusterError: No node answers, or the topics are not ready in time.
        """
        return make_topics(
            self._admin, names, partitions=partitions, replication=replication, configs=configs
        )

    def create_topic(
        self, name: str, *, assignment: Mapping[int, Sequence[str]], configs: Mapping[str, str]
    ) -> CreatedTopic:
        """Create a topic with a given replica assignment, and wait until it is ready.

        Args:
            name: The topic's name.
            assignment: The brokers of each partition; the first one is the preferred leader.
            configs: The topic's settings, in addition to the brokers' defaults.

        Raises:
            UserError: Kafka refuses the topic.
            ClusterError: No node answers, or the topic is not ready in time.
        """
        return make_topic(self._admin, name, assignment=assignment, configs=configs)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics without waiting for the end; a topic that does not exist is not an error.

        Raises:
            ClusterError: The controller refuses, or no node answers.
        """
        self._admin.delete(names)

    def topics_of(self, node: str) -> frozenset[str] | None:
        """Return the topics that one broker knows, or None if the broker does not answer."""
        return self._admin.topics_of(node)

    def coordinator(self, kind: CoordinatorKind, key: str) -> str | None:
        """Return the current coordinator of a group or transactional id, or None if unknown."""
        return self._admin.coordinator(kind, key)

    def clock_error_s(self, node: str) -> float:
        """Return the seconds by which a node's clock is ahead of this machine's (`broker_clock`).

        Raises:
            ClusterError: The node does not answer.
        """
        at = self.endpoints[node]
        port = at.controller_port if is_controller(node) else at.broker_port
        return clock_error_s((at.host, port), self._layout.disk(node), node=node)

    def elect_preferred(self, place: Place) -> None:
        """Elect the preferred leader, i.e. the first replica of the partition's assignment."""
        self._admin.elect_preferred(place)

    def elect_unclean(self, place: Place) -> None:
        """Elect any live replica of a partition if no ISR member is alive."""
        self._admin.elect_unclean(place)

    def reassign(self, place: Place, replicas: Sequence[str]) -> None:
        """Change the replicas of a partition, or their order."""
        self._admin.reassign(place, replicas)

    def leader_ends(
        self, places: Iterable[Place], *, committed: bool, timeout_s: float
    ) -> dict[Place, int]:
        """Ask the partitions' leaders for the end offsets, until all leaders have answered.

        Args:
            places: The partitions, as (topic, partition).
            committed: True: return the last stable offset (where a read_committed consumer stops)
                once it is at the end of the log. False: return the high watermark.
            timeout_s: The time limit in seconds, after which the latest responses are returned.
        """
        return self._admin.leader_ends(places, committed=committed, timeout_s=timeout_s)

    def open_transactions(self, places: Iterable[Place]) -> dict[Place, list[str]]:
        """Return, by partition, one sentence for each open transaction that the leaders report."""
        return self._admin.open_transactions(places)

    def share_lags(self, group: str, places: Collection[Place]) -> dict[Place, int]:
        """Return, for each partition, how many records a share group must still process."""
        brokers = {node: self.endpoints[node] for node in self.nodes}
        return share_lags(brokers, self.answers, group, places)

    def _start_zookeeper(self, address: tuple[str, int]) -> None:
        self._processes.start(ZOOKEEPER_MACHINE)

        def is_up() -> bool:
            self._refuse_dead()
            return serves(address)

        try:
            wait_until(is_up, timeout_s=START_TIMEOUT_S, what="ZooKeeper to serve")
        except WaitTimeoutError as late:
            raise sentence(
                f"{late}; ZooKeeper did not", self.last_words(ZOOKEEPER_MACHINE)
            ) from late

    def _start_together(self, nodes: Sequence[str]) -> None:
        all_of([partial(self.start_node, node) for node in nodes], "start")

    def _wait_ready(self, nodes: Sequence[str]) -> None:
        try:
            wait_until(
                lambda: self._ready(nodes),
                timeout_s=START_TIMEOUT_S,
                what="every broker to be registered and to answer",
            )
        except WaitTimeoutError as late:
            missing = [node for node in nodes if not self._admin.lists_itself(node)]
            words = self.last_words(missing[0]) if missing else ""
            raise sentence(f"{late}; {', '.join(missing) or 'the quorum'} did not", words) from late

    def _ready(self, nodes: Sequence[str]) -> bool:
        self._refuse_dead()
        if not all(self._admin.lists_itself(node) for node in nodes):
            return False
        return self._is_whole(nodes)

    def _refuse_dead(self) -> None:
        for node in self.exited():
            raise sentence(f"{called(node)} exited during its start", self.last_words(node))

    def _serves(self, node: str) -> bool:
        try:
            self._quorum.ask(node, questions.quorum(), DescribeQuorumResponse)
        except WireError:
            return False
        return True

    def _wait_forgotten(self, node: str, admin: ZooKeeperAdmin) -> None:
        try:
            wait_until(
                lambda: admin.is_registered(node) is False,
                timeout_s=session_timeout_s(self._plan, node) + SESSION_GRACE_S,
                what=f"ZooKeeper to forget the earlier registration of {called(node)}",
            )
        except WaitTimeoutError as late:
            raise ClusterError(f"{late}: ZooKeeper would refuse a new registration") from late

    def _stop_brokers(
        self, order: Sequence[Sequence[str]], stop: Callable[[str], bool]
    ) -> dict[str, bool]:
        """Stop groups of brokers in turn, each when the groups before it have unregistered."""
        tasks: dict[str, Task[bool]] = {}
        try:
            for group in order:
                if tasks and group:
                    self._wait_unlisted(list(tasks))
                stops = {node: partial(stop, node) for node in group}
                tasks |= {node: start(each, "stop", awaited=True) for node, each in stops.items()}
        finally:  # No cleanup may begin while brokers are still stopping.
            for task in tasks.values():
                task.join()
        return {node: task.result() for node, task in tasks.items()}

    def _stop_for_good(self, node: str, timeout_s: float, quorum: Quorum) -> bool:
        votes = node in self.controllers or self.mode is Mode.COMBINED
        if not votes or not self._plan.is_kafka:
            return self.stop_node(node, timeout_s)
        disk, has_broker = self._layout.disk(node), node in self.nodes
        voter = Voter(node, quorum, disk, has_broker=has_broker)
        return self._processes.stop(node, timeout_s, voter)

    def _wait_unlisted(self, nodes: Sequence[str]) -> None:
        def are_unlisted() -> bool:
            view = self._admin.view()
            return view is None or view.registered.isdisjoint(nodes)

        with suppress(WaitTimeoutError):  # The next group then stops anyway.
            wait_until(
                are_unlisted,
                timeout_s=GRANT_TIMEOUT_S,
                what=f"{', '.join(nodes)} to be unregistered",
                interval_s=0.01,
            )
