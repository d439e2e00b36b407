"""Hosts that are Docker containers on a bridge network of the run.

    this machine:  harness, clients, bridge of the run's network (without access to the outside)
    n1:            a container of the image that only keeps the node's network and process
                   namespaces alive
    n1-1:          java kafka.Kafka, the first broker of n1, a container in these namespaces
    agent:         a process of this machine in n1's network namespace; sends probes, runs nft

So a node's address and cuts do not change when the broker is killed or restarted. The image needs
neither Python nor nft. The containers see the run's folder at the same path as this machine. So a
node's files remain after the broker has ended, and the harness can read these files directly. The
Docker daemon kills, pauses and inspects the processes.

If the harness is killed, everything ends: first the agents, then the programs that the agents
started to keep the nodes' containers alive. All processes of a node end with the container. Stopped
containers and the network remain. `heal_docker` finds these objects by the labels.
"""

import os
import signal
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import docker
from docker.errors import APIError, NotFound
from docker.models.containers import Container

from cluster.hosts.cuts import (
    INPUT,
    OUTPUT,
    chain,
    cut_rules,
    drop_marked,
    dropped_packets,
    join_rules,
)
from cluster.hosts.disk import LocalDisk
from cluster.hosts.docker.containers import ContainerMaker, line_to, refuse_unknown, wait_attached
from cluster.hosts.docker.daemon import connect, explained
from cluster.hosts.docker.image import KAFKA_LIBRARIES, Contents, contents_of, enter, refuse_absent
from cluster.hosts.docker.objects import remove_objects, traces_of
from cluster.hosts.ledger import ProcessLedger
from cluster.hosts.linked import LinkedHosts
from cluster.hosts.machine import Machine
from cluster.hosts.namespace import EVERY_ADDRESS, LOOSEN
from cluster.hosts.signals import is_stopped, process_id, send_signal, state_of
from cluster.protocol import CLIENTS, ClusterError, Command, Disk, Link, ProcessId, Quality
from results.record.paths import RunPaths

STATES = {"running": "S", "paused": "T"}
"""The state letter of `/proc/PID/stat` for each container status that the daemon reports."""


class DockerHosts(LinkedHosts):
    """The nodes of a run as Docker containers.

    Args:
        nodes: The names of the nodes.
        processes_file: `RunPaths.processes`. Its folder is the run's folder. The labels of the
            run's objects identify this folder.
        image: The image of the containers.
        own_software: Whether the user provides the software. If true, Logquake does not use the
            Kafka in the image.
    """

    kind = "docker"
    clients_are_ours = False

    def __init__(
        self, nodes: Sequence[str], processes_file: Path, *, image: str, own_software: bool = False
    ) -> None:
        super().__init__()
        self._root = processes_file.absolute().parent
        self._ledger = ProcessLedger(processes_file)
        self._image = image
        self._own_software = own_software
        self._addresses = dict.fromkeys(nodes, "")
        self._starts = dict.fromkeys(nodes, 0)
        self._holders: dict[str, Container] = {}
        self._containers: dict[ProcessId, str] = {}
        self._software: Sequence[Path] = ()
        self._to_clients: dict[str, frozenset[str]] = {}
        self._contents: Contents | None = None
        self._client: docker.DockerClient | None = None
        self._maker: ContainerMaker | None = None
        self._lock = threading.Lock()

    def up(self) -> None:
        """Create the network, and a container and an agent for each node.

        Raises:
            UserError: The daemon does not run, the image is missing or has no Java, or no subnet is
                left.
        """
        if self.machines:
            return
        self._client = connect()
        try:
            refuse_absent(self._client, self._image)
            self._maker = ContainerMaker(self._client, self._root, self._image)
            self._hold(self._maker)
            for node, holder in self._holders.items():
                prefix = enter(holder.attrs["State"]["Pid"])
                self.machines[node] = Machine(
                    node, self._ledger, prefix=prefix, listen=EVERY_ADDRESS
                )
            here = self.address(CLIENTS)
            self.machines[CLIENTS] = Machine(CLIENTS, self._ledger, listen=here)
            for machine in self.machines.values():
                machine.wait_ready()
            for node, holder in self._holders.items():
                self._attach(node, holder)
                self.machines[node].run(LOOSEN)
                for hook in (INPUT, OUTPUT):
                    self.run_nft(node, drop_marked(self.table, hook=hook))
            self._contents = contents_of(next(iter(self._holders.values())), self._image)
        except BaseException:
            self.down()
            raise

    def address(self, node: str) -> str:
        """Return a node's address on the run's network.

        For `CLIENTS`, return this machine's address on that network.
        """
        if node == CLIENTS:
            return own_address(next(iter(self._addresses.values())))
        if node not in self._addresses:
            raise ClusterError(
                f"there is no node {node}; the nodes are {', '.join(self._addresses)}"
            )
        return self._addresses[node]

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process in a separate container, which shares the node's namespaces."""
        self.machine(node).seen([])  # The node's namespaces end with its agent.
        holder, what = self._holders[node], Path(command.argv[0]).name
        self._ledger.intend(what, node)
        argv = self._as_in_the_image(command.argv)
        refuse_unknown(holder, argv[0], self._image)
        command.log.absolute().parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            self._starts[node] += 1
            number = self._starts[node]
        container = self._made_by().process(
            holder,
            node=node,
            number=number,
            command=replace(command, argv=argv),
            software=self._shown_software(),
        )
        process = self._process_of(container, node)
        self._containers[process] = str(container.id)
        self._ledger.started(what, node, process)
        return process

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Kill, pause or resume a process through the daemon; False if it has already ended."""
        if not process.machine:  # An agent.
            return send_signal(process, number)
        if self.state_of(process) is None:
            return False
        api, container = self._daemon().api, self._containers[process]
        try:
            match number:
                case signal.SIGSTOP:
                    api.pause(container)
                case signal.SIGCONT:
                    api.unpause(container)
                case _:
                    api.kill(container, number.name)
        except APIError as refused:
            # The process ended meanwhile, or it was already paused or running as wanted.
            state = self.state_of(process)
            if state is not None and state != ("T" if number == signal.SIGSTOP else "S"):
                raise ClusterError(f"Docker refuses: {refused.explanation}") from refused
            return state is not None
        return True

    def state_of(self, process: ProcessId) -> str | None:
        """Return T if a process is paused or stopped, S if it runs, and None if it has ended.

        The daemon may have paused the process, or a signal in its container may have stopped it.
        """
        if not process.machine:
            return state_of(process)
        container = self._containers.get(process)
        if container is None or self._client is None:
            return None
        with explained():
            try:
                state = self._client.api.inspect_container(container)["State"]
            except NotFound:
                return None
        if state["Status"] == "running" and is_stopped(process):
            return STATES["paused"]
        return STATES.get(state["Status"])

    def exit_of(self, node: str, process: ProcessId) -> int | None:  # noqa: ARG002 - a process names its container
        """Return the exit code of a node's process as the daemon reports it; None if unknown."""
        container = self._containers.get(process)
        if container is None or self._client is None or self.state_of(process) is not None:
            return None
        with explained():
            try:
                code: int = self._client.api.inspect_container(container)["State"]["ExitCode"]
            except NotFound:
                return None
        return code

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        """Drop the packets on the links. The nft rules are in the containers' namespaces."""
        directed = frozenset(links)
        to_clients = {link for link in directed if link[1] == CLIENTS}
        super().cut(cut_id, directed - to_clients)
        self._to_clients[cut_id] = frozenset(sender for sender, _ in to_clients)
        for sender in sorted(self._to_clients[cut_id]):
            there = {CLIENTS: self.address(CLIENTS)}
            rules = cut_rules(_outward(cut_id), there, table=self.table, hook=OUTPUT)
            self.run_nft(sender, rules)

    def join(self, cut_id: str) -> None:
        """Undo the cut with this id. Idempotent."""
        try:
            super().join(cut_id)
        finally:
            for sender in sorted(self._to_clients.get(cut_id, frozenset())):
                self.run_nft(sender, join_rules(_outward(cut_id), table=self.table, hook=OUTPUT))
            self._to_clients.pop(cut_id, None)

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        """Return the number of packets that each link of a cut has dropped (nft counters)."""
        counts = dict(super().dropped(cut_id))
        for sender in sorted(self._to_clients.get(cut_id, frozenset())):
            argv = [
                *self.nft(sender),
                "-j",
                "list",
                "chain",
                "ip",
                self.table,
                chain(_outward(cut_id)),
            ]
            listing = self.machine(sender).run(argv)
            for receiver, packets in dropped_packets(listing, {chain(_outward(cut_id))}):
                counts[sender, receiver] = packets
        return counts

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        """Delay or drop packets from the first node of each link to the second node.

        Raises:
            ClusterError: A link begins at the clients. The run may not change this machine's own
                routes.
        """
        directed = frozenset(links)
        if any(sender == CLIENTS for sender, _ in directed):
            raise ClusterError("on Docker hosts the links from clients to nodes cannot be degraded")
        super().shape(shape_id, directed, quality)

    def disk(self, node: str) -> Disk:
        """Return access to the files in a node's folder on this machine."""
        return LocalDisk(RunPaths(self._root).node(node))

    def java(self, node: str) -> Path:
        """Return the path of `java` in the image."""
        self.machine(node)
        return self._inside().java

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Let containers that do not use the image's Kafka see the software's files."""
        self.machine(node)
        self._software = tuple(software)

    def fetch(self, node: str) -> None:
        """Do nothing, because a node's folder is already on this machine."""

    def traces(self) -> Mapping[str, str]:
        """Return the run's objects that exist on the daemon now."""
        return traces_of(self._root)

    def down(self) -> None:
        """End all processes, and remove the containers and the network. Idempotent."""
        machines, self.machines = self.machines, {}
        client, self._client, self._maker = self._client, None, None
        try:
            if client is not None:
                with closing(client), explained():
                    remove_objects(client, self._root)
        finally:
            for machine in machines.values():
                machine.close()
            for machine in machines.values():
                machine.wait_closed()
            for book in (self._cuts, self._shapes, self._blocks, self._to_clients, self._holders):
                book.clear()
            self._containers.clear()

    def _hold(self, maker: ContainerMaker) -> None:
        """Create the network, and the containers that keep the nodes' namespaces alive."""
        network = maker.network()
        with ThreadPoolExecutor(len(self._addresses)) as pool:
            made = pool.map(lambda node: maker.holder(node, network), self._addresses)
            self._holders = dict(zip(self._addresses, made, strict=True))
        for node, holder in self._holders.items():
            with explained():
                holder.reload()
            at: str = holder.attrs["NetworkSettings"]["Networks"][network]["IPAddress"]
            if not at:
                raise ClusterError(f"the container of {node} ended at once: {holder.status}")
            self._addresses[node] = at

    def _attach(self, node: str, holder: Container) -> None:
        """Let a node's agent keep the container's input open. The container ends with the agent."""
        machine, log = self.machines[node], self._root / "agents.log"
        held = machine.spawn(node, Command(argv=line_to(holder), log=log, cwd=self._root))
        wait_attached(holder, log, runs=lambda: machine.state_of(held) not in {None, "Z", "X"})

    def _daemon(self) -> docker.DockerClient:
        if self._client is None:
            raise ClusterError("the hosts are down")
        return self._client

    def _made_by(self) -> ContainerMaker:
        if self._maker is None:
            raise ClusterError("the hosts are down")
        return self._maker

    def _inside(self) -> Contents:
        if self._contents is None:
            raise ClusterError("the hosts are down")
        return self._contents

    def _shown_software(self) -> Mapping[Path, Path]:
        """Return the files that containers must see, as {path in containers: path here}."""
        if not self._software or not self._brings_software():
            return {}
        if self._own_software:
            return {each: each.resolve() for each in self._software}
        folder = Path(os.path.commonpath(self._software))
        return {folder: folder}

    def _brings_software(self) -> bool:
        """Return whether containers run this machine's software instead of the image's Kafka."""
        return self._own_software or not self._inside().kafka

    def _as_in_the_image(self, argv: Sequence[str]) -> list[str]:
        """Return the command line in the container. The image's Kafka has another class path."""
        if self._brings_software():
            return list(argv)
        ours = ":".join(map(str, self._software))
        return [f"{KAFKA_LIBRARIES}/*" if word == ours else word for word in argv]

    def _process_of(self, container: Container, node: str) -> ProcessId:
        """Return the identity of a container's process, with the local pid if the process runs."""
        with explained():
            container.reload()
        pid: int = container.attrs["State"]["Pid"]
        ticks = process_id(pid).start_ticks if pid else 0
        # If the process has already ended, a part of its unique container id identifies it.
        return ProcessId(
            pid=pid, start_ticks=ticks or int(str(container.id)[:12], 16), machine=node
        )


def own_address(address: str) -> str:
    """Return the source address for packets to `address`, without sending a packet (man 7 udp).

    Raises:
        ClusterError: This machine has no route to the address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((address, 9))
        except OSError as refused:
            raise ClusterError(
                f"this machine cannot reach containers at {address} ({refused.strerror}): run"
                " Logquake on the machine that has the networks of the Docker daemon"
            ) from refused
        found: str = asked.getsockname()[0]
        return found


def _outward(cut_id: str) -> str:
    return f"{cut_id} to clients"
