"""The fault `link-stall`: all comes, seconds late and in order, and a cut is none."""

from dataclasses import replace
from random import Random

import pytest

from cluster.protocol import ClusterError, Measured
from nemesis.evidence import held_for
from nemesis.isolate import isolate
from nemesis.link_stall import link_stall
from nemesis.network import Network
from nemesis.protocol import Aim, Patience, Site
from nemesis.quality import BadLinks, Trial
from nemesis.registry import KINDS
from nemesis.stalls import LATE_MS, OPEN_MS, STALL_MS, stalling
from nemesis.undo import Unshape
from tests.nemesis.conftest import World
from tests.nemesis.proofs import AROUND, stall_proof
from tests.nemesis.simulated_room import stalls_only
from tests.nemesis.test_faults_of_quality import ShapedNetwork

SOON = Patience(limit_s=0.1)
PROOF_OF = [("link-stall", stall_proof(*AROUND))]
INTO, OUT_OF = {(1, 2), (3, 2)}, {(2, 1), (2, 3)}
SHOWS_OF = [("link-stall", stalls_only(INTO, OUT_OF, INTO | OUT_OF))]
IN, OUT = {("n1", "n2"), ("n3", "n2")}, {("n2", "n1"), ("n2", "n3")}
HELD = tuple(5000.0 - 5 * at for at in range(40))
LATE = Measured(sent=40, arrived=40, copies=0, overtaken=0, round_trip_ms=HELD, lasted_s=0.01)
QUICK = replace(LATE, round_trip_ms=(0.3,) * 40)


@pytest.fixture
def shaped(world: World) -> ShapedNetwork:
    world.hosts = ShapedNetwork()
    return world.hosts


def site_of(world: World, hosts: ShapedNetwork) -> Site:
    state_of = world.cluster.state_of
    return Site(cluster=world.cluster, network=Network(hosts), state_of=state_of, hosts=hosts)


def aim(*targets: str, seed: int = 0) -> Aim:
    return Aim(fault_id=1, targets=targets, rng=Random(seed))


def quick(fault: BadLinks) -> BadLinks:
    """Have a fault give up soon: what never comes is not waited for."""
    fault._trial = Trial(worse=fault._trial.worse, count=fault._trial.count, late_s=0.1)
    return fault


def test_links_that_stall_are_proven_and_proven_good_again(
    world: World, shaped: ShapedNetwork
) -> None:
    fault = link_stall(aim("n2"), site_of(world, shaped))
    assert fault.undo() == (Unshape(shape_id="fault-1", links=fault.links),)
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert {(each.sender, each.receiver) for each in effect.links} == {*fault.links}
    for link in effect.links:
        assert link.during.median_ms is not None
        assert link.during.median_ms > STALL_MS[0]
        assert link.during.arrived == link.during.sent
    fault.heal()
    fault.heal()
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert shaped.shapes == {}
    assert all(link.after is not None for link in healed.links)


def test_the_way_and_the_times_are_drawn(world: World, shaped: ShapedNetwork) -> None:
    site = site_of(world, shaped)
    drawn = [link_stall(aim("n2", seed=seed), site) for seed in range(60)]
    assert {frozenset(each.links) for each in drawn} == {*map(frozenset, (IN, OUT, IN | OUT))}
    stalls = [each.quality.stall_ms for each in drawn]
    assert STALL_MS[0] <= min(stalls) < 3000
    assert 7000 < max(stalls) <= STALL_MS[1]
    assert all(OPEN_MS[0] <= each.quality.open_ms <= OPEN_MS[1] for each in drawn)
    assert link_stall(aim("n2", seed=7), site).quality == drawn[7].quality


def test_links_of_all_nodes_stall_both_ways(world: World, shaped: ShapedNetwork) -> None:
    nodes = tuple(world.cluster.nodes)
    for seed in range(5):
        assert len(link_stall(aim(*nodes, seed=seed), site_of(world, shaped)).links) == 6
    world.cluster.nodes = ["n1"]
    with pytest.raises(ClusterError, match="no link to shape around n1"):
        link_stall(aim("n1"), site_of(world, shaped))


def test_links_that_do_not_stall_are_no_effect(world: World, shaped: ShapedNetwork) -> None:
    shaped.deaf_to_shape = True
    fault = quick(link_stall(aim("n2"), site_of(world, shaped)))
    fault.inject()
    assert fault.confirm(SOON) is None


def test_one_link_that_passes_all_denies_the_effect(world: World, shaped: ShapedNetwork) -> None:
    links = tuple(sorted(IN | OUT))
    fault = quick(stalling(aim("n2"), site_of(world, shaped), links))
    fault.inject()
    for both in (("n3", "n2"), ("n2", "n3")):
        del shaped.shapes["fault-1"][both]
    assert fault.confirm(SOON) is None


def test_a_stall_that_stays_is_not_healed(world: World, shaped: ShapedNetwork) -> None:
    fault = link_stall(aim("n2"), site_of(world, shaped))
    fault.inject()
    assert fault.confirm(SOON) is not None
    shaped.deaf_to_unshape = True
    fault.heal()
    assert fault.confirm_healed(SOON) is None
    shaped.deaf_to_unshape = False
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


def test_what_is_lost_doubled_or_overtaken_was_not_held() -> None:
    is_held = held_for(LATE_MS)
    assert is_held(QUICK, LATE)
    assert is_held(QUICK, replace(LATE, arrived=39)), "a good link may lose one"
    assert not is_held(QUICK, replace(LATE, arrived=30))
    assert not is_held(QUICK, replace(LATE, round_trip_ms=HELD[:20]))
    assert not is_held(QUICK, replace(LATE, overtaken=1))
    assert not is_held(QUICK, replace(LATE, copies=1))
    assert not is_held(QUICK, QUICK)
    assert not is_held(LATE, LATE)
    assert not is_held(QUICK, replace(LATE, arrived=0, round_trip_ms=()))


def test_a_cut_beside_a_stall_is_joined_though_no_probe_arrives(
    world: World, shaped: ShapedNetwork
) -> None:
    site = site_of(world, shaped)
    assert site.network is not None
    cut = isolate(Aim(fault_id=2, targets=("n2",), rng=Random(0)), site)
    cut.inject()
    stall = stalling(aim("n2"), site, tuple(sorted(IN)))
    site.network.note_stall("fault-1", stall.links)
    shaped.deaf_to_join = True  # As if probes of a stalled link did not come.
    cut.heal()
    assert cut.confirm_healed(SOON) is None, "the links back do not stall"
    site.network.note_stall("fault-1", sorted(IN | OUT))
    assert cut.confirm_healed(SOON) is not None


def test_others_know_of_a_stall_from_its_injection_to_its_heal(
    world: World, shaped: ShapedNetwork
) -> None:
    site = site_of(world, shaped)
    assert site.network is not None
    fault = link_stall(aim("n2"), site)
    fault.inject()
    assert site.network.silent_links() == {*fault.links}
    assert site.network.cut_links() == frozenset()
    fault.heal()
    assert site.network.silent_links() == frozenset()


def test_it_takes_what_makes_links_bad_and_nothing_of_brokers() -> None:
    assert KINDS["link-stall"].aspect is KINDS["delay"].aspect
    assert KINDS["link-stall"].is_dealt("namespace")
