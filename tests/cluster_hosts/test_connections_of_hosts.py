"""Single connections on every kind of hosts that knows them: listed, reset, blocked, and let go."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.hosts.abilities import abilities_of, able
from cluster.hosts.choose import HostKind
from cluster.hosts.linked import LinkedHosts
from cluster.protocol import (
    Ability,
    ClusterError,
    Command,
    Connection,
    Ends,
    HasConnections,
    HasFiles,
    Hosts,
)
from results.record.clock import wait_until

if TYPE_CHECKING:
    from tests.cluster_hosts.conftest import Room

IN_THE_NIGHT = ("docker", "namespace-ordinary-user")
"""Rooms that differ from the others in little but who may do what."""
NODES = ("n1", "n2", "n3")
LINKS = [("n2", "n1"), ("n1", "n3")]
PORT = 9200
TALKS = f"""
import os, socket, sys, threading, time
def serve():
    with socket.create_server(("", {PORT})) as server:
        while True:
            threading.Thread(target=echo, args=server.accept()).start()
def echo(connection, _):
    try:
        while data := connection.recv(100):
            connection.sendall(data)
    except OSError:
        pass
    connection.close()
def ask(address):
    while True:
        try:
            with socket.create_connection((address, {PORT}), 5) as connection:
                connection.settimeout(None)
                while True:
                    connection.sendall(b"?")
                    if not connection.recv(100):
                        break
                    time.sleep(0.05)
        except OSError:
            pass
        time.sleep(0.05)
for address in sys.argv[1:]:
    threading.Thread(target=ask, args=(address,)).start()
serve()
"""


def whole(hosts: LinkedHosts) -> dict[Connection, Ends]:
    """Return the connections that both ends have."""
    return {each: ends for each, ends in hosts.connections(LINKS).items() if ends.is_whole}


def pairs(found: dict[Connection, Ends]) -> list[tuple[str, str]]:
    return [(each.client, each.server) for each in found]


def talk(room: "Room", hosts: LinkedHosts, folder: Path) -> None:
    """Have n2 and n3 talk to n1 all the time, and n2 to n3."""
    asked = {"n1": [], "n2": ["n1", "n3"], "n3": ["n1"]}
    for node, others in asked.items():
        home = folder / node
        home.mkdir(parents=True, exist_ok=True)
        argv = ["python3", "-c", TALKS, *map(hosts.address, others)]
        command = Command(argv=argv, log=home / "talk", cwd=home)
        if room.kind == HostKind.DOCKER:  # An image need not have Python; its agent is as near.
            hosts.machine(node).spawn(node, command)
            continue
        assert isinstance(hosts, Hosts)
        if isinstance(hosts, HasFiles):
            hosts.provide(node, [])
        hosts.spawn(node, command)


def inode(ends: Ends) -> int | None:
    """Return the client's socket."""
    return ends.client.inode if ends.client else None


def waits(ends: Ends | None) -> bool:
    """Tell whether both ends hold it, and one has sent something again in vain."""
    return (
        ends is not None
        and ends.is_whole
        and any(
            end is not None and end.unacknowledged and end.again > 1
            for end in (ends.client, ends.server)
        )
    )


def test_single_connections_are_reset_and_blocked_and_no_others(
    room: "Room", tmp_path: Path
) -> None:
    with room.hosts(tmp_path) as hosts:
        if room.kind == HostKind.PROCESS:
            assert Ability.CONNECTIONS not in able(abilities_of(room.where))
            assert not isinstance(hosts, HasConnections)
            return
        assert isinstance(hosts, LinkedHosts)
        talk(room, hosts, tmp_path / "run" / "nodes")
        wait_until(lambda: len(whole(hosts)) == 2, timeout_s=20, what="two connections")
        before = whole(hosts)
        assert sorted(pairs(before)) == [("n2", "n1"), ("n3", "n1")], "n2 to n3 is not asked for"
        assert {each.server_port for each in before} == {PORT}
        assert hosts.connects([("n2", "n1", PORT), ("n2", "n1", 1), ("n3", "n2", 1)]) == {
            ("n2", "n1", PORT): True,
            ("n2", "n1", 1): False,
            ("n3", "n2", 1): False,
        }
        first, other = sorted(before, key=lambda each: each.client)
        if abilities_of(room.where)[Ability.CONNECTIONS]:
            with pytest.raises(ClusterError, match="the kernel of n1 resets nothing"):
                hosts.reset([first])
        else:
            first = _reset(hosts, first, other, before)
        _blocked(hosts, first, other)


def _reset(
    hosts: LinkedHosts, first: Connection, other: Connection, before: dict[Connection, Ends]
) -> Connection:
    """See that one is gone at both ends, and its client opens another one; return that."""
    assert set(hosts.reset([first])) == {first}
    assert set(hosts.reset([first])) == set(), "it is gone, and what listens there is not meant"
    wait_until(lambda: len(whole(hosts)) == 2, timeout_s=20, what="a new connection")
    now = hosts.connections(LINKS)
    assert first not in now
    assert inode(now[other]) == inode(before[other])
    (new,) = whole(hosts).keys() - before.keys()
    assert (new.client, new.server, new.server_port) == ("n2", "n1", PORT)
    return new


def _blocked(hosts: LinkedHosts, first: Connection, other: Connection) -> None:
    """See that nothing gets over one, though new ones are opened; and that all comes in the end."""
    was = hosts.connections(LINKS)[first]
    hosts.block("b", [first])
    assert hosts.block_ids() == ["b"]
    assert hosts.is_blocked("b")
    wait_until(lambda: waits(whole(hosts).get(first)), timeout_s=20, what="it to send again")
    assert (dropped := hosts.blocked("b")[first]) > 1
    now = hosts.connections(LINKS)
    assert now[first].is_whole
    assert inode(now[first]) == inode(was), "neither end was told"
    assert not waits(now[other])
    assert hosts.connects([first.opening]) == {("n2", "n1", PORT): True}
    hosts.block("b", [other])
    assert hosts.blocked("b").keys() == {first, other}
    assert hosts.blocked("b")[first] >= dropped, "one more, and the count goes on"
    hosts.unblock("b")
    hosts.unblock("b")
    assert hosts.block_ids() == []
    assert not hosts.is_blocked("b")
    wait_until(lambda: not any(map(waits, whole(hosts).values())), timeout_s=20, what="all to come")
    assert first in whole(hosts), "what waited was sent again"
