"""The fault `connection-stall`: some connections are seconds late, and others are not."""

from dataclasses import asdict, replace
from random import Random

import pytest

from cluster.hosts.shaper import NS_PER_S, Line
from cluster.protocol import Measured, Quality
from nemesis.connection_stall import connection_stall
from nemesis.evidence import held_in_part_for
from nemesis.network import Network
from nemesis.protocol import Aim, Patience, Site
from nemesis.stalls import HALF, LATE_MS
from tests.nemesis.conftest import World
from tests.nemesis.proofs import AROUND, half_stall_proof
from tests.nemesis.simulated_room import stalls_only
from tests.nemesis.test_faults_of_quality import ShapedNetwork

SOON = Patience(limit_s=0.1)
PROOF_OF = [("connection-stall", half_stall_proof(*AROUND))]
SHOWS_OF = [("connection-stall", stalls_only({(1, 2), (3, 2), (2, 1), (2, 3)}))]
HELD = (5000.0,) * 20 + (0.3,) * 20
IN_PART = Measured(sent=40, arrived=40, copies=0, overtaken=20, round_trip_ms=HELD, lasted_s=5)
QUICK = replace(IN_PART, round_trip_ms=(0.3,) * 40, overtaken=0)
FLOWS = 1000


def packet(sender: bytes, receiver: bytes, from_port: int, to_port: int) -> bytes:
    """Return the begin of an IP packet of TCP."""
    head = b"\x45" + bytes(8) + b"\x06" + bytes(2) + sender + receiver
    return head + from_port.to_bytes(2, "big") + to_port.to_bytes(2, "big")


@pytest.fixture
def site(world: World) -> Site:
    hosts = ShapedNetwork()
    state_of = world.cluster.state_of
    return Site(cluster=world.cluster, network=Network(hosts), state_of=state_of, hosts=hosts)


def test_a_part_that_is_late_is_proven_and_proven_over(site: Site) -> None:
    fault = connection_stall(Aim(fault_id=1, targets=("n2",), rng=Random(0)), site)
    assert fault.quality.stall_share == HALF
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert {(each.sender, each.receiver) for each in effect.links} == {*fault.links}
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


def test_all_or_none_that_are_late_are_no_part() -> None:
    is_held = held_in_part_for(LATE_MS)
    assert is_held(QUICK, IN_PART)
    assert not is_held(QUICK, QUICK)
    assert not is_held(QUICK, replace(IN_PART, round_trip_ms=(5000.0,) * 40))
    assert not is_held(QUICK, replace(IN_PART, arrived=30))
    assert not is_held(QUICK, replace(IN_PART, round_trip_ms=HELD[:30]))
    assert not is_held(QUICK, replace(IN_PART, copies=1))


def test_a_connection_stalls_both_ways_or_not_at_all_and_half_of_them_do() -> None:
    quality = connection_quality(seed=3)
    there, back = Line(quality, "n1/n2"), Line(quality, "n2/n1")
    one, two = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    stalls = []
    for port in range(40_000, 40_000 + FLOWS):
        ((due_ns, _),) = there.send(packet(one, two, port, 9092), 0)
        ((back_ns, _),) = back.send(packet(two, one, 9092, port), 0)
        assert due_ns == back_ns
        assert due_ns in {0, 2 * NS_PER_S}
        stalls.append(due_ns > 0)
    assert 0.4 * FLOWS < sum(stalls) < 0.6 * FLOWS
    others = connection_quality(seed=4)
    again = Line(others, "n1/n2")
    ports = range(40_000, 40_000 + FLOWS)
    other = [again.send(packet(one, two, port, 9092), 0)[0][0] > 0 for port in ports]
    assert other != stalls, "another fault chooses others"


def connection_quality(seed: int) -> dict[str, float]:
    return asdict(Quality(stall_ms=2000, open_ms=500, stall_share=HALF, seed=seed))
