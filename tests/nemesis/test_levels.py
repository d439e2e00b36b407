"""Levels: each is harder than the one before, and none loses a rule; the way up and back."""

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.hosts.abilities import built_for
from cluster.protocol import Ability
from cluster.sessions import hidden_s
from nemesis.aftermath import Strikes
from nemesis.claims import Aspect
from nemesis.escalated import lanes_of
from nemesis.levels import LEVELS, LULL_EVERY_S, Climbed, after_lull, next_level
from nemesis.registry import KINDS
from nemesis.roster import roster_of
from nemesis.schedule import Schedule, deal_schedule, played_families
from nemesis.scheduled import MIN_HOLD_S, ScheduledFault
from nemesis.targets import parse_target
from results.record.level import TOP_LEVEL
from results.record.plan import ALL, NEMESIS_KINDS, SIMULATED, Plan, PlanError, plan_from
from results.record.terms import Validity

HARD = range(1, TOP_LEVEL + 1)
REAL: Mapping[str, object] = {"hosts": "namespace"}
VIRTUAL: Mapping[str, object] = {"hosts": SIMULATED, "system": "reference"}
PLANS = st.builds(
    lambda where, **values: plan_from({**where, **values}),
    where=st.sampled_from([REAL, VIRTUAL, {"hosts": "process"}]),
    level=st.integers(1, TOP_LEVEL),
    seed=st.integers(0, 2**63),
    time_limit_s=st.floats(20, 150),
    nemesis_interval_s=st.floats(0.5, 60),
    nodes=st.integers(3, 5),
    nemesis=st.one_of(
        st.just((ALL,)),
        st.lists(st.sampled_from(NEMESIS_KINDS), unique=True, min_size=1).map(tuple),
    ),
)
VALID, UNKNOWN, INVALID = Validity.VALID, Validity.UNKNOWN, Validity.INVALID


def dealt(plan: Plan) -> Schedule:
    return deal_schedule(plan, abilities=built_for(plan.hosts))


def lasting_s(fault: ScheduledFault, plan: Plan) -> tuple[float, float]:
    return fault.at_s, fault.at_s + KINDS[fault.kind].lasts_s(fault.hold_s, plan.hosts)


def test_levels_are_as_many_as_a_plan_may_have_and_the_first_changes_nothing() -> None:
    assert len(LEVELS) == TOP_LEVEL + 1
    assert (LEVELS[0].pace, LEVELS[0].aftermath, LEVELS[0].lanes) == (1, False, 1)
    for seed in range(5):
        assert dealt(plan_from({"seed": seed, "level": 0})) == dealt(plan_from({"seed": seed}))
        assert not dealt(plan_from({"seed": seed})).is_supply


def test_each_level_is_harder_than_the_one_before() -> None:
    for easier, harder in pairwise(LEVELS):
        assert harder.pace <= easier.pace
        assert harder.moments >= easier.moments
        assert harder.lanes >= easier.lanes
        assert harder.aftermath >= easier.aftermath
        assert harder.spares_majority <= easier.spares_majority
        assert harder != easier


@pytest.mark.parametrize("where", [REAL, VIRTUAL], ids=["real", "virtual"])
def test_faults_come_denser_with_each_level_but_for_what_waits_for_another(
    where: Mapping[str, object],
) -> None:
    counts = [
        sum(len(dealt(plan_from({**where, "seed": seed, "level": level})).faults)
            for seed in range(20))
        for level in range(TOP_LEVEL + 1)
    ]  # fmt: skip
    assert counts[0] < counts[1] < counts[2] < counts[3]
    # From the fourth on there are lulls, of three tenths of the time.
    assert 0.7 * counts[3] < counts[4] < counts[5] < counts[6]
    assert counts[3] < counts[5]


@settings(max_examples=40)
@given(PLANS)
def test_a_level_loses_no_rule(plan: Plan) -> None:
    schedule = dealt(plan)
    assert schedule == dealt(plan)
    assert not schedule.overlapping
    faults = schedule.faults
    assert [fault.fault_id for fault in faults] == [*range(1, len(faults) + 1)]
    assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
    roster = roster_of(plan)
    for fault in faults:
        kind = KINDS[fault.kind]
        begins_s, ends_s = lasting_s(fault, plan)
        assert begins_s >= 0
        assert ends_s <= plan.time_limit_s  # All is settled when the main phase ends.
        assert 0 < fault.hold_s < plan.delivery_timeout_s
        assert kind.needs <= built_for(plan.hosts)
        assert kind.suits(plan) and kind.least_nodes <= plan.nodes and kind.is_dealt(plan.hosts)  # noqa: PT018 - one rule
        parse_target(fault.target, roster)
        assert fault.strikes is None or (kind.takes and not kind.aims and not kind.when_whole)
    assert_alone(schedule, plan)


def assert_alone(schedule: Schedule, plan: Plan) -> None:
    """See that what takes records has the time for itself, and a while before and after."""
    alone = [fault for fault in schedule.faults if KINDS[fault.kind].when_whole]
    for one in alone:
        begins_s, over_s = lasting_s(one, plan)
        for other in schedule.faults:
            apart_s = max(other.at_s - over_s, begins_s - lasting_s(other, plan)[1])
            assert other is one or apart_s >= hidden_s(plan) - 0.01, (one, other)


@settings(max_examples=40)
@given(PLANS)
def test_every_family_is_dealt_that_has_room(plan: Plan) -> None:
    long = plan.model_copy(update={"time_limit_s": 2500.0, "nemesis_interval_s": 6.0})
    families = played_families(long, abilities=built_for(plan.hosts))
    kinds = {fault.kind for fault in dealt(long).faults}
    assert {KINDS[kind].family_for(plan.hosts) for kind in kinds} == {*families}


@settings(max_examples=40)
@given(PLANS)
def test_what_takes_records_or_all_nodes_is_in_the_first_lane_alone(plan: Plan) -> None:
    apart = [
        fault.lane
        for fault in dealt(plan).faults
        if (kind := KINDS[fault.kind]).takes
        and (kind.when_whole or kind.divides or {"all", "servers"} & {*kind.aims})
    ]
    assert len({*apart}) <= 1


def test_up_to_the_third_level_what_overlaps_hits_one_node() -> None:
    for level in (1, 2, 3):
        for seed in range(10):
            schedule = dealt(plan_from({**REAL, "seed": seed, "level": level}))
            assert schedule.spares_majority
            lanes = {fault.lane for fault in schedule.faults}
            assert len(lanes) == (2 if level == 3 else 1)
            second = [fault for fault in schedule.faults if fault.lane == 1]
            assert all(fault.strikes is Strikes.STRUCK for fault in second)
            assert not any(KINDS[fault.kind].divides for fault in second)


def test_from_the_fourth_on_a_majority_may_be_gone_and_two_lanes_share_no_aspect() -> None:
    for level in range(4, TOP_LEVEL + 1):
        schedule = dealt(plan_from({**REAL, "seed": 3, "level": level}))
        assert not schedule.spares_majority
        links = {Aspect.LINKS, Aspect.QUALITY}
        of_lane = [
            {
                kind.aspect in links
                for fault in schedule.faults
                if fault.lane == lane and not (kind := KINDS[fault.kind]).divides
            }
            for lane in range(LEVELS[level].lanes)
        ]
        assert of_lane[:2] == [{False}, {True}]
        assert all(of_lane)


def test_aftermaths_begin_at_the_second_level_and_are_about_half_of_what_may() -> None:
    for level in HARD:
        faults = [
            fault
            for seed in range(20)
            for fault in dealt(plan_from({**REAL, "seed": seed, "level": level})).faults
        ]
        whom = [fault.strikes for fault in faults if fault.strikes is not Strikes.STRUCK]
        struck = [each for each in whom if each is not None]
        if level < 2:
            assert not struck
            continue
        assert 0.3 * len(whom) < len(struck) < 0.6 * len(whom)
        assert {*struck} == {Strikes.RECOVERED, Strikes.ELECTED}


def test_in_an_aftermath_the_next_fault_is_due_when_the_last_is_healed() -> None:
    kill = plan_from({**REAL, "nemesis": ("kill",), "level": 2})
    first, second, *_ = dealt(kill).faults
    healed_s = first.at_s + first.hold_s + 5  # Its broker has started.
    assert 0 <= second.at_s - healed_s < 1
    settled = plan_from({**REAL, "nemesis": ("kill",), "level": 1})
    first, second, *_ = dealt(settled).faults
    assert second.at_s >= lasting_s(first, settled)[1]


@given(st.floats(0, 1000), st.floats(0, LULL_EVERY_S - 1))
def test_a_lull_puts_off_what_is_due_in_it_and_nothing_else(at_s: float, lull_s: float) -> None:
    begins_s = after_lull(at_s, lull_s)
    assert begins_s in {at_s, (at_s // LULL_EVERY_S + 1) * LULL_EVERY_S}
    assert 0 <= begins_s - at_s <= lull_s + 1e-6
    assert begins_s % LULL_EVERY_S <= LULL_EVERY_S - lull_s
    assert after_lull(at_s, 0) == at_s


def test_where_a_majority_may_be_gone_no_fault_begins_in_a_lull() -> None:
    for level in HARD:
        schedule = dealt(plan_from({**REAL, "seed": 2, "level": level, "time_limit_s": 120}))
        assert bool(schedule.lull_s) == (not LEVELS[level].spares_majority)
        late = [fault for fault in schedule.faults if fault.at_s % LULL_EVERY_S > 14]
        assert bool(late) == (schedule.lull_s == 0)


def test_moments_are_shorter_than_a_session_and_others_longer() -> None:
    for where, least_s in ((REAL, 0.5), (VIRTUAL, 0.05)):
        for level in HARD:
            faults = [
                fault
                for seed in range(20)
                for fault in dealt(plan_from({**where, "seed": seed, "level": level})).faults
                if fault.lane < 2
            ]
            moments = [fault for fault in faults if fault.hold_s < MIN_HOLD_S]
            assert abs(len(moments) / len(faults) - LEVELS[level].moments) < 0.12, level
            assert min(fault.hold_s for fault in moments) >= least_s


@pytest.mark.parametrize("level", HARD)
def test_every_kind_is_in_a_lane(level: int) -> None:
    plan = plan_from({**VIRTUAL, "nemesis": (ALL,), "time_limit_s": 3000, "level": level})
    families = played_families(plan, abilities=built_for(SIMULATED))
    lanes = [kinds for kinds, _ in lanes_of(families, LEVELS[level])]
    found = {kind for lane in lanes for kinds in lane.values() for kind in kinds}
    assert found == {kind for kinds in families.values() for kind in kinds}
    assert all(kinds for lane in lanes for kinds in lane.values())


ONE_ASPECT = (("kill", "pause"), ("partition",), ("kill",), ("partition", "splits", "network"))


@pytest.mark.parametrize("families", [*ONE_ASPECT, ("outage", "partition"), ("wipe", "network")])
def test_nothing_is_done_twice_to_one_node(families: tuple[str, ...]) -> None:
    """Neither beside what takes or parts all nodes, which leaves nobody to be hit once more."""
    plan = plan_from({**REAL, "nemesis": families, "level": 3, "time_limit_s": 200})
    faults = dealt(plan).faults
    assert {fault.lane for fault in faults} == {0}
    assert not [fault for fault in faults if fault.strikes is Strikes.STRUCK]


@pytest.mark.parametrize("families", ONE_ASPECT)
def test_on_any_nodes_families_of_one_aspect_are_dealt_side_by_side(
    families: tuple[str, ...],
) -> None:
    plan = plan_from({**REAL, "nemesis": families, "level": 4})
    assert {fault.lane for fault in dealt(plan).faults} == {0, 1}
    gentle = plan_from({**REAL, "nemesis": ("clock", "topics"), "level": 6})
    assert {fault.lane for fault in dealt(gentle).faults} == {0}


def test_what_takes_records_waits_for_what_settles_beside_the_next_of_its_lane() -> None:
    values = {**VIRTUAL, "nemesis": (ALL,), "time_limit_s": 120.0, "nemesis_interval_s": 5.0}
    for seed in range(5):
        plan = plan_from({**values, "level": 4, "seed": seed})
        assert_alone(dealt(plan), plan)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"level": 7}, "less than or equal to 6"),
        ({"level": -1}, "greater than or equal to 0"),
        ({"level": 1, "faults": [{"kind": "kill"}]}, "faults written by hand"),
        (
            {"level": 1, "scenario": {"name": "leader-epoch-1"}, "workload": "script"},
            "in a scenario",
        ),
        ({"level": 1, "system": "attached:x.toml"}, "an attached cluster"),
    ],
)
def test_levels_that_there_are_not_are_refused(values: dict[str, object], why: str) -> None:
    with pytest.raises(PlanError, match=why):
        plan_from(values)


def history(*runs: tuple[int, Validity]) -> list[Climbed]:
    return [Climbed(level=level, valid=valid) for level, valid in runs]


@pytest.mark.parametrize(
    ("played", "level"),
    [
        ((), 0),
        (((0, VALID),), 1),
        (((0, VALID), (1, VALID)), 2),
        (((0, VALID), (1, INVALID)), 0),
        (((0, VALID), (1, UNKNOWN)), 0),
        (((0, VALID), (1, VALID), (2, INVALID)), 1),
        (((0, VALID), (1, VALID), (2, INVALID), (1, VALID)), None),
        (((0, VALID), (1, VALID), (2, INVALID), (1, INVALID)), None),
        (((0, INVALID),), None),
        (((0, UNKNOWN),), None),
        (((5, VALID), (6, VALID)), 6),
        (((5, VALID), (6, VALID), (6, INVALID)), None),
        (((3, INVALID),), None),
    ],
)
def test_the_way_goes_up_until_something_breaks_and_then_back_once(
    played: tuple[tuple[int, Validity], ...], level: int | None
) -> None:
    assert next_level(history(*played)) == level


@pytest.mark.parametrize(
    ("played", "level"),
    [
        (((0, UNKNOWN),), 1),
        (((0, VALID), (1, UNKNOWN)), 2),
        (((0, VALID), (1, UNKNOWN), (2, UNKNOWN)), 3),
        (((0, VALID), (1, UNKNOWN), (2, INVALID)), 0),
        (((5, VALID), (6, UNKNOWN)), 5),
        (((5, VALID), (6, UNKNOWN), (5, UNKNOWN)), None),
        (((6, UNKNOWN),), None),
    ],
)
def test_too_little_traffic_is_no_break_and_nothing_that_held(
    played: tuple[tuple[int, Validity], ...], level: int | None
) -> None:
    way = [Climbed(level=each, valid=valid, quiet=valid is UNKNOWN) for each, valid in played]
    assert next_level(way) == level


def test_the_way_may_begin_higher() -> None:
    assert next_level([], first=3) == 3


@given(st.lists(st.sampled_from(Validity), min_size=2 * len(LEVELS)), st.integers(0, TOP_LEVEL))
def test_every_way_ends_and_never_skips_a_level(verdicts: list[Validity], first: int) -> None:
    played: list[Climbed] = []
    for verdict in verdicts:
        level = next_level(played, first=first)
        if level is None:
            break
        assert 0 <= level <= TOP_LEVEL
        if played:
            assert level <= played[-1].level + 1
        played.append(Climbed(level=level, valid=verdict))
    assert next_level(played, first=first) is None
    assert len(played) <= TOP_LEVEL - first + 2
    assert all(each.valid is VALID for each in played[:-2])


def test_abilities_decide_at_a_level_too() -> None:
    plan = plan_from({**REAL, "level": 4})
    few = built_for("process") - {Ability.CUT}
    assert {fault.kind for fault in deal_schedule(plan, abilities=few).faults} == {"kill", "pause"}
