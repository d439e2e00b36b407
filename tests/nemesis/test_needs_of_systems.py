"""What a fault needs of a system: without it the fault is not dealt, and a sentence says why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.hosts.abilities import abilities_of, able, built_for
from cluster.protocol import OF_SYSTEMS, Ability
from nemesis.registry import KINDS, needs_of
from nemesis.schedule import deal_schedule, played_families, unsupported
from results.record.plan import NEMESIS_KINDS, Plan
from results.record.plan_parts import PlannedFault

EVERYTHING = frozenset(Ability)
NEEDS = {
    "kill": {Ability.KILL},
    "stop": {Ability.STOP},
    "pause": {Ability.PAUSE},
    "rolling-restart": {Ability.STOP, Ability.APART},
    "power-loss": {Ability.KILL, Ability.FILES, Ability.APART},
    "wipe": {Ability.STOP, Ability.FILES, Ability.APART},
    "bit-flip": {Ability.KILL, Ability.STOP, Ability.FILES, Ability.APART},
    "isolate": {Ability.APART},
    "one-way-in": {Ability.APART, Ability.ONE_WAY},
    "halves": {Ability.APART},
    "client-cut": set(),
    "delay": {Ability.APART},
    "disk-full": {Ability.KILL},
    "read-only": {Ability.KILL, Ability.STOP},
    "slow-disk": set(),
    "clock-offset": {Ability.TIME},
    "preferred-election": {Ability.ELECT, Ability.REASSIGN},
    "reassignment": {Ability.REASSIGN},
    "controller-failover": {Ability.KILL, Ability.QUORUM, Ability.APART},
    "unclean-election": {Ability.KILL, Ability.ELECT, Ability.APART},
    "topic-churn": {Ability.TOPICS},
}


def test_each_fault_needs_of_a_system_what_it_does_with_it() -> None:
    assert {kind: KINDS[kind].needs & OF_SYSTEMS for kind in NEEDS} == NEEDS


@pytest.mark.parametrize("hosts", ["process", "namespace", "docker", "ssh:", "simulated"])
def test_hosts_never_lack_what_only_a_system_may_lack(hosts: str) -> None:
    assert able(abilities_of(hosts)) >= OF_SYSTEMS
    assert built_for(hosts) >= OF_SYSTEMS


@pytest.mark.parametrize("lacking", sorted(OF_SYSTEMS))
def test_what_a_system_cannot_is_left_out_of_all_with_its_own_sentence(lacking: Ability) -> None:
    plan = Plan(nemesis=("all",), time_limit_s=3000)
    why = "broker.toml has no command for it"
    schedule = deal_schedule(plan, abilities=EVERYTHING - {lacking}, why_not={lacking: why})
    assert schedule.faults
    assert not [each.kind for each in schedule.faults if lacking in KINDS[each.kind].needs]
    gone = [
        family
        for family in NEMESIS_KINDS
        if all(
            lacking in kind.needs
            for kind in KINDS.values()
            if kind.family_for(plan.hosts) == family
        )
        if any(kind.suits(plan) for kind in KINDS.values() if kind.family_for(plan.hosts) == family)
    ]
    named = " and ".join(filter(None, [", ".join(gone[:-1]), *gone[-1:]]))
    told = [f"faults of {named} are left out: {why}"] if gone else []
    assert [each for each in schedule.dropped if each.endswith(why)] == told


def test_what_was_asked_for_and_the_system_cannot_is_refused_with_its_sentence() -> None:
    why = {Ability.KILL: "cluster.toml names no command that kills n1"}
    able_to = EVERYTHING - why.keys()
    (sentence,) = unsupported(Plan(nemesis=("kill", "pause")), abilities=able_to, why_not=why)
    assert sentence == (
        "nemesis 'kill' needs a system that can kill and restart a broker: cluster.toml names no"
        " command that kills n1; use another system, or remove this fault"
    )
    by_hand = Plan(faults=(PlannedFault(at_s=1, kind="wipe"), PlannedFault(at_s=9, kind="pause")))
    (sentence,) = unsupported(by_hand, abilities=EVERYTHING - {Ability.FILES})
    assert sentence == (
        "fault 'wipe' at 1 s needs a system that can let the harness read and change its brokers'"
        " logs; use another system, or remove this fault"
    )
    assert deal_schedule(
        Plan(nemesis=("wipe",)), abilities=EVERYTHING - {Ability.FILES}
    ).dropped == (
        (
            "faults of wipe are left out: this system cannot let the harness read and change its"
            " brokers' logs"
        ),
    )


@pytest.mark.parametrize("families", [("kill", "pause"), ("all",)])
def test_nobody_aims_at_a_controller_that_nobody_tells_of(families: tuple[str, ...]) -> None:
    plan = Plan(nemesis=families, time_limit_s=600)
    roles = {fault.target for fault in deal_schedule(plan, abilities=EVERYTHING).faults}
    assert "controller" in roles
    untold = deal_schedule(plan, abilities=EVERYTHING - {Ability.QUORUM}).faults
    assert "controller" not in {fault.target for fault in untold}
    assert "one" in {fault.target for fault in untold}


@given(st.sets(st.sampled_from(sorted(Ability))).map(frozenset), st.integers(0, 2**63))
def test_whatever_is_missing_nothing_that_needs_it_is_dealt(
    abilities: frozenset[Ability], seed: int
) -> None:
    plan = Plan(seed=seed, nemesis=("all",), time_limit_s=300)
    schedule = deal_schedule(plan, abilities=abilities)
    assert all(KINDS[each.kind].needs <= abilities for each in schedule.faults)
    played = played_families(plan, abilities=abilities)
    assert {KINDS[each.kind].family_for(plan.hosts) for each in schedule.faults} <= set(played)
    for family in set(NEMESIS_KINDS) - set(played):
        assert any(family in sentence for sentence in schedule.dropped), needs_of(family)
