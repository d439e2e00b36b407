"""A cluster of real Kafka brokers on hosts: combined KRaft nodes `n1`, `n2`, ..."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from cluster.hosts.process import free_ports
from cluster.kafka.admin import Admin
from cluster.kafka.brokers import BrokerProcesses
from cluster.kafka.collect import TEMPORARY
from cluster.kafka.configuration import (
    JAVA_ENVIRONMENT,
    Endpoint,
    logging_properties,
    server_properties,
)
from cluster.kafka.failures import sentence
from cluster.kafka.fetch import Distribution
from cluster.kafka.java import Java
from cluster.kafka.questions import Place
from cluster.kafka.storage import format_storage, java_argv
from cluster.kafka.versions import broker_names, controller_names
from cluster.protocol import ClusterError, ClusterView, Command, Hosts, ProcessId, UserError
from results.record.clock import WaitTimeoutError, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.topics import CreatedTopic

START_TIMEOUT_S = 90.0
TOPICS_TIMEOUT_S = 30.0
GRANT_TIMEOUT_S = 5.0
TAIL_BYTES = 32_768
BROKER_PORT = 9092
CONTROLLER_PORT = 9093


class KafkaCluster:
    """Implements `Cluster`, `CanKill` and `CanPause` of `cluster.protocol`.

    Args:
        plan: What decides the run.
        hosts: They are up already.
        distribution: The Kafka to run.
        java: The Java to run it with.
        paths: The run's folder; a node's files lie in `nodes/<node>`.
    """

    def __init__(
        self, plan: Plan, hosts: Hosts, *, distribution: Distribution, java: Java, paths: RunPaths
    ) -> None:
        self.nodes: Sequence[str] = broker_names(plan)
        self.controllers: Sequence[str] = controller_names(plan)
        self.mode = plan.mode
        self._plan = plan
        self._distribution = distribution
        self._java = java
        self._folders = {node: paths.node(node).absolute() for node in self.nodes}
        self.endpoints: Mapping[str, Endpoint] = _endpoints(hosts, self.nodes)
        self._brokers = BrokerProcesses(hosts, self._command)
        self._admin = Admin(self.endpoints, self._brokers.answers)

    def start(self) -> None:
        """Format the disks, start all nodes, wait until each is registered and answers.

        Raises:
            UserError: A broker does not start for a reason that is the user's to mend.
            ClusterError: A broker ended, or is not ready within `START_TIMEOUT_S`.
        """
        for node, folder in self._folders.items():
            if "," in str(folder):
                raise UserError(
                    f"Kafka would take {folder} for several folders; use --store with one whose"
                    " path has no comma"
                )
            (folder / "logs").mkdir(parents=True)
            (folder / TEMPORARY).mkdir()
            (folder / "server.properties").write_text(self._settings(node), encoding="utf-8")
            logging = logging_properties(folder / "logs")
            (folder / "log4j2.properties").write_text(logging, encoding="utf-8")
        format_storage(
            self._java,
            self._distribution,
            settings={node: at / "server.properties" for node, at in self._folders.items()},
            data={node: at / "data" for node, at in self._folders.items()},
        )
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(self.start_node, self.nodes))
        try:
            self._wait_ready()
        except ClusterError:
            self.close()
            raise

    def start_node(self, node: str) -> ProcessId:
        """Start one node's broker; return as soon as the process runs. Its disk is formatted."""
        return self._brokers.start(node)

    def stop_node(self, node: str, timeout_s: float) -> bool:
        """SIGTERM; SIGKILL after the limit. Return whether it ended by itself; log it."""
        return self._brokers.stop(node, timeout_s)

    def stop(self, timeout_s: float) -> dict[str, bool]:
        """Stop all nodes for good, so that each can end by itself.

        A broker ends when the quorum has granted its wish, which takes a majority of controllers;
        those end with their brokers. So the quorum's leader is told first, and the others as soon
        as its wish is granted (it is listed no more), while it is still closing its files: told in
        another order, or all at once, the last one may wait for a quorum that is gone.

        Args:
            timeout_s: The limit of each node, after which it is killed.

        Returns:
            Of each node whether it ended by itself.
        """
        view = self._admin.view()
        first = view.controller if view else None
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            tasks = {}
            if first is not None:
                tasks[first] = pool.submit(self.stop_node, first, timeout_s)
                self._wait_unlisted(first)
            for node in self.nodes:
                if node != first:
                    tasks[node] = pool.submit(self.stop_node, node, timeout_s)
            ended = {node: tasks[node].result() for node in self.nodes}
        self.close()
        return ended

    def close(self) -> None:
        """Close our connections; processes stay as they are. Idempotent; `stop` does it too."""
        self._admin.close()

    def kill_node(self, node: str) -> None:
        """SIGKILL the node's broker."""
        self._brokers.kill(node)

    def pause_node(self, node: str) -> None:
        """SIGSTOP the node's broker."""
        self._brokers.pause(node)

    def resume_node(self, node: str) -> None:
        """SIGCONT the node's broker. Idempotent."""
        self._brokers.resume(node)

    def process(self, node: str) -> ProcessId | None:
        """Return the broker process that was started last on a node, None before the first."""
        return self._brokers.process(node)

    def incarnation(self, node: str) -> int:
        """Return how often the node's broker was started: 1 for the first."""
        return self._brokers.incarnation(node)

    def answers(self, node: str) -> bool:
        """Tell whether a node's broker runs and is not paused, as far as processes show."""
        return self._brokers.answers(node)

    def exited(self) -> Mapping[str, ProcessId]:
        """Return the brokers that ended though nobody stopped or killed them, by node."""
        return self._brokers.exited()

    def last_words(self, node: str) -> str:
        """Return the end of what a node's broker wrote: its log, then its standard output."""
        logs = self._folders[node] / "logs"
        return "\n".join(_tail(logs / name) for name in ("server.log", "stdout.log"))

    def view(self) -> ClusterView | None:
        """Ask all nodes that run and are not paused; None if nobody answers (in under 2 s).

        `registered` is what the node nearest to the quorum's leader believes: a broker that was
        killed, paused or cut off stays in it until its session ends (3 s), and one that comes back
        sooner was never out of it. Whether a restarted broker is back, `is_back` tells.
        """
        return self._admin.view()

    def is_back(self, node: str) -> bool:
        """Tell whether a node is registered anew since its start, serves, and the quorum knows.

        It has to list itself, which it cannot do on the strength of an earlier registration (see
        `Admin.lists_itself`), and the node nearest to the quorum's leader has to list it too.
        """
        if not self._admin.lists_itself(node):
            return False
        view = self._admin.view()
        return view is not None and view.controller is not None and node in view.registered

    def bootstrap(self) -> str:
        """Return `host:port,...` for clients."""
        return ",".join(f"{at.host}:{at.broker_port}" for at in self.endpoints.values())

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
        created = self._admin.create_topics(
            names, partitions=partitions, replication=replication, configs=configs or {}
        )
        places = [(name, part) for name in names for part in range(partitions)]
        try:
            wait_until(
                lambda: self._led(places, replication),
                timeout_s=TOPICS_TIMEOUT_S,
                what="a leader and a full ISR of each new partition",
            )
        except WaitTimeoutError as late:
            raise ClusterError(f"{late}; see the controller.log of the nodes") from late
        return created

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

    def _settings(self, node: str) -> str:
        data = self._folders[node] / "data"
        return server_properties(self._plan, node, endpoints=self.endpoints, data=data)

    def _command(self, node: str) -> Command:
        folder = self._folders[node]
        argv = java_argv(
            self._java,
            self._distribution,
            f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
            # Where compression's native libraries are unpacked; a killed Java leaves them there.
            f"-Djava.io.tmpdir={folder / TEMPORARY}",
            "kafka.Kafka",
            str(folder / "server.properties"),
        )
        log = folder / "logs" / "stdout.log"
        return Command(argv=argv, log=log, cwd=folder, env=JAVA_ENVIRONMENT)

    def _wait_ready(self) -> None:
        try:
            wait_until(
                self._ready,
                timeout_s=START_TIMEOUT_S,
                what="every broker to be registered and to answer",
            )
        except WaitTimeoutError as late:
            missing = [node for node in self.nodes if not self._admin.lists_itself(node)]
            words = self.last_words(missing[0]) if missing else ""
            raise sentence(f"{late}; {', '.join(missing) or 'the quorum'} did not", words) from late

    def _wait_unlisted(self, node: str) -> None:
        def is_unlisted() -> bool:
            view = self._admin.view()
            return view is None or node not in view.registered

        with suppress(WaitTimeoutError):  # Then the others are told all the same.
            wait_until(
                is_unlisted,
                timeout_s=GRANT_TIMEOUT_S,
                what=f"the end of the registration of {node}",
                interval_s=0.01,
            )

    def _ready(self) -> bool:
        for node in self.exited():
            raise sentence(f"the broker of {node} ended while it started", self.last_words(node))
        if not all(self._admin.lists_itself(node) for node in self.nodes):
            return False
        view = self._admin.view()
        return (
            view is not None
            and view.controller is not None
            and view.registered.issuperset(self.nodes)
        )

    def _led(self, places: list[Place], replication: int) -> bool:
        view = self._admin.view()
        if view is None:
            return False
        states = [view.partitions.get(place) for place in places]
        return all(state and state.leader and len(state.isr) == replication for state in states)


def _endpoints(hosts: Hosts, nodes: Sequence[str]) -> dict[str, Endpoint]:
    addresses = {node: hosts.address(node) for node in nodes}
    if len(set(addresses.values())) == len(nodes) > 1:
        ports = [BROKER_PORT, CONTROLLER_PORT] * len(nodes)
    else:
        ports = free_ports(2 * len(nodes))  # They share one address.
    return {
        node: Endpoint(
            host=addresses[node], broker_port=ports[2 * at], controller_port=ports[2 * at + 1]
        )
        for at, node in enumerate(nodes)
    }


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
