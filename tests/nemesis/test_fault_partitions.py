"""The faults of the network, on hosts in memory: `isolate`, `halves` and both one-way cuts."""

from collections.abc import Callable, Iterable, Mapping
from random import Random

import pytest

from cluster.protocol import ClusterError, Link
from nemesis.cut import Cut
from nemesis.halves import halves
from nemesis.isolate import isolate
from nemesis.network import Network
from nemesis.one_way import one_way_in, one_way_out
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Join
from tests.nemesis.conftest import FakeCluster, FakeHostsWithoutCuts, FakeNetwork, World

SOON = Patience(limit_s=0.1)


def _aim(*targets: str, fault_id: int = 1, seed: int = 0) -> Aim:
    return Aim(fault_id=fault_id, targets=targets, rng=Random(seed))


def test_isolate_cuts_its_target_and_proves_it(world: World) -> None:
    fault = isolate(_aim("n2"), world.site())
    around: set[Link] = {("n1", "n2"), ("n2", "n1"), ("n3", "n2"), ("n2", "n3")}
    assert fault.undo() == (Join(cut_id="fault-1", links=tuple(sorted(around))),)

    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert {(each.sender, each.receiver) for each in effect.links} == around
    assert all(each.cut and each.before and not each.during for each in effect.links)
    assert world.network.probe([("n1", "n3")]) == {("n1", "n3"): True}

    world.network.send(("n1", "n2"), 5)
    fault.heal()
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert all(each.after and not each.cut_by_others for each in healed.links)
    held = {(each.sender, each.receiver): each.dropped_while_held for each in healed.links}
    assert held == {**dict.fromkeys(around, 0), ("n1", "n2"): 5}
    # One probe of our own a link while the cut was confirmed.
    assert {each.dropped_at_first for each in healed.links} == {1}


@pytest.mark.parametrize(
    ("make", "cut"),
    [
        (one_way_in, {("n2", "n1"), ("n3", "n1")}),
        (one_way_out, {("n1", "n2"), ("n1", "n3")}),
    ],
)
def test_one_way_cuts_prove_that_the_other_way_works(
    world: World, make: Callable[[Aim, Site], Cut], cut: set[Link]
) -> None:
    fault = make(_aim("n1"), world.site())
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    during = {(each.sender, each.receiver): each.during for each in effect.links}
    assert during == {link: link[::-1] in cut for link in [*cut, *(link[::-1] for link in cut)]}


def test_a_one_way_cut_that_cuts_both_ways_is_not_confirmed(world: World) -> None:
    fault = one_way_in(_aim("n1"), world.site())
    fault.inject()
    world.network.cuts["a mistake"] = {("n1", "n2"): 0}
    assert fault.confirm(SOON) is None


def test_halves_aim_at_the_smaller_half() -> None:
    world_site = _site_of_five()
    fault = halves(_aim("n4", seed=3), world_site)
    assert "n4" in fault.targets
    assert len(fault.targets) == 2
    assert all((a in fault.targets) != (b in fault.targets) for a, b in fault.links)
    assert len(fault.links) == 2 * 2 * 3


def _site_of_five() -> Site:
    cluster = FakeCluster(["n1", "n2", "n3", "n4", "n5"])
    return Site(cluster=cluster, network=Network(FakeNetwork()), state_of=cluster.state_of)


def test_a_cut_that_cuts_nothing_is_no_effect(world: World) -> None:
    world.network.deaf_to_cut = True
    fault = isolate(_aim("n2"), world.site())
    fault.inject()
    assert fault.confirm(SOON) is None


def test_a_heal_that_heals_nothing_is_not_confirmed(world: World) -> None:
    fault = isolate(_aim("n2"), world.site())
    fault.inject()
    world.network.deaf_to_join = True
    fault.heal()
    assert fault.confirm_healed(SOON) is None
    world.network.deaf_to_join = False
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


def test_cuts_add_up_and_are_healed_one_by_one(world: World) -> None:
    site = world.site()
    first = isolate(_aim("n1"), site)
    second = isolate(_aim("n2", fault_id=2), site)
    for fault in (first, second):
        fault.inject()
        assert fault.confirm(SOON) is not None

    first.heal()
    healed = first.confirm_healed(SOON)
    assert healed is not None
    after = {
        (each.sender, each.receiver): (each.after, each.cut_by_others) for each in healed.links
    }
    assert after["n1", "n3"] == (True, False)
    assert after["n1", "n2"] == (False, True)

    second.heal()
    assert second.confirm_healed(SOON) is not None
    assert world.network.cuts == {}


def test_a_cut_of_links_that_are_all_dead_is_refused(world: World) -> None:
    site = world.site()
    isolate(_aim("n1"), site).inject()
    with pytest.raises(ClusterError, match="failed before"):
        isolate(_aim("n1", fault_id=2), site).inject()
    assert list(world.network.cuts) == ["fault-1"]


def test_hosts_that_cannot_cut_say_so(world: World) -> None:
    world.hosts = FakeHostsWithoutCuts()
    with pytest.raises(ClusterError, match="cannot cut"):
        isolate(_aim("n1"), world.site())


def test_isolating_the_only_node_cuts_nothing() -> None:
    site = _site_of_five()
    site.cluster.nodes = ["n1"]
    with pytest.raises(ClusterError, match="no link to cut around n1"):
        isolate(_aim("n1"), site)


class _HalfWay(FakeNetwork):
    """Hosts on which cuts fail half-way, so that there are no counters to read."""

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        super().cut(cut_id, sorted(links)[:1])
        raise ClusterError("nft failed on n2")

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        raise ClusterError(f"there is no chain {cut_id} on n2")


def test_a_cut_that_failed_half_way_is_joined_though_its_counters_cannot_be_read(
    world: World,
) -> None:
    world.hosts = _HalfWay()
    fault = isolate(_aim("n2"), world.site())
    with pytest.raises(ClusterError, match="nft failed"):
        fault.inject()
    fault.heal()
    assert world.network.cuts == {}
    assert fault.confirm_healed(SOON) is not None
