"""What faults of leadership and clocks draw, and in which plans they can come to be. Pure."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.protocol import Ability
from nemesis.clock_drift import RATES
from nemesis.clock_offset import drawn_offset_s
from nemesis.clocks import PROOF_LIMIT_S
from nemesis.reassignment import another
from nemesis.schedule import deal_schedule, played_families
from results.record.plan import Plan

SEEDS = st.integers(0, 2**32)


@given(st.integers(1, 6), st.data(), SEEDS)
def test_another_assignment_is_another_one_of_nodes_that_there_are(
    count: int, data: st.DataObject, seed: int
) -> None:
    nodes = [f"n{number}" for number in range(1, count + 1)]
    replicas = data.draw(st.permutations(nodes))[: data.draw(st.integers(1, count))]
    found = another(replicas, nodes, Random(seed))
    assert set(found) <= set(nodes)
    assert len(set(found)) == len(found)
    # With as many replicas as nodes, one of three goes, and two can only change places.
    assert len(found) >= min(len(replicas), 2)
    if count > 1:
        assert tuple(found) != tuple(replicas)


@given(SEEDS)
def test_clocks_jump_back_by_hours_and_forward_by_seconds_only(seed: int) -> None:
    offset_s = drawn_offset_s(Random(seed))
    assert -5 * 3600 <= offset_s <= 3
    assert abs(offset_s) >= 1.5


def test_no_drift_that_is_dealt_is_healed_by_a_jump_back_beyond_a_budget() -> None:
    plan = Plan(nemesis=("clock",), nemesis_interval_s=60, time_limit_s=600)
    held_s = max(fault.hold_s for fault in deal_schedule(plan, abilities=frozenset(Ability)).faults)
    assert held_s > 20
    ahead_s = (max(RATES) - 1) * (held_s + PROOF_LIMIT_S)
    assert 0 < ahead_s < min(plan.budgets.election_s, plan.budgets.unavailable_s)
    assert min(RATES) < 1


def test_both_directions_and_hours_are_drawn() -> None:
    drawn = [drawn_offset_s(Random(seed)) for seed in range(100)]
    assert any(offset_s > 0 for offset_s in drawn)
    assert any(offset_s < -3600 for offset_s in drawn)


@pytest.mark.parametrize(
    ("plan", "kinds"),
    [
        (Plan(), {"preferred-election", "reassignment", "controller-failover"}),
        (
            Plan(system="kafka:4.3.1:controllers"),
            {"preferred-election", "reassignment", "controller-failover", "unclean-election"},
        ),
        (
            Plan(replication=2),
            {"preferred-election", "reassignment", "controller-failover", "unclean-election"},
        ),
        (Plan(nodes=2, replication=2), {"preferred-election", "reassignment"}),
        (Plan(nodes=3, replication=1, min_insync=1), {"controller-failover"}),
        (Plan(nodes=1, replication=1, min_insync=1), set()),
    ],
)
def test_only_what_can_come_to_be_is_dealt(plan: Plan, kinds: set[str]) -> None:
    asked = plan.model_copy(update={"nemesis": ("leadership",)})
    assert set(played_families(asked, abilities=frozenset(Ability)).get("leadership", ())) == kinds


@pytest.mark.parametrize(
    ("values", "shifts"),
    [
        ({}, False),
        ({"nemesis": ["clock"]}, True),
        ({"nemesis": ["all"]}, True),
        ({"nemesis": ["clock"], "faults": []}, False),
        ({"faults": [{"kind": "clock-drift"}]}, True),
    ],
)
def test_only_runs_that_may_shift_clocks_are_started_so(
    values: dict[str, object],
    shifts: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert Plan.model_validate(values).shifts_clocks is shifts
