"""The fault `client-stall`: requests, answers, or both are late; brokers see each other."""

from random import Random

import pytest

from cluster.hosts.abilities import NOT_BUILT, abilities_of, able
from cluster.protocol import CLIENTS, Ability
from cluster.reference.simulator.network import CLIENT
from nemesis.client_stall import client_stall
from nemesis.network import Network
from nemesis.protocol import Aim, Patience, Site
from nemesis.registry import KINDS
from tests.nemesis.conftest import World
from tests.nemesis.proofs import stall_proof
from tests.nemesis.simulated_room import stalls_only
from tests.nemesis.test_faults_of_quality import ShapedNetwork

SOON = Patience(limit_s=0.1)
PROOF_OF = [("client-stall", stall_proof("clients-n2"))]
THERE, BACK = (CLIENT, 2), (2, CLIENT)
SHOWS_OF = [("client-stall", stalls_only([THERE], [BACK], [THERE, BACK]))]
REQUESTS, ANSWERS = (CLIENTS, "n2"), ("n2", CLIENTS)


@pytest.fixture
def site(world: World) -> Site:
    hosts = ShapedNetwork()
    state_of = world.cluster.state_of
    return Site(cluster=world.cluster, network=Network(hosts), state_of=state_of, hosts=hosts)


def stall_of(site: Site, seed: int) -> frozenset[tuple[str, str]]:
    return frozenset(client_stall(Aim(fault_id=1, targets=("n2",), rng=Random(seed)), site).links)


def test_requests_or_answers_or_both_stall_and_nothing_between_brokers(site: Site) -> None:
    drawn = {stall_of(site, seed) for seed in range(40)}
    assert drawn == {frozenset({REQUESTS}), frozenset({ANSWERS}), frozenset({REQUESTS, ANSWERS})}


def test_it_is_proven_and_proven_over(site: Site) -> None:
    fault = client_stall(Aim(fault_id=1, targets=("n2",), rng=Random(0)), site)
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert {(each.sender, each.receiver) for each in effect.links} == {*fault.links}
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


def test_it_is_offered_where_the_clients_machine_is_the_runs() -> None:
    needs = KINDS["client-stall"].needs
    for hosts in ("docker", "ssh:", "process"):
        assert not needs <= able(abilities_of(hosts))
    assert abilities_of("docker")[Ability.SHAPE_CLIENTS] == NOT_BUILT
    assert needs <= able(abilities_of("simulated"))
