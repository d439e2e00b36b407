"""Hosts that are one: all nodes share this machine's loopback. Works on any Unix, cuts nothing."""

import contextlib
import socket
from collections.abc import Sequence
from pathlib import Path

from cluster.hosts.agent import LOOPBACK
from cluster.hosts.ledger import ProcessLedger
from cluster.hosts.machine import Machine
from cluster.protocol import ClusterError, Command, ProcessId


class ProcessHosts:
    """The nodes of a run as groups of processes under one agent.

    Args:
        nodes: Their names.
        processes_file: `RunPaths.processes`.
    """

    kind = "process"

    def __init__(self, nodes: Sequence[str], processes_file: Path) -> None:
        self._nodes = tuple(nodes)
        self._processes_file = processes_file
        self._machine: Machine | None = None

    def up(self) -> None:
        """Start the agent."""
        if self._machine is None:
            self._machine = Machine("all nodes", ProcessLedger(self._processes_file))
            try:
                self._machine.wait_ready()
            except ClusterError:
                self.down()
                raise

    def address(self, node: str) -> str:
        """Return the loopback address: nodes differ by their ports only (see `free_ports`)."""
        self._check(node)
        return LOOPBACK

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process; it dies with the hosts, and with the harness."""
        self._check(node)
        if self._machine is None:
            raise ClusterError("the hosts are down")
        return self._machine.spawn(node, command)

    def down(self) -> None:
        """End every process. Idempotent."""
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.close()
            machine.wait_closed()

    def _check(self, node: str) -> None:
        if node not in self._nodes:
            raise ClusterError(f"there is no node {node}, only {', '.join(self._nodes)}")


def free_ports(count: int) -> list[int]:
    """Return different TCP ports of the loopback that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for held in sockets:
            held.bind((LOOPBACK, 0))
        return [held.getsockname()[1] for held in sockets]
