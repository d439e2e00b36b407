"""A node that starts: nobody gets in before it can answer."""

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.reference.machine import Machine, StopAsked
from cluster.reference.process.driver import Driver
from cluster.reference.process.program import main
from tests.reference.node_processes import NodeProcesses


def takes_connections(port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def run_looking(nodes: NodeProcesses, patch: pytest.MonkeyPatch, look: Callable[[], None]) -> int:
    """Run a node in this process, look as its machine begins, and have it end at once."""
    start = Driver.start

    def looking(driver: Driver, machine: Machine) -> None:
        look()
        start(driver, machine)
        driver.take(StopAsked())

    patch.setattr(Driver, "start", looking)
    patch.chdir(nodes.root)  # A node moves into its folder.
    return main([str(nodes.folder(1) / "server.properties")])


def test_no_listener_takes_a_connection_before_the_machine_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, taken = NodeProcesses(tmp_path, nodes=1), list[bool]()
    ports = (*nodes.ports.values(), *nodes.quorum_ports.values())
    code = run_looking(nodes, monkeypatch, lambda: taken.extend(map(takes_connections, ports)))
    assert (taken, code) == ([False, False], 0)


def test_a_port_that_is_taken_is_told_before_the_machine_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    nodes, begun = NodeProcesses(tmp_path, nodes=1), list[bool]()
    with socket.create_server(("127.0.0.1", nodes.quorum_ports[1])):
        code = run_looking(nodes, monkeypatch, lambda: begun.append(True))
    assert (begun, code) == ([], 1)
    assert "address already in use" in capfd.readouterr().err


def test_a_port_that_is_taken_while_the_machine_begins_ends_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    nodes = NodeProcesses(tmp_path, nodes=1)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", nodes.ports[1]))
        code = run_looking(nodes, monkeypatch, other.listen)
    assert code == 1
    assert "already listens" in capfd.readouterr().err
