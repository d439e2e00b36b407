"""Links that the nodes cut by themselves, at the word of hosts that share one address."""

import contextlib
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from cluster.protocol import Ability, CanPartition, ClusterError, Command
from cluster.reference.process import hosts as hosts_module
from cluster.reference.process.control import SOCKET
from cluster.reference.process.cuts import CUTS_FILE
from cluster.reference.process.hosts import CuttingHosts
from cluster.systems.registry import system_of
from harness.elsewhere import abilities_for
from results.record.clock import wait_until
from results.record.paths import RunPaths
from results.record.plan import plan_from
from tests.reference.node_processes import LIMIT_S, NodeProcesses, node_processes

pytestmark = pytest.mark.everything

NAMES = ("n1", "n2", "n3")
ALL = [(one, other) for one in NAMES for other in NAMES if one != other]


@pytest.fixture
def room(tmp_path: Path) -> Iterator[tuple[NodeProcesses, CuttingHosts]]:
    """Three nodes in a folder that is too deep for the address of a Unix socket."""
    paths = RunPaths(tmp_path / ("deep" * 20))
    with node_processes(paths.node("n1").parent) as nodes:
        yield nodes, CuttingHosts(NAMES, paths.processes)


def _admin(nodes: NodeProcesses, node: int) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{nodes.ports[node]}", "log_level": 0})


def _brokers_as_seen_by(nodes: NodeProcesses, node: int) -> set[int]:
    with contextlib.suppress(KafkaException):
        return set(_admin(nodes, node).list_topics(timeout=2).brokers)
    return set()


@pytest.mark.timeout(180)
def test_a_cut_is_seen_from_outside_until_it_is_joined(
    room: tuple[NodeProcesses, CuttingHosts],
) -> None:
    nodes, hosts = room
    assert isinstance(hosts, CanPartition)
    assert hosts.probe(ALL, timeout_s=20) == dict.fromkeys(ALL, True)
    cut = [("n1", "n2"), ("n1", "n3")]
    hosts.cut("mute", cut)
    assert hosts.probe(ALL) == {link: link not in cut for link in ALL}
    # n1's heartbeats reach nobody: its session ends, as both others tell.
    wait_until(
        lambda: all(_brokers_as_seen_by(nodes, node) == {2, 3} for node in (2, 3)),
        timeout_s=LIMIT_S,
        what="n1 to be out of the cluster",
    )
    assert all(count > 0 for count in hosts.dropped("mute").values())
    hosts.cut("more", [("n1", "n2"), ("n2", "n1")])
    hosts.join("mute")
    still = [("n1", "n2"), ("n2", "n1")]
    assert hosts.probe(ALL, timeout_s=20) == {link: link not in still for link in ALL}
    hosts.join("more")
    hosts.join("more")
    assert hosts.probe(ALL, timeout_s=20) == dict.fromkeys(ALL, True)
    nodes.wait_live()


@pytest.mark.timeout(180)
def test_a_node_that_was_down_begins_with_its_cuts(
    room: tuple[NodeProcesses, CuttingHosts],
) -> None:
    nodes, hosts = room
    cut = [("n2", "n1"), ("n2", "n3")]
    nodes.kill(2)
    hosts.cut("mute", cut)
    assert hosts.probe(cut) == dict.fromkeys(cut, False)
    nodes.start([2])
    wait_until(lambda: hosts.listens("n2"), timeout_s=LIMIT_S, what="n2 to listen")
    assert hosts.probe([*cut, ("n1", "n2")], timeout_s=2) == {
        **dict.fromkeys(cut, False),
        ("n1", "n2"): True,
    }
    hosts.join("mute")
    assert hosts.probe(cut, timeout_s=20) == dict.fromkeys(cut, True)
    nodes.wait_live()


@pytest.mark.timeout(180)
def test_a_node_that_stood_still_sends_nothing_before_it_knows_of_its_cuts(
    room: tuple[NodeProcesses, CuttingHosts],
) -> None:
    nodes, hosts = room
    nodes.send_signal(1, signal.SIGSTOP)
    # As a cut does for a node that stands still; its line over the socket comes behind all else.
    (nodes.folder(1) / CUTS_FILE).write_text("2 3")
    nodes.send_signal(1, signal.SIGCONT)
    assert hosts.probe([("n1", "n2"), ("n1", "n3"), ("n2", "n1")], timeout_s=2) == {
        ("n1", "n2"): False, ("n1", "n3"): False, ("n2", "n1"): True,
    }  # fmt: skip


def test_a_link_to_nobody_is_refused(tmp_path: Path) -> None:
    hosts = CuttingHosts(NAMES, RunPaths(tmp_path).processes)
    with pytest.raises(ClusterError, match="there is no node n4"):
        hosts.cut("x", [("n1", "n4")])
    assert hosts.dropped("x") == {}


def test_a_node_that_runs_and_does_not_answer_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file alone would tell of a cut that it may never have heard of."""
    monkeypatch.setattr(hosts_module, "BUSY_S", 0.2)
    hosts = CuttingHosts(NAMES, RunPaths(tmp_path).processes)
    with contextlib.ExitStack() as stack:
        stack.callback(hosts.down)
        hosts.up()
        deaf = [sys.executable, "-c", "import signal; signal.pause()"]
        process = hosts.spawn("n1", Command(argv=deaf, log=tmp_path / "log", cwd=tmp_path))
        for deed in (lambda: hosts.cut("x", [("n1", "n2")]), lambda: hosts.probe([("n1", "n2")])):
            with pytest.raises(ClusterError, match="n1 to answer over its control socket"):
                deed()
        assert hosts.probe([("n2", "n1")]) == {("n2", "n1"): True}
        hosts.send_signal(process, signal.SIGSTOP)
        wait_until(lambda: hosts.state_of(process) == "T", timeout_s=20, what="n1 to stand still")
        told = stack.enter_context(socket.socket(socket.AF_UNIX))
        told.settimeout(0)
        folder = RunPaths(tmp_path).node("n1")
        folder.mkdir(parents=True)
        with contextlib.chdir(folder):
            told.bind(SOCKET)
        told.listen()
        hosts.cut("x", [("n1", "n2")])
        assert hosts.probe([("n1", "n2")]) == {("n1", "n2"): False}
        # What it must know waits for it, and nothing else stands in the way.
        line, _ = told.accept()
        with line:
            assert line.recv(64) == b"cut 2\n"
        with pytest.raises(BlockingIOError):
            told.accept()
        hosts.send_signal(process, signal.SIGKILL)


def test_a_cut_whose_end_the_disk_refuses_is_ended_later(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    hosts, folder = CuttingHosts(NAMES, paths.processes), paths.node("n1")
    hosts.cut("x", [("n1", "n2")])
    assert (folder / CUTS_FILE).read_text() == "2"
    aside = folder.rename(tmp_path / "aside")
    folder.touch()
    with pytest.raises(ClusterError, match="n1/cuts cannot be used"):
        hosts.join("x")
    folder.unlink()
    aside.rename(folder)
    assert hosts.probe([("n1", "n2")]) == {("n1", "n2"): False}
    hosts.join("x")
    assert hosts.probe([("n1", "n2")]) == {("n1", "n2"): True}


def test_only_nodes_of_the_reference_cluster_cut_by_themselves() -> None:
    own = abilities_for(system_of(plan_from({"system": "reference"})), "process")
    assert own[Ability.CUT] == ""
    assert "--hosts namespace" in own[Ability.CUT_CLIENTS]
    of_kafka = abilities_for(system_of(plan_from({})), "process")
    assert "no links between them" in of_kafka[Ability.CUT]
