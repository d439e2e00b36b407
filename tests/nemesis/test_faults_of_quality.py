"""Links made bad, on hosts in memory: what is taken for proof, and what is not."""

from collections.abc import Callable, Iterable, Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.protocol import ClusterError, Link, Measured, Quality, ShapeEnd, Volley
from nemesis.bandwidth import LEAST_KBIT, MOST_KBIT, bandwidth
from nemesis.claims import Claims
from nemesis.delay import delay
from nemesis.duplicate import duplicate
from nemesis.evidence import is_larger_share, together
from nemesis.isolate import isolate
from nemesis.jitter import jitter
from nemesis.loss import loss
from nemesis.network import Network
from nemesis.protocol import Aim, Patience, Site
from nemesis.quality import BadLinks
from nemesis.registry import KINDS
from nemesis.reorder import reorder
from nemesis.undo import Unshape
from tests.nemesis.conftest import FakeHostsWithoutCuts, FakeNetwork, World

SOON = Patience(limit_s=0.1)
KINDS_OF_QUALITY: list[Callable[[Aim, Site], BadLinks]] = [
    delay,
    jitter,
    loss,
    duplicate,
    reorder,
    bandwidth,
]
AROUND_N2: set[Link] = {("n1", "n2"), ("n2", "n1"), ("n3", "n2"), ("n2", "n3")}
GOOD = Quality()


class ShapedNetwork(FakeNetwork):
    """Hosts whose links do exactly what their quality says, in the middle of its range."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: dict[str, dict[Link, Quality]] = {}
        self.deaf_to_shape = False
        self.deaf_to_unshape = False
        self.dead: frozenset[str] = frozenset()

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        if not self.deaf_to_shape:
            self.shapes[shape_id] = dict.fromkeys(links, quality)

    def unshape(self, shape_id: str) -> Mapping[str, ShapeEnd]:
        if not self.deaf_to_unshape:
            self.shapes.pop(shape_id, None)
        return dict.fromkeys(self.dead, ShapeEnd(gone=True))

    def shape_ids(self) -> list[str]:
        return list(self.shapes)

    def volley(self, links: Iterable[Link], *, count: int, flows: int = 1) -> Volley:
        raise NotImplementedError(f"{links}, {count}, {flows}: these links do not stall")

    def measure(
        self,
        links: Iterable[Link],
        *,
        count: int = 50,
        size: int = 64,
        interval_s: float = 0.005,
        burst: int = 1,
    ) -> Mapping[Link, Measured]:
        assert count % burst == 0
        return {link: self._measured(link, count, size, interval_s) for link in links}

    def quality(self, link: Link) -> Quality:
        return next((links[link] for links in self.shapes.values() if link in links), GOOD)

    def _measured(self, link: Link, count: int, size: int, interval_s: float) -> Measured:
        quality = self.quality(link)
        cut = any(way in links for links in self.cuts.values() for way in (link, link[::-1]))
        arrived = 0 if cut else round(count * (1 - quality.loss))
        lasted_s = count * interval_s
        if quality.rate_kbit:
            lasted_s = max(lasted_s, arrived * size * 8 / 1000 / quality.rate_kbit)
        first_ms, step_ms = 1 + 2 * (quality.delay_ms - quality.jitter_ms), 4 * quality.jitter_ms
        return Measured(
            sent=count,
            arrived=arrived,
            copies=round(arrived * quality.duplicate),
            overtaken=round(arrived * quality.reorder * 0.8),
            round_trip_ms=tuple(first_ms + step_ms * at / count for at in range(arrived)),
            lasted_s=lasted_s,
        )


@pytest.fixture
def shaped(world: World) -> ShapedNetwork:
    world.hosts = ShapedNetwork()
    return world.hosts


def _site(world: World) -> Site:
    network = Network(world.network)
    cluster = world.cluster
    return Site(cluster=cluster, network=network, state_of=cluster.state_of, hosts=world.hosts)


def _aim(*targets: str, fault_id: int = 1, seed: int = 0) -> Aim:
    return Aim(fault_id=fault_id, targets=targets, rng=Random(seed))


@pytest.mark.parametrize("make", KINDS_OF_QUALITY)
def test_bad_links_are_proven_and_proven_good_again(
    world: World, shaped: ShapedNetwork, make: Callable[[Aim, Site], BadLinks]
) -> None:
    fault = make(_aim("n2"), _site(world))
    assert set(fault.links) == AROUND_N2
    assert fault.undo() == (Unshape(shape_id="fault-1", links=fault.links),)
    fault.inject()
    assert {link for links in shaped.shapes.values() for link in links} == AROUND_N2
    effect = fault.confirm(SOON)
    assert effect is not None
    assert effect.quality == fault.quality != GOOD
    assert {(each.sender, each.receiver) for each in effect.links} == AROUND_N2
    assert all(each.before != each.during for each in effect.links)
    fault.heal()
    fault.heal()
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert shaped.shapes == {}
    before = {(each.sender, each.receiver): each.before for each in effect.links}
    assert {(each.sender, each.receiver): each.after for each in healed.links} == before


def test_a_shape_that_died_before_its_heal_is_noted(world: World, shaped: ShapedNetwork) -> None:
    fault = delay(_aim("n2"), _site(world))
    fault.inject()
    assert fault.confirm(SOON) is not None
    shaped.dead = frozenset({"n3", "n2"})
    fault.heal()
    shaped.dead = frozenset()
    fault.heal()
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert healed.ended_before == ("n2", "n3")


@pytest.mark.parametrize("make", KINDS_OF_QUALITY)
def test_what_changes_nothing_is_neither_an_effect_nor_a_heal(
    world: World, shaped: ShapedNetwork, make: Callable[[Aim, Site], BadLinks]
) -> None:
    shaped.deaf_to_shape = True
    fault = make(_aim("n2"), _site(world))
    fault.inject()
    assert fault.confirm(SOON) is None
    fault.heal()
    assert fault.confirm_healed(SOON) is not None  # It never was, and links are alive.
    shaped.deaf_to_shape = False
    fault = make(_aim("n2", fault_id=2), _site(world))
    fault.inject()
    assert fault.confirm(SOON) is not None
    shaped.deaf_to_unshape = True
    fault.heal()
    assert fault.confirm_healed(SOON) is None
    shaped.deaf_to_unshape = False
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


def test_one_link_that_stayed_good_denies_the_effect(world: World, shaped: ShapedNetwork) -> None:
    fault = delay(_aim("n2"), _site(world))
    fault.inject()
    del shaped.shapes["fault-1"]["n3", "n2"]
    assert fault.confirm(SOON) is None


def test_a_cut_over_bad_links_takes_nothing_from_them_and_they_nothing_from_it(
    world: World, shaped: ShapedNetwork
) -> None:
    site = _site(world)
    cut = isolate(_aim("n1"), site)
    cut.inject()
    assert cut.confirm(SOON) is not None
    slow = delay(_aim("n2", fault_id=2), site)
    slow.inject()
    effect = slow.confirm(SOON)
    assert effect is not None
    # What is cut cannot be measured, and is not claimed.
    assert {(each.sender, each.receiver) for each in effect.links} == {("n2", "n3"), ("n3", "n2")}
    cut.heal()
    assert cut.confirm_healed(SOON) is not None
    assert set(shaped.shapes) == {"fault-2"}
    again = isolate(_aim("n1", fault_id=3), site)
    again.inject()
    slow.heal()
    healed = slow.confirm_healed(SOON)
    assert healed is not None
    dead = {(each.sender, each.receiver) for each in healed.links if each.after is None}
    assert dead == {("n1", "n2"), ("n2", "n1")}
    assert set(shaped.cuts) == {"fault-3"}


def test_links_that_are_all_dead_cannot_be_made_worse(world: World, shaped: ShapedNetwork) -> None:
    site = _site(world)
    isolate(_aim("n2"), site).inject()
    with pytest.raises(ClusterError, match="failed before"):
        loss(_aim("n2", fault_id=2), site).inject()
    assert shaped.shapes == {}


def test_hosts_that_cannot_shape_say_so(world: World) -> None:
    for hosts in (FakeHostsWithoutCuts(), FakeNetwork(), None):
        site = Site(
            cluster=world.cluster, network=None, state_of=world.cluster.state_of, hosts=hosts
        )
        with pytest.raises(ClusterError, match="cannot degrade the network"):
            delay(_aim("n1"), site)


def test_a_single_node_has_no_links_to_make_bad(world: World, shaped: ShapedNetwork) -> None:
    world.cluster.nodes = ["n1"]
    assert shaped.shapes == {}
    with pytest.raises(ClusterError, match="no link to shape around n1"):
        delay(_aim("n1"), _site(world))


@pytest.mark.parametrize("make", KINDS_OF_QUALITY)
def test_strengths_come_from_the_faults_own_seed_and_stay_within_bounds(
    world: World, shaped: ShapedNetwork, make: Callable[[Aim, Site], BadLinks]
) -> None:
    assert shaped.shapes == {}
    drawn = [make(_aim("n2", seed=seed), _site(world)).quality for seed in range(100)]
    assert make(_aim("n2", seed=7), _site(world)).quality == drawn[7]
    assert len({each.seed for each in drawn}) == 100
    for each in drawn:
        assert 0 <= each.delay_ms <= 300
        assert 0 <= each.jitter_ms <= 100
        assert max(each.loss, each.duplicate) <= 0.3
        assert each.reorder <= 0.4
        assert each.rate_kbit == 0 or LEAST_KBIT <= each.rate_kbit <= MOST_KBIT


def test_two_qualities_of_one_node_exclude_each_other_and_a_kill_does_not() -> None:
    claims = Claims()
    claims.claim(1, ["n1", "n2"], KINDS["delay"].aspect)
    claims.claim(2, ["n1"], KINDS["kill"].aspect)
    claims.claim(3, ["n1"], KINDS["isolate"].aspect)
    with pytest.raises(ClusterError, match="fault 1 already holds the network of n2"):
        claims.claim(4, ["n2"], KINDS["loss"].aspect)


def test_a_share_has_to_grow_by_more_than_chance() -> None:
    assert not is_larger_share(0, 200, 9, of=200)  # Once in 512 by chance, at least.
    assert is_larger_share(0, 200, 12, of=200)
    assert not is_larger_share(20, 200, 25, of=200)
    assert not is_larger_share(0, 0, 10, of=10)
    assert not is_larger_share(10, 10, 0, of=0)
    # There are more ways to draw so many than a float can count.
    assert is_larger_share(5, 1024, 2000, of=8192)
    assert not is_larger_share(300, 1024, 2400, of=8192)


@given(few=st.integers(0, 60), more=st.integers(0, 60), of=st.integers(60, 300))
def test_of_two_shares_at_most_one_is_larger(few: int, more: int, of: int) -> None:
    assert not (is_larger_share(few, of, more, of=of) and is_larger_share(more, of, few, of=of))
    if is_larger_share(few, of, more, of=of):
        assert more > few


def test_series_add_up() -> None:
    one = Measured(sent=5, arrived=4, copies=1, overtaken=1, round_trip_ms=(1.0, 2.0), lasted_s=0.5)
    both = together([one, one])
    assert (both.sent, both.arrived, both.copies, both.overtaken) == (10, 8, 2, 2)
    assert both.round_trip_ms == (1.0, 2.0, 1.0, 2.0)
    assert both.lasted_s == 1.0
