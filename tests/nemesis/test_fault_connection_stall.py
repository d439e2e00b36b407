"""The fault `connection-stall`: some connections are seconds late, and others are not."""

from dataclasses import asdict
from pathlib import Path

import pytest

from cluster.hosts.shaper import NS_PER_S, Line
from cluster.protocol import Quality
from nemesis.connection_stall import connection_stall
from nemesis.stalls import HALF
from tests.nemesis.proofs import AROUND, half_stall_proof
from tests.nemesis.simulated_room import half_stall_as_drawn
from tests.nemesis.virtual_links import (
    Lossy,
    Machines,
    NeverShaped,
    NeverUnshaped,
    OneIsLeftOut,
    VirtualLinks,
    WholeLinks,
    begun,
    healed,
)

PROOF_OF = [("connection-stall", half_stall_proof(*AROUND))]
SHOWS_OF = [("connection-stall", half_stall_as_drawn)]
FLOWS = 1000


def packet(sender: bytes, receiver: bytes, from_port: int, to_port: int) -> bytes:
    """Return the begin of an IP packet of TCP."""
    head = b"\x45" + bytes(8) + b"\x06" + bytes(2) + sender + receiver
    return head + from_port.to_bytes(2, "big") + to_port.to_bytes(2, "big")


def test_a_part_that_is_late_is_proven_and_proven_over(tmp_path: Path) -> None:
    for seed in range(6):
        links = VirtualLinks(tmp_path / f"{seed}", seed=seed)

        def work(links: VirtualLinks = links, seed: int = seed) -> None:
            fault, effect = begun(connection_stall, links.site, seed)
            assert fault.quality.stall_share == HALF
            assert effect is not None
            assert {(each.sender, each.receiver) for each in effect.links} == {*fault.links}
            assert all(3 <= each.flows_held <= 17 and each.flows == 20 for each in effect.links)
            assert healed(fault) is not None

        links.play(work)


@pytest.mark.parametrize("machines", [NeverShaped, WholeLinks, OneIsLeftOut, Lossy])
def test_all_or_none_that_are_late_are_no_part(machines: type[Machines], tmp_path: Path) -> None:
    for seed in range(6):
        links = VirtualLinks(tmp_path / f"{seed}", machines, seed=seed)
        assert not links.proven(connection_stall, seed)


def test_half_of_the_connections_that_go_on_stalling_are_not_healed(tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path, NeverUnshaped)
    assert links.play(lambda: healed(begun(connection_stall, links.site)[0])) is None


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
