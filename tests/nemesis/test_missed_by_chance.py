"""How often a link that is bad passes for a good one: by calculation, for the weakest faults.

A fault that is in force and not confirmed makes a run `unknown`, so that one look must be enough
but for one time in a million, on all four links around a node together.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from random import Random

import pytest

from cluster.hosts.series import measured
from cluster.hosts.shaper import NS_PER_MS, Line
from cluster.protocol import Link, Measured, Quality
from nemesis.duplicate import LEAST as LEAST_DOUBLED
from nemesis.evidence import Rule, doubles_more, loses_more, reorders_more, spread_by
from nemesis.jitter import LEAST_MS, jitter
from nemesis.loss import LEAST as LEAST_LOST
from nemesis.loss import loss
from nemesis.protocol import Aim, Patience, Site
from nemesis.quality import LOOKS_BEFORE, MOST_LOOKS_BEFORE, BadLinks, of_shares
from nemesis.reorder import LEAST as LEAST_REORDERED
from tests.nemesis.conftest import World
from tests.nemesis.test_faults_of_quality import KINDS_OF_QUALITY, ShapedNetwork

MISSED = 1e-6
LINKS = 4
BAD_BEFORE = 0.002
"""Of a link's datagrams, by themselves: so many fare badly on a good link, and it does no harm."""
PACKETS = 40_000
LEAST_SEEN = 0.07
"""Of datagrams under the weakest `reorder`."""
GOOD_QUALITY = Quality()
GOOD = Measured(sent=1, arrived=1, copies=0, overtaken=0, round_trip_ms=(), lasted_s=1)
Counted = Callable[[int, int], Measured]
"""So many datagrams, of which so many fare badly."""


class Unsteady(ShapedNetwork):
    """Hosts whose links look like something else at first.

    Args:
        qualities: Of all links, in look after look; later ones find what is shaped.
    """

    def __init__(self, qualities: Iterable[Quality]) -> None:
        super().__init__()
        self.counts: list[int] = []
        self._at_first = list(qualities)
        self._now: Quality | None = None

    def measure(
        self,
        links: Iterable[Link],
        *,
        count: int = 50,
        size: int = 64,
        interval_s: float = 0.005,
        burst: int = 1,
    ) -> Mapping[Link, Measured]:
        self.counts.append(count)
        self._now = self._at_first.pop(0) if self._at_first else None
        return super().measure(links, count=count, size=size, interval_s=interval_s, burst=burst)

    def quality(self, link: Link) -> Quality:
        return self._now or super().quality(link)


def bad_links(
    world: World, hosts: ShapedNetwork, make: Callable[[Aim, Site], BadLinks]
) -> BadLinks:
    site = Site(cluster=world.cluster, network=None, state_of=world.cluster.state_of, hosts=hosts)
    return make(Aim(fault_id=1, targets=("n2",), rng=Random(0)), site)


def at_most(most: int, of: int, share: float) -> float:
    """Return the chance that at most so many of some draws hit (binomial)."""
    return math.fsum(
        math.exp(
            math.lgamma(of + 1)
            - math.lgamma(hits + 1)
            - math.lgamma(of - hits + 1)
            + hits * math.log(share)
            + (of - hits) * math.log1p(-share)
        )
        for hits in range(most + 1)
    )


def lost(sent: int, bad: int) -> Measured:
    return replace(GOOD, sent=sent, arrived=sent - bad)


def doubled(sent: int, bad: int) -> Measured:
    return replace(GOOD, sent=sent, arrived=sent, copies=bad)


def overtaken(sent: int, bad: int) -> Measured:
    return replace(GOOD, sent=sent, arrived=sent, overtaken=bad)


@pytest.mark.parametrize(
    ("worse", "counted", "share"),
    [
        (loses_more, lost, LEAST_LOST),
        (doubles_more, doubled, LEAST_DOUBLED),
        (reorders_more, overtaken, LEAST_SEEN),
    ],
)
def test_one_look_tells_the_weakest_share(worse: Rule, counted: Counted, share: float) -> None:
    count = of_shares(worse).count
    before = counted(count, int(count * BAD_BEFORE))
    enough = next(bad for bad in range(count) if worse(before, counted(count, bad)))
    assert LINKS * at_most(enough - 1, count, share) < MISSED


@pytest.mark.parametrize("others", [0, 1, 20])
def test_the_weakest_reorder_shows_however_many_packets_of_others_pass(others: int) -> None:
    """Of others, brokers' or our own answers: they come between two bursts and not into one."""
    line, burst = Line(asdict(Quality(reorder=LEAST_REORDERED, seed=1)), "n1/n2"), 8
    assert of_shares(reorders_more).burst == burst
    seen: list[tuple[int, int]] = []
    numbers = itertools.count()
    for now_ns in range(0, PACKETS * NS_PER_MS // burst, NS_PER_MS):
        ours = [b"%d" % next(numbers) for _ in range(burst)]
        for at, packet in enumerate([*ours, *[b""] * others]):
            departures = line.send(packet, now_ns + at * 10)
            seen += [(due_ns, int(data)) for due_ns, data in departures if data]
    came = [number for _, number in sorted(seen, key=lambda each: each[0])]
    told = measured({"sent": len(came), "round_trip_ms": []}, {"numbers": came, "lasted_s": 1})
    assert told.overtaken > LEAST_SEEN * PACKETS


def test_one_look_tells_the_weakest_jitter(world: World) -> None:
    """Too few of round trips are far from the middle: a quarter on each side must be.

    Of two ways, each evenly late between 0 and twice the jitter, the sum lies this far above its
    middle with the chance that is left of a triangle.
    """
    hosts = Unsteady([])
    fault = bad_links(world, hosts, jitter)
    fault.inject()
    count = LOOKS_BEFORE * hosts.counts[0]
    usual_ms = LEAST_MS / 8
    apart_ms = LEAST_MS / 2 + usual_ms
    worse = spread_by(LEAST_MS / 2)
    quiet = replace(GOOD, round_trip_ms=(0, 0, usual_ms, usual_ms))
    assert worse(quiet, replace(GOOD, round_trip_ms=(0, 0, apart_ms, apart_ms)))
    outside = (2 * LEAST_MS - apart_ms / 2) ** 2 / (8 * LEAST_MS**2)
    assert 2 * LINKS * at_most(count // 4, count, outside) < MISSED


@pytest.mark.parametrize("make", KINDS_OF_QUALITY)
def test_a_moment_in_which_links_looked_bad_hides_no_fault(
    world: World, make: Callable[[Aim, Site], BadLinks]
) -> None:
    terrible = bad_links(world, ShapedNetwork(), make).quality
    hosts = Unsteady([terrible, GOOD_QUALITY, terrible])
    fault = bad_links(world, hosts, make)
    fault.inject()
    assert len(hosts.counts) == len(["bad", "good", "bad", "good", "good"])
    assert fault.confirm(Patience(limit_s=0.1)) is not None
    looks_before, while_bad = hosts.counts[:-1], hosts.counts[-1]
    assert set(looks_before) == {while_bad // LOOKS_BEFORE}


def test_links_that_never_look_twice_the_same_are_made_worse_all_the_same(world: World) -> None:
    lossy = Quality(loss=0.3)
    hosts = Unsteady([lossy, GOOD_QUALITY] * MOST_LOOKS_BEFORE)
    fault = bad_links(world, hosts, loss)
    fault.inject()
    assert len(hosts.counts) == MOST_LOOKS_BEFORE
    assert hosts.shapes
