"""The fault `client-stall`: requests, answers, or both are late; brokers see each other."""

import itertools
from pathlib import Path

import pytest

from cluster.hosts.abilities import NOT_BUILT, abilities_of, able
from cluster.protocol import CLIENTS, Ability
from nemesis.client_stall import client_stall
from nemesis.protocol import Site
from nemesis.registry import KINDS
from nemesis.schedule import deal_schedule
from nemesis.stalls import STALL_MS
from results.record.plan import Plan
from tests.nemesis.proofs import stall_proof
from tests.nemesis.simulated_room import stalls_as_drawn
from tests.nemesis.virtual_links import NeverUnshaped, VirtualLinks, aim, begun, healed

PROOF_OF = [("client-stall", stall_proof("clients-n2"))]
SHOWS_OF = [("client-stall", stalls_as_drawn)]
SEEDS_OF = [("client-stall", (1, 5, 7))]  # Each direction, and both.
REQUESTS, ANSWERS = (CLIENTS, "n2"), ("n2", CLIENTS)


def stall_of(site: Site, seed: int) -> frozenset[tuple[str, str]]:
    return frozenset(client_stall(aim("n2", seed=seed), site).links)


def test_requests_or_answers_or_both_stall_and_nothing_between_brokers(tmp_path: Path) -> None:
    site = VirtualLinks(tmp_path).site
    drawn = {stall_of(site, seed) for seed in range(40)}
    assert drawn == {frozenset({REQUESTS}), frozenset({ANSWERS}), frozenset({REQUESTS, ANSWERS})}


@pytest.mark.parametrize("seed", range(6))
def test_it_is_proven_and_proven_over(seed: int, tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path, seed=seed)

    def work() -> None:
        fault, effect = begun(client_stall, links.site, seed)
        assert effect is not None
        assert {(each.sender, each.receiver) for each in effect.links} == {*fault.links}
        assert healed(fault) is not None

    links.play(work)


def test_one_that_stays_is_not_over(tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path, NeverUnshaped)
    assert links.play(lambda: healed(begun(client_stall, links.site)[0])) is None


@pytest.mark.parametrize(
    ("plan", "roles"),
    [
        ({"workload": "groups"}, {"leader", "coordinator", "controller"}),
        ({"workload": "txn"}, {"leader", "coordinator", "controller"}),
        ({"workload": "log"}, {"leader", "controller"}),
        ({"workload": "groups", "system": "kafka:4.3.1:controllers"}, {"leader", "coordinator"}),
    ],
)
def test_it_is_dealt_to_all_whom_clients_ask(plan: dict[str, str], roles: set[str]) -> None:
    dealt = {
        fault.target.partition("(")[0]
        for seed in range(10)
        for fault in deal_schedule(
            Plan.model_validate({"nemesis": ("stall-clients",), "seed": seed, **plan}),
            abilities=frozenset(Ability),
        ).faults
    }
    assert dealt == roles


def test_a_schedule_has_time_for_it_to_be_confirmed_and_healed() -> None:
    plan = Plan(nemesis=("stall-clients",), time_limit_s=300)
    faults = deal_schedule(plan, abilities=frozenset(Ability)).faults
    kind = KINDS["client-stall"]
    assert kind.confirm_s > STALL_MS[1] / 1000
    for one, other in itertools.pairwise(faults):
        assert other.at_s - one.at_s >= kind.confirm_s + one.hold_s + kind.settle_s
    last = faults[-1]
    assert last.at_s + kind.confirm_s + last.hold_s + kind.settle_s <= plan.time_limit_s


def test_it_is_offered_where_the_clients_machine_is_the_runs() -> None:
    needs = KINDS["client-stall"].needs
    for hosts in ("docker", "ssh:", "process"):
        assert not needs <= able(abilities_of(hosts))
    assert abilities_of("docker")[Ability.SHAPE_CLIENTS] == NOT_BUILT
    assert needs <= able(abilities_of("simulated"))
