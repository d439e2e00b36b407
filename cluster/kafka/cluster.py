"""A cluster of real Kafka on hosts: brokers `n1`, `n2`, ..., and who keeps their metadata."""

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
from cluster.nodes import ZOOKEEPER_MACHINE, called, is_controller
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
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.runtime import Task, all_of, start
from results.record.terms import Mode
from results.record.topics import CreatedTopic

START_TIMEOUT_S = 90.0
GRANT_TIMEOUT_S = 5.0
ZOOKEEPER_STOP_S = 10.0
SESSION_GRACE_S = 15.0
"""By how much ZooKeeper may be late to end a session on a busy machine."""


class KafkaCluster:
    """Implements `Cluster`, `CanKill` and `CanPause` of `cluster.protocol`.

    What is said of nodes holds for controllers of their own as for brokers, unless it says broker.

    Args:
        plan: What decides the run.
        hosts: They are up already, one machine for each of `cluster.nodes.machines`.
        programs: What the servers are.
        paths: The run's folder; a node's files lie in `nodes/<node>`, ZooKeeper's in `zookeeper`.

    Attributes:
        nodes: The brokers.
        controllers: Controllers of their own, `n101`, ...; none in the other modes.
        mode: Who keeps the metadata.
        reads_all_at_start: Whether its servers read all of their logs as they start.
        sees: What they may be asked for.
        zookeeper: `host:port`, None without it.
        endpoints: Where brokers and controllers of their own listen.
        logs: Knows its nodes' files.
        by_hand: Takes requests for single topics.
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
        """Return `host:port` of ZooKeeper, None without it."""
        at = self._layout.zookeeper
        return f"{at[0]}:{at[1]}" if at else None

    @property
    def keeper(self) -> str | None:
        """Return ZooKeeper's node, None without it."""
        return ZOOKEEPER_MACHINE if self._layout.zookeeper else None

    def start(self, first: Sequence[str] = (), *, inherited: bool = False) -> None:
        """Prepare the disks, start all nodes, wait until each is registered and answers.

        Args:
            first: Brokers that are started before the others, one after another, each as soon as
                the one before it is registered: so the first of them becomes the controller in
                ZooKeeper mode. With combined nodes none can be waited for, as one makes no quorum.
            inherited: The nodes' folders have the data of an earlier cluster of the plan.

        Raises:
            UserError: A node does not start for a reason that is the user's to mend.
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
        """Return the nodes that a node's process plays, itself among them."""
        return self._layout.played_with(node)

    def start_node(self, node: str) -> ProcessId:
        """Start one node's server; return as soon as the process runs. Its disk is prepared.

        ZooKeeper keeps the registration of a broker that was killed until its session ends, and
        refuses the next one of the same id as long (NodeExists): that is waited for. `zk` is
        ZooKeeper itself.

        Raises:
            ClusterError: It runs already, or its old registration stays.
        """
        of_broker = node != ZOOKEEPER_MACHINE and not self._processes.runs(node)
        if of_broker and isinstance(self._admin, ZooKeeperAdmin):
            self._wait_forgotten(node, self._admin)
        return self._processes.start(node)

    def stop_node(self, node: str, timeout_s: float) -> bool:
        """SIGTERM; SIGKILL after the limit. Return whether it ended by itself; log it."""
        return self._processes.stop(node, timeout_s)

    def stop(self, timeout_s: float) -> dict[str, bool]:
        """Stop all nodes for good, so that each can end by itself; ZooKeeper last.

        A broker ends when its controller has granted its wish. Who grants them:

        - of controllers of their own the leader, so that all brokers may be told at once;
        - in ZooKeeper mode one of the brokers, which is told last;
        - of combined nodes a majority, which ends with its brokers. So they are told at once, too:
          their wishes are granted within some 50 ms then, and a broker takes longer to close its
          files, for which its controller waits. Told one after another, the last one may wait for
          a quorum that is gone, and is killed. On a machine that is too busy that can still be.

        The last ones of a quorum would wait 5 s for voters that are gone; see `stopping`.

        Args:
            timeout_s: The limit of each node, after which it is killed.

        Returns:
            Of each node whether it ended by itself, or had closed its broker's logs when it was
            killed as it waited for a quorum that is gone.
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
        """Return who will ask each broker about topics; see `Observer`."""
        return Observer(self, topics, clock=clock, live=live, beside=self.by_hand)

    def collect(self, folder: Path) -> None:
        """Tidy a node's folder when all has stopped; see `collect`."""
        collect(folder, sees=self.sees)

    def close(self) -> None:
        """Close our connections; processes stay as they are. Idempotent; `stop` does it too."""
        for connections in (self._admin, self._quorum, self.by_hand):
            connections.close()

    def kill_node(self, node: str) -> None:
        """SIGKILL the node's broker."""
        self._processes.kill(node)

    def excuse_end(self, node: str) -> None:
        """Take the end of a node's broker for a fault's, though no signal of ours comes first."""
        self._processes.excuse(node)

    def pause_node(self, node: str) -> None:
        """SIGSTOP the node's broker."""
        self._processes.pause(node)

    def resume_node(self, node: str) -> None:
        """SIGCONT the node's broker. Idempotent."""
        self._processes.resume(node)

    def process(self, node: str) -> ProcessId | None:
        """Return the broker process that was started last on a node, None before the first."""
        return self._processes.process(node)

    def incarnation(self, node: str) -> int:
        """Return how often the node's broker was started: 1 for the first."""
        return self._processes.incarnation(node)

    def answers(self, node: str) -> bool:
        """Tell whether a node's broker runs and is not paused, as far as processes show."""
        return self._processes.answers(node)

    def exited(self) -> Mapping[str, ProcessId]:
        """Return what ended though nobody stopped or killed it, ZooKeeper (`zk`) included."""
        return self._processes.exited()

    def ended(self) -> Sequence[Ended]:
        """Return what ended, or stands still, by itself; ZooKeeper (`zk`) and earlier lives too."""
        return self._processes.ended()

    def lives(self) -> int:
        """Return how many servers were started, each start counted."""
        return self._processes.lives()

    def complaints(self, node: str, *, life: int = 0) -> list[str]:
        """Return the last lines of a server that report an error, and its very last line.

        Args:
            node: The server's node.
            life: Which start of the server wrote them: 1 is the first start, 0 the last one.
        """
        return self._layout.complaints(node, life=life)

    def stacks(self) -> dict[str, str]:
        """Have each JVM that runs print its threads' stacks; return the deadlocks found, by node.

        Nodes of the reference cluster are no JVMs.
        """
        if not self._plan.is_kafka:
            return {}
        running = [node for node in (*self.nodes, *self.controllers) if self.answers(node)]
        return printed_stacks(running, self._layout.disk, self._processes.send_signal)

    def last_words(self, node: str) -> str:
        """Return the end of what a server wrote: its log, then its standard output."""
        return self._layout.last_words(node)

    def view(self) -> ClusterView | None:
        """Ask all nodes that run and are not paused; None if nobody answers (in under 2 s).

        In ZooKeeper mode ZooKeeper alone is asked. Otherwise `registered` is what the node nearest
        to the quorum's leader believes. Either way a broker that was killed, paused or cut off
        stays in it until its session ends (3 s), and one that comes back sooner was never out of
        it. Whether a restarted broker is back, `is_back` tells.
        """
        return self._admin.view()

    def is_back(self, node: str) -> bool:
        """Tell whether a node is registered anew since its start, serves, and the quorum knows.

        It has to list itself, which it cannot do on the strength of an earlier registration (see
        `Admin.lists_itself`), and the node nearest to the quorum's leader has to list it too. A
        controller of its own is back when it answers, ZooKeeper when it serves, names a controller
        and has all brokers that run.
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
        """Tell whether a controller is known, and each of some brokers that runs is registered."""
        view, run = self._admin.view(), {*filter(self.answers, nodes)}
        return view is not None and view.controller is not None and run <= view.registered

    def bootstrap(self) -> str:
        """Return `host:port,...` for clients."""
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
        """Create topics and wait until every partition of them has a leader and a full ISR.

        Args:
            names: Of the topics.
            partitions: Of each topic.
            replication: Replicas of each partition.
            configs: Settings of the topics, beside the brokers' defaults.

        Raises:
            UserError: Kafka refuses them.
            ClusterError: Nobody answers, or they are not ready in time.
        """
        return make_topics(
            self._admin, names, partitions=partitions, replication=replication, configs=configs
        )

    def create_topic(
        self, name: str, *, assignment: Mapping[int, Sequence[str]], configs: Mapping[str, str]
    ) -> CreatedTopic:
        """Create a topic with its replicas where they are wanted, and wait for them.

        Args:
            name: Its name.
            assignment: Brokers by partition; the first of each is its preferred leader.
            configs: Settings of the topic, beside the brokers' defaults.

        Raises:
            UserError: Kafka refuses it.
            ClusterError: Nobody answers, or it is not ready in time.
        """
        return make_topic(self._admin, name, assignment=assignment, configs=configs)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; those that there are not are deleted already. Returns when it is ordered.

        Raises:
            ClusterError: The controller refuses, or nobody answers.
        """
        self._admin.delete(names)

    def topics_of(self, node: str) -> frozenset[str] | None:
        """Return the topics that one broker believes there are; None if it does not answer."""
        return self._admin.topics_of(node)

    def coordinator(self, kind: CoordinatorKind, key: str) -> str | None:
        """Return who coordinates a group or a transactional id now; None if nobody is known."""
        return self._admin.coordinator(kind, key)

    def clock_error_s(self, node: str) -> float:
        """Return by how much a node's clock, by its own word, is ahead of ours; see `broker_clock`.

        Raises:
            ClusterError: It does not say.
        """
        at = self.endpoints[node]
        port = at.controller_port if is_controller(node) else at.broker_port
        return clock_error_s((at.host, port), self._layout.disk(node), node=node)

    def elect_preferred(self, place: Place) -> None:
        """Have the first replica of a partition's assignment elected."""
        self._admin.elect_preferred(place)

    def elect_unclean(self, place: Place) -> None:
        """Have any replica that lives elected, if no member of the ISR does."""
        self._admin.elect_unclean(place)

    def reassign(self, place: Place, replicas: Sequence[str]) -> None:
        """Give a partition other replicas, or another order of them."""
        self._admin.reassign(place, replicas)

    def leader_ends(
        self, places: Iterable[Place], *, committed: bool, timeout_s: float
    ) -> dict[Place, int]:
        """Ask each partition's leader for its end, again and again until all have answered.

        Args:
            places: (topic, partition) each.
            committed: True: the last stable offset, where a read_committed consumer ends, once it
                has caught up with the end of the log; False: the high watermark.
            timeout_s: After so long, what was answered last is returned.
        """
        return self._admin.leader_ends(places, committed=committed, timeout_s=timeout_s)

    def open_transactions(self, places: Iterable[Place]) -> dict[Place, list[str]]:
        """Return whose transactions are open, a sentence each, as the partitions' leaders tell."""
        return self._admin.open_transactions(places)

    def share_lags(self, group: str, places: Collection[Place]) -> dict[Place, int]:
        """Return how many records of each partition a share group is not done with, if known."""
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
            raise sentence(f"{late}; it did not", self.last_words(ZOOKEEPER_MACHINE)) from late

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
            raise sentence(f"{called(node)} ended while it started", self.last_words(node))

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
            raise ClusterError(f"{late}: it would refuse a new one") from late

    def _stop_brokers(
        self, order: Sequence[Sequence[str]], stop: Callable[[str], bool]
    ) -> dict[str, bool]:
        """Tell groups of brokers to stop, each as soon as the one before it is listed no more."""
        tasks: dict[str, Task[bool]] = {}
        try:
            for group in order:
                if tasks and group:
                    self._wait_unlisted(list(tasks))
                stops = {node: partial(stop, node) for node in group}
                tasks |= {node: start(each, "stop", awaited=True) for node, each in stops.items()}
        finally:  # Nobody tidies up under brokers that others are still told to stop.
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

        with suppress(WaitTimeoutError):  # Then the others are told all the same.
            wait_until(
                are_unlisted,
                timeout_s=GRANT_TIMEOUT_S,
                what=f"the end of the registration of {', '.join(nodes)}",
                interval_s=0.01,
            )
