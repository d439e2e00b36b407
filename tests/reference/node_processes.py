"""Nodes of a reference cluster as processes of this machine, for tests."""

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # no stubs

from cluster.files.properties import properties
from cluster.hosts.process import free_ports
from cluster.reference.process.control import SOCKET
from cluster.reference.process.formatting import format_log_dirs
from results.record.clock import wait_until

QUICK = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "250",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "2000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
}
LIMIT_S = 60


class NodeProcesses:
    """Nodes 1, 2, ...; their folders are `root/n1`, ..."""

    def __init__(self, root: Path, nodes: int = 3) -> None:
        self.root, self.ids = root, range(1, nodes + 1)
        ports = free_ports(2 * nodes)
        self.ports = dict(zip(self.ids, ports[:nodes], strict=True))
        self.quorum_ports = dict(zip(self.ids, ports[nodes:], strict=True))
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        format_log_dirs({node: self.folder(node) / "data" for node in self.ids})
        for node in self.ids:
            self._settings(node)

    def folder(self, node: int) -> Path:
        return self.root / f"n{node}"

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running.values()]

    def start(self, nodes: Sequence[int] | None = None) -> None:
        for node in nodes or self.ids:
            self._running[node] = subprocess.Popen(
                [sys.executable, "-P", "-m", "cluster.reference.process",
                 str(self.folder(node) / "server.properties")],
                stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def kill(self, node: int) -> None:
        process = self._running.pop(node)
        process.kill()
        process.wait(LIMIT_S)

    def send_signal(self, node: int, number: signal.Signals) -> None:
        self._running[node].send_signal(number)

    def stop(self) -> dict[int, int]:
        """Have all end in good order; return their exit codes."""
        for process in self._running.values():
            process.terminate()
        codes = {node: process.wait(LIMIT_S) for node, process in self._running.items()}
        self._running.clear()
        return codes

    def end(self) -> None:
        for node in list(self._running):
            self.kill(node)

    def runs(self, node: int) -> bool:
        return self._running[node].poll() is None

    def pid(self, node: int) -> int:
        return self._running[node].pid

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def wait_live(self, nodes: Sequence[int] | None = None) -> None:
        """Wait until all these brokers are registered, as the others see them."""
        wanted, admin = set(nodes or self.ids), self.admin()

        def are_live() -> bool:
            with contextlib.suppress(KafkaException):
                return set(admin.list_topics(timeout=2).brokers) == wanted
            return False

        wait_until(are_live, timeout_s=LIMIT_S, what=f"brokers {sorted(wanted)} to live")

    def create(self, topic: str, partitions: int = 1) -> None:
        admin = self.admin()  # It must outlive its futures.
        made = admin.create_topics([NewTopic(topic, partitions, len(self.ids))])
        made[topic].result(LIMIT_S)
        self.wait_led(topic)

    def wait_led(self, topic: str, *, isr: int | None = None) -> int:
        """Wait until all partitions have leaders and ISRs; return the leader of the first."""
        size, admin, found = isr or len(self.ids), self.admin(), [-1]

        def is_led() -> bool:
            with contextlib.suppress(KafkaException):
                told = admin.list_topics(topic, timeout=2).topics[topic].partitions
                found[0] = told[0].leader if told else -1
                return bool(told) and all(
                    each.leader >= 0 and len(each.isrs) == size for each in told.values()
                )
            return False

        wait_until(is_led, timeout_s=LIMIT_S, what=f"leaders and ISRs of {size} for {topic}")
        return found[0]

    def control(self, node: int, line: str) -> str:
        """Say a line to a node's control socket; return its answer."""
        with contextlib.chdir(self.folder(node)), socket.socket(socket.AF_UNIX) as line_to:
            line_to.settimeout(LIMIT_S)
            line_to.connect(SOCKET)
            line_to.sendall(f"{line}\n".encode())
            return line_to.makefile().readline().strip()

    def said(self, node: int) -> str:
        return (self.folder(node) / "logs" / "server.log").read_text()

    def _settings(self, node: int) -> None:
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self.quorum_ports.items())
        broker = f"BROKER://127.0.0.1:{self.ports[node]}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "listeners": f"{broker},CONTROLLER://127.0.0.1:{self.quorum_ports[node]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(self.folder(node) / "data"),
            "offsets.topic.replication.factor": str(len(self.ids)),
            **QUICK,
        }
        (self.folder(node) / "server.properties").write_text(properties(settings))


@contextlib.contextmanager
def node_processes(root: Path, nodes: int = 3) -> Iterator[NodeProcesses]:
    """Run a cluster; nothing of it is left afterwards."""
    cluster = NodeProcesses(root, nodes)
    try:
        cluster.start()
        cluster.wait_live()
        yield cluster
    finally:
        cluster.end()
