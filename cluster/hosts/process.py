"""Hosts without separate machines: all nodes share this machine's loopback.

These hosts work on any Unix, but cannot cut links.
"""

import contextlib
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path

from cluster.hosts.agent import LOOPBACK
from cluster.hosts.leavings import remove_leavings
from cluster.hosts.ledger import ProcessLedger
from cluster.hosts.local import LocalHosts
from cluster.hosts.machine import Machine
from cluster.protocol import ClusterError, Command, ProcessId

LOWEST_PORT = 15_000
EPHEMERAL_ELSEWHERE = 32_768
"""The first ephemeral port on Linux by default. macOS begins at 49152, as IANA defines it."""


class ProcessHosts(LocalHosts):
    """The nodes of a run as groups of processes under one agent.

    Args:
        nodes: The names of the nodes.
        processes_file: `RunPaths.processes`.
        prefix: The beginning of the agent's command line; empty by default.
    """

    kind = "process"

    def __init__(
        self, nodes: Sequence[str], processes_file: Path, *, prefix: Sequence[str] = ()
    ) -> None:
        super().__init__(processes_file)
        self.nodes = tuple(nodes)
        self._prefix = tuple(prefix)
        self._machine: Machine | None = None

    def up(self) -> None:
        """Start the agent."""
        if self._machine is None:
            self._machine = Machine(
                "all nodes", ProcessLedger(self.processes_file), prefix=self._prefix
            )
            try:
                self._machine.wait_ready()
            except ClusterError:
                self.down()
                raise

    def address(self, node: str) -> str:
        """Return the loopback address. Nodes have different ports (see `free_ports`)."""
        self._check(node)
        return LOOPBACK

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process, which ends with the hosts or with the harness."""
        return self.enclosed(node, command, self.machine(node).spawn(node, command))

    def machine(self, node: str) -> Machine:
        """Return the one machine that all nodes share.

        Raises:
            ClusterError: There is no such node, or the hosts are down.
        """
        self._check(node)
        if self._machine is None:
            raise ClusterError("the hosts are down")
        return self._machine

    def exit_of(self, node: str, process: ProcessId) -> int | None:
        """Return the exit code of a process that was started, or minus the signal that ended it."""
        self._check(node)
        return self._machine.exit_of(process) if self._machine else None

    def down(self) -> None:
        """End all processes. Idempotent."""
        self.clocks.close()
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.close()
            machine.wait_closed()
        try:
            self.resources.remove()
        finally:
            remove_leavings(self.processes_file)

    def _check(self, node: str) -> None:
        if node not in self.nodes:
            raise ClusterError(f"there is no node {node}; the nodes are {', '.join(self.nodes)}")


def free_ports(count: int) -> list[int]:
    """Return unused TCP ports of the loopback, below the range of ephemeral ports.

    The kernel gives ephemeral ports to outgoing connections. If a client repeatedly connects to a
    killed broker's port, the kernel could give the client that port. The client would then be
    connected to itself (TCP's simultaneous open), and the broker could not start again.

    Raises:
        ClusterError: There are too few unused ports.
    """
    places = range(LOWEST_PORT, max(_first_ephemeral_port(), LOWEST_PORT + 1))
    start = secrets.randbelow(len(places))  # Parallel runs rarely collide.
    ports: list[int] = []
    with contextlib.ExitStack() as stack:
        for port in (*places[start:], *places[:start]):
            if len(ports) == count:
                return ports
            held = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                held.bind((LOOPBACK, port))
                ports.append(port)
    raise ClusterError(f"there are no {count} free ports from {places[0]} to {places[-1]}")


def _first_ephemeral_port() -> int:
    """Return the first ephemeral port (man 7 ip, `ip_local_port_range`)."""
    listing = Path("/proc/sys/net/ipv4/ip_local_port_range")
    return int(listing.read_text().split()[0]) if listing.exists() else EPHEMERAL_ELSEWHERE
