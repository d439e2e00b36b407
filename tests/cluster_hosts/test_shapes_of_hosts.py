"""Links made bad on every kind of hosts that has links, one by one, and gone without a trace."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.hosts.abilities import abilities_of, able
from cluster.hosts.choose import HostKind
from cluster.hosts.linked import LinkedHosts
from cluster.protocol import Ability, CanShape, ClusterError, Quality
from tests.machine import tun_opens

if TYPE_CHECKING:
    from tests.cluster_hosts.conftest import Room

NODES = ("n1", "n2", "n3")
LINKS = [(a, b) for a in NODES for b in NODES if a != b]
SLOW = Quality(delay_ms=60)


def late_links(hosts: LinkedHosts) -> set[tuple[str, str]]:
    """Return the links over which every datagram and its answer take as long as SLOW says."""
    series = hosts.measure(LINKS, count=20)
    return {link for link, each in series.items() if min(each.round_trip_ms) >= SLOW.delay_ms}


def state(hosts: LinkedHosts) -> str:
    """Return all that a shaper changes, as the kernel tells it: devices, routes, rules."""
    script = "ip -brief link | cut -d' ' -f1; ip route; ip rule"
    return "".join(hosts.machine(node).run(["sh", "-ec", script]) for node in NODES)


def test_shapes_hold_for_their_links_and_are_undone_one_by_one(
    room: "Room", tmp_path: Path
) -> None:
    with room.hosts(tmp_path) as hosts:
        if room.kind == HostKind.PROCESS:
            assert Ability.SHAPE not in able(abilities_of(room.where))
            assert not isinstance(hosts, CanShape)
            return
        assert isinstance(hosts, LinkedHosts)
        clean = state(hosts)
        if why_not := abilities_of(room.where)[Ability.SHAPE]:
            assert "/dev/net/tun" in why_not
            assert not tun_opens()
            with pytest.raises(ClusterError, match=r"cannot shape on n1: .*/dev/net/tun"):
                hosts.shape("first", [("n1", "n2")], SLOW)
            hosts.unshape("first")
            assert state(hosts) == clean
            return
        assert late_links(hosts) == set()
        hosts.shape("first", [("n1", "n2")], SLOW)
        # A round trip is late whichever of its ways is.
        assert late_links(hosts) == {("n1", "n2"), ("n2", "n1")}
        hosts.shape("second", [("n1", "n3"), ("n3", "n1")], SLOW)
        assert late_links(hosts) == set(LINKS) - {("n2", "n3"), ("n3", "n2")}
        with pytest.raises(ClusterError, match="n1 to n2 is already shaped by first"):
            hosts.shape("third", [("n1", "n2")], SLOW)
        hosts.unshape("third")
        hosts.unshape("first")
        hosts.unshape("first")
        assert late_links(hosts) == {("n1", "n3"), ("n3", "n1")}
        hosts.cut("cut", [("n1", "n3")])
        assert hosts.probe([("n1", "n3"), ("n3", "n1")]) == {
            ("n1", "n3"): False,
            ("n3", "n1"): True,
        }
        hosts.join("cut")
        assert late_links(hosts) == {("n1", "n3"), ("n3", "n1")}
        hosts.unshape("second")
        assert late_links(hosts) == set()
        assert state(hosts) == clean
