"""Rings, bridges, clients cut off and flapping links, on hosts in memory."""

import itertools
import threading
from collections.abc import Iterable
from random import Random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.protocol import CLIENTS, ClusterError, Link
from nemesis.bridge import bridge
from nemesis.client_cut import client_cut
from nemesis.flapping import Flapping
from nemesis.grudges import majorities_ring
from nemesis.isolate import isolate
from nemesis.network import Network
from nemesis.protocol import Aim, Patience, Site
from nemesis.ring import ring
from nemesis.undo import Join
from results.record.clock import wait_until
from tests.nemesis.conftest import FakeCluster, FakeHostsWithoutCuts, FakeNetwork, World

SOON = Patience(limit_s=5)
FIVE = ["n1", "n2", "n3", "n4", "n5"]


def _aim(*targets: str, fault_id: int = 1, seed: int = 0) -> Aim:
    return Aim(fault_id=fault_id, targets=targets, rng=Random(seed))


def _site(nodes: list[str]) -> Site:
    cluster = FakeCluster(nodes)
    return Site(cluster=cluster, network=Network(FakeNetwork()), state_of=cluster.state_of)


@given(size=st.integers(3, 11))
def test_in_a_ring_each_sees_a_majority_and_no_two_the_same(size: int) -> None:
    nodes = [f"n{number}" for number in range(1, size + 1)]
    grudge = majorities_ring(nodes)
    seen = {
        node: frozenset(other for other in nodes if not grudge.has_edge(other, node))
        for node in nodes
    }
    assert all(len(those) > size / 2 for those in seen.values())
    assert len(set(seen.values())) == size
    assert nx.is_empty(grudge) is False
    assert all(grudge.has_edge(b, a) for a, b in grudge.edges)


def test_a_ring_of_three_is_a_chain_that_ends_at_its_target() -> None:
    for seed in range(10):
        links = ring(_aim("n2", seed=seed), _site(["n1", "n2", "n3"])).links
        assert len(links) == 2
        assert all("n2" in link for link in links)
    with pytest.raises(ClusterError, match="needs 3 nodes or more, but there are 2"):
        ring(_aim("n1"), _site(["n1", "n2"]))


def test_a_ring_is_drawn_and_can_be_drawn_again() -> None:
    rings = [ring(_aim("n1", seed=seed), _site(FIVE)).links for seed in range(20)]
    assert len(set(rings)) > 1
    assert ring(_aim("n1", seed=3), _site(FIVE)).links == rings[3]


def test_a_bridge_sees_all_and_is_all_that_both_sides_see() -> None:
    links = set(bridge(_aim("n3"), _site(FIVE)).links)
    assert not any("n3" in link for link in links)
    whole = nx.Graph(pair for pair in itertools.combinations(FIVE, 2) if pair not in links)
    assert list(nx.articulation_points(whole)) == ["n3"]
    whole.remove_node("n3")
    assert sorted(len(side) for side in nx.connected_components(whole)) == [2, 2]
    with pytest.raises(ClusterError, match="needs 3 nodes or more, but there are 2"):
        bridge(_aim("n1"), _site(["n1", "n2"]))


def test_a_client_cut_cuts_clients_and_nobody_else(world: World) -> None:
    fault = client_cut(_aim("n2"), world.site())
    assert set(fault.links) == {(CLIENTS, "n2"), ("n2", CLIENTS)}
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert all(each.before and not each.during for each in effect.links)
    links = [(CLIENTS, "n1"), ("n1", CLIENTS), *itertools.permutations(world.cluster.nodes, 2)]
    assert all(world.network.probe(links).values())
    fault.heal()
    assert fault.confirm_healed(SOON) is not None
    assert world.network.cuts == {}


def test_flapping_links_are_seen_dead_and_alive_and_are_whole_at_the_end(world: World) -> None:
    fault = Flapping(_aim("n2"), world.site())
    assert fault.undo() == (Join(cut_id="fault-1", links=fault.links),)
    assert world.network.cuts == {}
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert [phase.cut for phase in effect.phases[:2]] == [True, False]
    assert all(phase.confirmed for phase in effect.phases)
    assert effect.phases[1].dropped_before > 0
    wait_until(lambda: "fault-1" in world.network.cuts, timeout_s=60, what="another cut")
    fault.heal()  # In the middle of a phase without links.
    assert world.network.cuts == {}
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert healed.alive == fault.links
    assert not [each for each in threading.enumerate() if each.name == "fault-1-flapping"]
    fault.heal()
    assert world.network.cuts == {}


def test_flapping_that_was_never_begun_is_healed_at_once(world: World) -> None:
    fault = Flapping(_aim("n2"), world.site())
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


class _Counting(FakeNetwork):
    """Hosts that note when their links are turned, and can refuse to."""

    def __init__(self) -> None:
        super().__init__()
        self.refuse = False

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        if self.refuse:
            raise ClusterError("nft failed on n2")
        super().cut(cut_id, links)


def test_a_cut_that_fails_ends_the_flapping_and_is_told(world: World) -> None:
    world.hosts = hosts = _Counting()
    hosts.refuse = True
    fault = Flapping(_aim("n2"), world.site())
    fault.inject()
    with pytest.raises(ClusterError, match="nft failed"):
        fault.confirm(SOON)
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


@pytest.mark.parametrize("deaf", ["deaf_to_cut", "deaf_to_join"])
def test_links_that_do_not_turn_are_no_effect(
    world: World, deaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemesis.flapping.TURN_LIMIT_S", 0.1)
    monkeypatch.setattr(world.network, deaf, True)
    fault = Flapping(_aim("n2"), world.site())
    fault.inject()
    assert fault.confirm(Patience(limit_s=1)) is None
    monkeypatch.setattr(world.network, deaf, False)
    fault.heal()
    assert world.network.cuts == {}


def test_another_faults_cut_outlives_the_flapping(world: World) -> None:
    site = world.site()
    isolate(_aim("n1"), site).inject()
    fault = Flapping(_aim("n2", fault_id=2), site)
    fault.inject()
    assert fault.confirm(SOON) is not None
    fault.heal()
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert set(healed.cut_by_others) == {("n1", "n2"), ("n2", "n1")}
    assert set(world.network.cuts) == {"fault-1"}


def test_flapping_needs_links_that_are_alive(world: World) -> None:
    site = world.site()
    isolate(_aim("n2"), site).inject()
    with pytest.raises(ClusterError, match="failed before"):
        Flapping(_aim("n2", fault_id=2), site).inject()
    world.hosts = FakeHostsWithoutCuts()
    with pytest.raises(ClusterError, match="cannot cut"):
        Flapping(_aim("n2"), world.site())
    with pytest.raises(ClusterError, match="no link to cut around n1"):
        Flapping(_aim("n1"), _site(["n1"]))
