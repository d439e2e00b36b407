"""Cuts: one direction is one direction, several add up, and what they drop is counted."""

import itertools
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.hosts.links import HUB_ADDRESS
from cluster.hosts.namespace import OUTSIDE, NamespaceHosts, enter_prefix, network_namespace
from cluster.protocol import CanPartition, ClusterError, Command, UserError
from results.record.clock import wait_until

if TYPE_CHECKING:
    from tests.cluster_hosts.conftest import Room

pytestmark = pytest.mark.everything

LINKS = list(itertools.permutations(["n1", "n2", "n3"], 2))
PORT = 9000
RECEIVER = f"""
import socket
server = socket.create_server(("", {PORT}))
open("listening", "w").close()
while True:
    connection, _ = server.accept()
    with open("received", "ab", buffering=0) as file:
        while data := connection.recv(1 << 16):
            file.write(data)
"""
SENDER = f"""
import socket, sys, threading
connection = socket.create_connection((sys.argv[1], {PORT}))
while True:
    connection.sendall(b".")
    threading.Event().wait(0.02)
"""


@contextmanager
def namespace_hosts(room: "Room", folder: Path) -> Iterator[NamespaceHosts]:
    with room.hosts(folder) as hosts:
        assert isinstance(hosts, NamespaceHosts)
        assert isinstance(hosts, CanPartition)
        yield hosts


def start_python(hosts: NamespaceHosts, node: str, folder: Path, *, source: str) -> None:
    argv = [sys.executable, "-c", source, hosts.address("n2")]
    hosts.spawn(node, Command(argv=argv, log=folder / f"{node}.log", cwd=folder))


def stream(hosts: NamespaceHosts, folder: Path) -> Path:
    """Let n1 send a byte each 20 ms to n2 over TCP; return the file of what n2 received."""
    start_python(hosts, "n2", folder, source=RECEIVER)
    wait_until((folder / "listening").exists, timeout_s=20, what="the receiver")
    start_python(hosts, "n1", folder, source=SENDER)
    received = folder / "received"
    wait_until(received.exists, timeout_s=20, what="the connection")
    wait_for_more(received)
    return received


def wait_for_more(received: Path) -> None:
    before = received.stat().st_size
    wait_until(
        lambda: received.stat().st_size >= before + 3,
        timeout_s=30,
        what="more bytes",
        interval_s=0.02,
    )


def wait_for_drops(hosts: NamespaceHosts, cut_id: str, more_than: int) -> None:
    wait_until(
        lambda: min(hosts.dropped(cut_id).values()) > more_than,
        timeout_s=30,
        what="dropped packets",
        interval_s=0.02,
    )


def arrived(hosts: NamespaceHosts) -> set[tuple[str, str]]:
    return {link for link, arrives in hosts.probe(LINKS).items() if arrives}


def test_a_cut_link_is_cut_in_its_direction_only(namespace_room: "Room", tmp_path: Path) -> None:
    with namespace_hosts(namespace_room, tmp_path) as hosts:
        assert arrived(hosts) == set(LINKS)
        hosts.cut("one way", [("n1", "n2")])
        assert arrived(hosts) == set(LINKS) - {("n1", "n2")}
        hosts.join("one way")
        assert arrived(hosts) == set(LINKS)


def test_tcp_data_stop_at_a_cut_and_arrive_when_only_the_answers_are_cut(
    namespace_room: "Room", tmp_path: Path
) -> None:
    with namespace_hosts(namespace_room, tmp_path) as hosts:
        received = stream(hosts, tmp_path)
        hosts.cut("answers", [("n2", "n1")])
        wait_for_more(received)
        wait_for_drops(hosts, "answers", 0)
        hosts.join("answers")
        hosts.cut("data", [("n1", "n2")])
        size = received.stat().st_size
        wait_for_drops(hosts, "data", 2)
        assert received.stat().st_size == size
        hosts.join("data")
        wait_for_more(received)


def test_cuts_add_up_are_counted_each_and_are_joined_each(
    namespace_room: "Room", tmp_path: Path
) -> None:
    with namespace_hosts(namespace_room, tmp_path) as hosts:
        hosts.cut("first", [("n1", "n2"), ("n2", "n1")])
        hosts.cut("second", [("n1", "n2"), ("n3", "n2")])
        assert hosts.dropped("first") == {("n1", "n2"): 0, ("n2", "n1"): 0}
        assert arrived(hosts) == set(LINKS) - {("n1", "n2"), ("n2", "n1"), ("n3", "n2")}
        assert min(hosts.dropped("first").values()) > 0
        assert min(hosts.dropped("second").values()) > 0
        hosts.join("first")
        assert arrived(hosts) == set(LINKS) - {("n1", "n2"), ("n3", "n2")}
        hosts.join("first")
        hosts.join("never made")
        assert hosts.dropped("first") == {}
        assert set(hosts.dropped("second")) == {("n1", "n2"), ("n3", "n2")}
        hosts.join("second")
        assert arrived(hosts) == set(LINKS)


def test_a_cut_made_again_has_its_new_links_only(namespace_room: "Room", tmp_path: Path) -> None:
    with namespace_hosts(namespace_room, tmp_path) as hosts:
        hosts.cut("c", [("n1", "n2")])
        hosts.cut("c", [("n3", "n1"), ("n3", "n2")])
        assert arrived(hosts) == set(LINKS) - {("n3", "n1"), ("n3", "n2")}


def test_clients_in_the_hub_reach_nodes_that_are_cut_off_each_other(
    namespace_room: "Room", tmp_path: Path
) -> None:
    with namespace_hosts(namespace_room, tmp_path) as hosts:
        start_python(hosts, "n2", tmp_path, source=RECEIVER)
        wait_until((tmp_path / "listening").exists, timeout_s=20, what="the receiver")
        hosts.cut("all", LINKS)
        with socket.create_connection((hosts.address("n2"), PORT), timeout=20) as connection:
            assert connection.getsockname()[0] == HUB_ADDRESS
        assert arrived(hosts) == set()


def test_down_leaves_no_link_and_needs_no_up(namespace_room: "Room", tmp_path: Path) -> None:
    with namespace_hosts(namespace_room, tmp_path) as hosts:
        assert len(socket.if_nameindex()) >= 5
        hosts.down()
        assert [name for _, name in socket.if_nameindex() if name.startswith("lq")] == []
    NamespaceHosts(["n1"], tmp_path / "processes.jsonl").down()


def test_outside_of_a_hub_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OUTSIDE, network_namespace())
    before = socket.if_nameindex()
    hosts = NamespaceHosts(["n1"], tmp_path / "processes.jsonl")
    with pytest.raises(ClusterError, match="enter_prefix"):
        hosts.up()
    hosts.down()
    assert socket.if_nameindex() == before
    assert not (tmp_path / "processes.jsonl").exists()


def test_who_becomes_root_inside_keeps_his_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    assert f"HOME={Path.home()}" in enter_prefix(root=False)


def test_more_nodes_than_addresses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="254"):
        NamespaceHosts([f"n{n}" for n in range(254)], tmp_path / "processes.jsonl")
