"""Links made bad in real namespaces: one by one, beside cuts, and gone when their program is."""

import hashlib
import itertools
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.hosts import agent, shaper
from cluster.hosts.abilities import abilities_of
from cluster.hosts.agent import FLOWS, SHAPER
from cluster.hosts.namespace import NamespaceHosts
from cluster.protocol import (
    CLIENTS,
    MOST_FLOWS,
    Ability,
    CanShape,
    ClusterError,
    Command,
    Link,
    Measured,
    Quality,
    ShapeEnd,
    Volley,
)
from results.record.clock import pause_until, stopwatch_s, wait_until
from tests.machine import tun_opens

if TYPE_CHECKING:
    from tests.cluster_hosts.conftest import Room

pytestmark = pytest.mark.everything
IN_THE_NIGHT = ("namespace-ordinary-user",)  # By day the proofs of faults shape links there.

LINKS = list(itertools.permutations(["n1", "n2", "n3"], 2))
SLOW = Quality(delay_ms=60)
LOSSY = Quality(loss=0.4, seed=7)
PORT = 9200
BYTES = 300_000
RECEIVER = f"""
import hashlib, socket
server = socket.create_server(("", {PORT}))
open("listening", "w").close()
while True:
    connection, _ = server.accept()
    sum = hashlib.sha256()
    while data := connection.recv(1 << 16):
        sum.update(data)
    connection.sendall(sum.hexdigest().encode())
    connection.close()
"""
SENDER = f"""
import socket, sys
connection = socket.create_connection((sys.argv[1], {PORT}))
connection.sendall(bytes(range(250)) * ({BYTES} // 250))
connection.shutdown(socket.SHUT_WR)
print(connection.makefile().read())
"""


COUNTER = f"""
import socket, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
own.bind(("", {PORT}))
with open(sys.argv[1], "w", buffering=1) as numbers:
    while True:
        print(int(own.recv(100)), file=numbers)
"""
STREAM = f"""
import socket, sys, time
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
file = open(sys.argv[1], "w")
for number in range(2000):
    for address in sys.argv[2:]:
        own.sendto(b"%d" % number, (address, {PORT}))
    time.sleep(0.001)
print(2000, file=file, flush=True)
"""


def refused(hosts: NamespaceHosts) -> bool:
    """Tell whether the product says that no link can be made bad here, and see that it is so."""
    why_not = abilities_of("namespace")[Ability.SHAPE]
    if not why_not:
        return False
    assert "/dev/net/tun" in why_not
    assert not tun_opens()
    clean = state(hosts)
    with pytest.raises(ClusterError, match=r"cannot shape on clients: .*/dev/net/tun"):
        hosts.shape("slow", [(CLIENTS, "n1")], SLOW)
    hosts.unshape("slow")
    assert state(hosts) == clean
    assert shapers() == []
    return True


@contextmanager
def shaped_hosts(room: "Room", folder: Path) -> Iterator[NamespaceHosts]:
    with room.hosts(folder) as hosts:
        assert isinstance(hosts, NamespaceHosts)
        assert isinstance(hosts, CanShape)
        yield hosts


def late_links(hosts: NamespaceHosts) -> set[tuple[str, str]]:
    """Return the links over which every datagram and its answer take as long as SLOW says."""
    series = hosts.measure(LINKS, count=20)
    return {link for link, each in series.items() if min(each.round_trip_ms) >= SLOW.delay_ms}


def state(hosts: NamespaceHosts) -> str:
    """Return all that a shaper changes, as the kernel tells it: devices, routes, rules."""
    script = "ip -brief link | cut -d' ' -f1; ip route; ip rule; nft list ruleset"
    return "".join(hosts.machine(node).run(["sh", "-ec", script]) for node in hosts.machines)


def shapers() -> list[int]:
    """Return the processes that shape links of this hub."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if SHAPER.encode() in words and os.environ["HOME"].encode() in environment:
            found.append(int(folder.name))
    return found


def test_cuts_and_shapes_of_one_link_leave_each_other_alone(
    namespace_room: "Room", tmp_path: Path
) -> None:
    both = [("n1", "n2"), ("n2", "n1")]
    with shaped_hosts(namespace_room, tmp_path) as hosts:
        if refused(hosts):
            return
        hosts.shape("slow", both, SLOW)
        hosts.cut("cut", both)
        assert hosts.probe(both) == dict.fromkeys(both, False)
        assert min(hosts.dropped("cut").values()) > 0
        hosts.join("cut")
        assert hosts.probe(both) == dict.fromkeys(both, True)
        assert late_links(hosts) == set(both)
        hosts.cut("cut", both)
        hosts.unshape("slow")
        assert hosts.probe(both) == dict.fromkeys(both, False)
        hosts.join("cut")
        assert late_links(hosts) == set()


@pytest.mark.parametrize(
    "bad",
    [
        Quality(delay_ms=3, jitter_ms=3, loss=0.03, duplicate=0.1, reorder=0.2, seed=3),
        Quality(stall_ms=1500, open_ms=500),
    ],
    ids=["lossy", "stalling"],
)
def test_what_tcp_carries_over_a_bad_link_arrives_whole(
    namespace_room: "Room", tmp_path: Path, bad: Quality
) -> None:
    with shaped_hosts(namespace_room, tmp_path) as hosts:
        if refused(hosts):
            return
        argv = [sys.executable, "-I", "-S", "-c", RECEIVER]
        hosts.spawn("n2", Command(argv=argv, log=tmp_path / "n2.log", cwd=tmp_path))
        wait_until((tmp_path / "listening").exists, timeout_s=20, what="the receiver")
        hosts.shape("bad", [("n1", "n2"), ("n2", "n1")], bad)
        argv = [sys.executable, "-I", "-S", "-c", SENDER, hosts.address("n2")]
        whole = hashlib.sha256(bytes(range(250)) * (BYTES // 250)).hexdigest()
        assert hosts.machine("n1").run(argv).strip() == whole
        devices = json.loads(hosts.machine("n1").run(["ip", "-j", "-s", "link"]))
        (tun,) = [each for each in devices if each["ifname"].startswith("lqs")]
        assert tun["stats64"]["tx"]["bytes"] > BYTES


def all_back(volley: Volley) -> Mapping[Link, Measured]:
    """Wait until all datagrams are back, and return what became of them."""

    def looked() -> Mapping[Link, Measured] | None:
        seen = volley.look()
        return seen if all(len(e.round_trip_ms) == e.sent for e in seen.values()) else None

    return wait_until(looked, timeout_s=60, what="all datagrams to be back")


def is_held(series: Measured) -> bool:
    """Tell whether all datagrams came once, in order, and each a second late or more."""
    whole = series.arrived == len(series.round_trip_ms) == series.sent
    clean = not series.copies and not series.overtaken
    return whole and clean and min(series.round_trip_ms) > 1000


def test_a_link_that_stalls_holds_all_and_lets_it_go_in_order(
    namespace_room: "Room", tmp_path: Path
) -> None:
    there, back, other = ("n1", "n2"), ("n2", "n1"), ("n2", "n3")
    with shaped_hosts(namespace_room, tmp_path) as hosts:
        if refused(hosts):
            return
        clean = state(hosts)
        hosts.shape("held", [there], Quality(stall_ms=4000, open_ms=60_000))
        volley = hosts.volley([there, back, other], count=100)
        pause_until(stopwatch_s() + 1)
        midway = volley.look()
        assert midway[there].arrived == 0, "it is this way that stalls"
        assert (midway[back].arrived, len(midway[back].round_trip_ms)) == (100, 0)
        seen = all_back(volley)
        assert is_held(seen[there])
        assert is_held(seen[back]), "its answers take the other way"
        assert max(seen[other].round_trip_ms) < 1000
        open_again = hosts.measure([there], count=100)[there]
        assert max(open_again.round_trip_ms) < 1000
        assert hosts.unshape("held") == {"n1": ShapeEnd()}
        assert state(hosts) == clean


def test_of_a_link_that_stalls_in_part_half_of_the_flows_pass(
    namespace_room: "Room", tmp_path: Path
) -> None:
    both, half = [("n1", "n2"), ("n2", "n1")], Quality(stall_ms=4000, open_ms=9000, stall_share=0.5)
    with shaped_hosts(namespace_room, tmp_path) as hosts:
        if refused(hosts):
            return
        hosts.shape("half", both, half)
        for seen in all_back(hosts.volley(both, count=80, flows=MOST_FLOWS)).values():
            assert seen.arrived == len(seen.round_trip_ms) == seen.sent
            late = sum(trip > 1000 for trip in seen.round_trip_ms)
            assert 0 < late < 80
            assert late % (80 // MOST_FLOWS) == 0, "a flow is late as a whole"
        hosts.unshape("half")


def test_the_end_of_a_stall_lets_go_what_it_holds(namespace_room: "Room", tmp_path: Path) -> None:
    link, count = ("n1", "n2"), 200
    with shaped_hosts(namespace_room, tmp_path) as hosts:
        if refused(hosts):
            return
        clean = state(hosts)
        hosts.shape("held", [link], Quality(stall_ms=600_000, open_ms=1))
        volley = hosts.volley([link], count=count)
        wait_until(lambda: sent_into_tun(hosts, "n1") >= count, timeout_s=30, what="all to be held")
        pause_until(stopwatch_s() + 1.5)
        hosts.unshape("held")
        assert is_held(all_back(volley)[link])
        assert state(hosts) == clean


def test_a_heal_under_way_loses_nothing_and_lets_what_was_held_go_first(
    namespace_room: "Room", tmp_path: Path
) -> None:
    links = [("n1", "n2"), ("n1", "n3")]
    with shaped_hosts(namespace_room, tmp_path) as hosts:
        if refused(hosts):
            return
        hosts.shape("held", links, Quality(stall_ms=600_000, open_ms=1))
        held = hosts.volley(links, count=40, flows=MOST_FLOWS)
        wait_until(lambda: sent_into_tun(hosts, "n1") >= 80, timeout_s=30, what="all to be held")
        out, arrivals = tmp_path / "sent", tmp_path / "arrived"
        receivers = [
            Command(
                argv=[sys.executable, "-I", "-S", "-c", COUNTER, str(arrivals) + node],
                log=tmp_path / f"{node}.log",
                cwd=tmp_path,
            )
            for node in ("n2", "n3")
        ]
        for node, command in zip(("n2", "n3"), receivers, strict=True):
            hosts.spawn(node, command)
            wait_until(Path(f"{arrivals}{node}").exists, timeout_s=20, what="the receiver")
        addresses = [hosts.address(node) for node in ("n2", "n3")]
        argv = [sys.executable, "-I", "-S", "-c", STREAM, str(out), *addresses]
        hosts.spawn("n1", Command(argv=argv, log=tmp_path / "n1.log", cwd=tmp_path))
        wait_until(out.exists, timeout_s=20, what="the stream")
        pause_until(stopwatch_s() + 1)
        hosts.unshape("held")
        for seen in all_back(held).values():
            assert is_held(seen)
        wait_until(out.read_text, timeout_s=20, what="the end of the stream")
        sent = range(int(out.read_text()))
        for node in ("n2", "n3"):

            def whole(file: Path = Path(f"{arrivals}{node}")) -> list[int] | None:
                numbers = [int(line) for line in file.read_text().split()]
                return numbers if len(numbers) >= len(sent) else None

            numbers = wait_until(whole, timeout_s=20, what="all to arrive")
            assert sorted(numbers) == [*sent]
            # Some of the few milliseconds of a route's removal may be overtaken, and no others.
            moved = [number for at, number in enumerate(numbers) if number != at]
            assert not moved or max(moved) - min(moved) < 100, moved
            assert numbers[:100] == [*range(100)], "what was held goes first"


def test_ports_are_as_many_as_said_and_more_are_refused(
    namespace_room: "Room", tmp_path: Path
) -> None:
    assert FLOWS == MOST_FLOWS
    assert shaper.DROPPED == agent.DROPPED
    with namespace_room.hosts(tmp_path) as hosts:
        assert isinstance(hosts, NamespaceHosts)
        with pytest.raises(ClusterError, match="can send from 20 ports, not from 21"):
            hosts.volley([("n1", "n2")], count=40, flows=MOST_FLOWS + 1)
        assert all(hosts.probe(LINKS).values()), "the agents live on"


def test_a_shaper_that_outlasts_its_end_is_killed_and_that_is_told(
    namespace_room: "Room", tmp_path: Path
) -> None:
    with shaped_hosts(namespace_room, tmp_path) as hosts:
        if refused(hosts):
            return
        hosts.shape("held", [("n1", "n2")], Quality(stall_ms=600_000, open_ms=1))
        volley = hosts.volley([("n1", "n2")], count=20)
        (shaping,) = shapers()
        os.kill(shaping, signal.SIGSTOP)
        assert hosts.unshape("held") == {"n1": ShapeEnd(killed=True)}
        assert volley.look()["n1", "n2"].arrived == 0, "what it held is lost"
        assert all(hosts.probe(LINKS).values())


def sent_into_tun(hosts: NamespaceHosts, node: str) -> int:
    """Return how many packets a node's shaper was given."""
    devices = json.loads(hosts.machine(node).run(["ip", "-j", "-s", "link"]))
    return sum(
        each["stats64"]["tx"]["packets"] for each in devices if each["ifname"].startswith("lqs")
    )


def test_packets_flow_again_when_a_shaper_is_killed(namespace_room: "Room", tmp_path: Path) -> None:
    with shaped_hosts(namespace_room, tmp_path) as hosts:
        if refused(hosts):
            return
        clean = state(hosts)
        hosts.shape("slow", [("n1", "n2")], SLOW)
        assert late_links(hosts)
        (shaper,) = shapers()
        os.kill(shaper, signal.SIGKILL)
        wait_until(lambda: shaper not in shapers(), timeout_s=60, what="the shaper to end")
        # A process loses its command line before its files, and so its device.
        wait_until(lambda: state(hosts) == clean, timeout_s=60, what="the device to go")
        assert late_links(hosts) == set()
        assert hosts.unshape("slow") == {"n1": ShapeEnd(gone=True)}
        hosts.shape("again", [("n1", "n2")], SLOW)
        assert late_links(hosts) == {("n1", "n2"), ("n2", "n1")}
        assert hosts.unshape("again") == {"n1": ShapeEnd()}


def test_a_shaper_ends_with_its_agent(namespace_room: "Room", tmp_path: Path) -> None:
    with shaped_hosts(namespace_room, tmp_path) as hosts:
        if refused(hosts):
            return
        hosts.shape("slow", [(CLIENTS, "n1")], SLOW)
        (shaper,) = shapers()
        assert [name for _, name in socket.if_nameindex() if name.startswith("lqs")]
        os.kill(hosts.machine(CLIENTS).process.pid, signal.SIGKILL)
        wait_until(lambda: shaper not in shapers(), timeout_s=60, what="the shaper to end")

        def devices() -> list[str]:
            return [name for _, name in socket.if_nameindex() if name.startswith("lqs")]

        # The hub lives on, without the device.
        wait_until(lambda: not devices(), timeout_s=60, what="the device to go")


def test_links_of_clients_are_links_like_others(namespace_room: "Room", tmp_path: Path) -> None:
    links = [*LINKS, (CLIENTS, "n1"), ("n1", CLIENTS), (CLIENTS, "n2")]
    with shaped_hosts(namespace_room, tmp_path) as hosts:
        if refused(hosts):
            return
        assert all(hosts.probe(links).values())
        hosts.cut("clients", [("n1", CLIENTS)])
        assert hosts.probe(links) == {link: link != ("n1", CLIENTS) for link in links}
        hosts.join("clients")
        hosts.shape("lossy", [(CLIENTS, "n1")], LOSSY)
        measured = hosts.measure([(CLIENTS, "n1"), ("n1", CLIENTS)], count=200)
        assert 80 < measured[CLIENTS, "n1"].arrived < 160
        assert measured["n1", CLIENTS].arrived == 200
        assert 80 < len(measured["n1", CLIENTS].round_trip_ms) < 160  # Answers get lost.
        hosts.unshape("lossy")
        assert hosts.measure([(CLIENTS, "n1")])[CLIENTS, "n1"].arrived == 50


def test_hosts_that_would_drop_what_comes_another_way_are_told(
    namespace_room: "Room", tmp_path: Path
) -> None:
    with shaped_hosts(namespace_room, tmp_path) as hosts:
        if refused(hosts):
            return
        setting = "/proc/sys/net/ipv4/conf/all/rp_filter"
        hosts.machine("n1").run(["sh", "-ec", f"echo 1 > {setting}"])
        with pytest.raises(ClusterError, match="cannot shape on n1: rp_filter is strict; type"):
            hosts.shape("slow", [("n1", "n2")], SLOW)
        hosts.unshape("slow")
        assert shapers() == []
