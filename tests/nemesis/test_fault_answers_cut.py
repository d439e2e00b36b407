"""The fault `answers-cut`: in one direction only, and of clients only."""

import itertools
from random import Random

import pytest

from cluster.protocol import CLIENTS, ClusterError
from cluster.reference.simulator.network import CLIENT
from nemesis.answers_cut import answers_cut
from nemesis.protocol import Aim, Patience
from nemesis.registry import KINDS
from results.record.plan import SIMULATED
from tests.nemesis.conftest import World
from tests.nemesis.proofs import cut_proof, is_deaf
from tests.nemesis.simulated_room import cuts_only

SOON = Patience(limit_s=0.1)
PROOF_OF = [("answers-cut", cut_proof({"clients-n2": is_deaf}))]
SHOWS_OF = [("answers-cut", cuts_only((2, CLIENT)))]
"""All that clients send arrives, and nothing comes back."""


def aim(*targets: str) -> Aim:
    return Aim(fault_id=1, targets=targets, rng=Random(0))


def test_only_answers_are_cut_and_brokers_see_each_other(world: World) -> None:
    fault = answers_cut(aim("n2"), world.site())
    assert fault.links == (("n2", CLIENTS),)
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    during = {(each.sender, each.receiver): each.during for each in effect.links}
    assert during == {("n2", CLIENTS): False, (CLIENTS, "n2"): True}
    others = [("n1", CLIENTS), (CLIENTS, "n1"), *itertools.permutations(world.cluster.nodes, 2)]
    assert all(world.network.probe(others).values())
    fault.heal()
    assert fault.confirm_healed(SOON) is not None
    assert world.network.cuts == {}
    fault.heal()  # Idempotent.


def test_answers_that_still_come_are_no_effect(world: World) -> None:
    fault = answers_cut(aim("n2"), world.site())
    world.network.deaf_to_cut = True
    fault.inject()
    assert fault.confirm(SOON) is None


def test_a_cut_that_also_stops_requests_is_another_fault(world: World) -> None:
    fault = answers_cut(aim("n2"), world.site())
    fault.inject()
    world.network.cut("another", [(CLIENTS, "n2")])
    assert fault.confirm(SOON) is None


def test_links_that_stay_cut_are_not_healed(world: World) -> None:
    fault = answers_cut(aim("n2"), world.site())
    fault.inject()
    world.network.deaf_to_join = True
    fault.heal()
    assert fault.confirm_healed(SOON) is None


def test_on_real_hosts_a_seed_deals_what_it_dealt_before_there_was_such_a_fault() -> None:
    assert not KINDS["answers-cut"].is_dealt("namespace")
    assert KINDS["answers-cut"].is_dealt(SIMULATED)


def test_it_takes_a_network_that_can_be_cut(world: World) -> None:
    site = world.site()
    with pytest.raises(ClusterError, match="cannot cut"):
        answers_cut(aim("n2"), type(site)(cluster=site.cluster, network=None,
                                          state_of=site.state_of))  # fmt: skip
