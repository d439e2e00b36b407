"""What a hunt draws, and what follows from it: pure functions of its journals."""

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from harness.suites.hunting.arms import Effects, Pull, best, gains, sampled
from harness.suites.hunting.failures import failures, first_that_broke
from harness.suites.hunting.failures import owed as owed_by
from harness.suites.hunting.history import history
from harness.suites.hunting.hunter import Hunter, level_of, refuse_unplayable
from harness.suites.hunting.mutation import MOST_FAULTS, Mutation
from harness.suites.hunting.plans import plan_of
from harness.suites.hunting.telling import hunt_story, minutes_of
from harness.suites.journal import Planned, Played
from harness.suites.leading import opened
from harness.suites.night import NightState, Phase, folded
from harness.suites.nights import nights_of
from harness.suites.suite import SuiteError, parse_suite
from nemesis.levels import LEVELS
from nemesis.registry import KINDS
from results.record.night import Why
from results.record.plan import Plan, plan_from
from results.record.plan_parts import PlannedFault
from results.record.terms import Validity
from tests.suites.made_hunts import KILL, PLAN, Run, hunted, judged, part, run_of

VALID, INVALID, UNKNOWN = Validity.VALID, Validity.INVALID, Validity.UNKNOWN
KINDS_OF = {"kill": ("kill",), "pause": ("pause",), "stop": ("stop",)}
FAMILIES = {"kafka:3.6.1": KINDS_OF, "reference": KINDS_OF}
LOST = ("lost-write",)


def pulls(gained: float, count: int = 20) -> list[Pull]:
    """Return runs in which `a` gained so much, and `b` nothing."""
    one = [Pull(choices={"choice": ("a",)}, gain=gained), Pull(choices={"choice": ("b",)}, gain=0)]
    return one * count


def drawn(seen: list[Pull], times: int = 2000, *, starts: Effects | None = None) -> Counter[str]:
    rng = Random(1)
    return Counter(
        best("choice", ("a", "b"), sampled(seen, starts or {}, rng), rng)[0] for _ in range(times)
    )


def test_what_gained_is_drawn_most_and_nothing_is_given_up() -> None:
    counts = drawn(pulls(0.3, count=2))
    assert counts["a"] > 1500
    assert counts["b"] > 0


def test_without_runs_each_value_is_as_likely() -> None:
    assert 850 < drawn([])["a"] < 1150


def test_what_gained_long_ago_counts_little() -> None:
    late = [Pull(choices={"choice": ("b",)}, gain=0.8)] * 30
    old = pulls(0.6, count=10)
    assert drawn([*old, *late])["b"] > drawn([*late, *old])["b"]


def test_a_family_gets_no_credit_for_what_another_one_in_its_runs_reached() -> None:
    """`b` is always there when `a` gains, but without `a` it gains nothing."""
    both = Pull(choices={"choice": ("a", "b")}, gain=0.9)
    alone = Pull(choices={"choice": ("b",)}, gain=0.1)
    other = Pull(choices={"choice": ("c",)}, gain=0.1)
    counts = drawn([both, alone, other] * 6)
    assert counts["a"] > 1900


def test_a_value_without_runs_comes_often_and_one_that_is_doubted_seldom() -> None:
    met = [Pull(choices={"choice": (value,)}, gain=0.5) for value in "acdef"] * 4
    rng, values = Random(1), tuple("abcdef")
    first = Counter(best("choice", values, sampled(met, {}, rng), rng)[0] for _ in range(2000))
    assert first["b"] > 2 * first["a"] > 0
    counts = drawn(met, starts={("choice", "b"): -0.15})
    assert 2 * counts["b"] < counts["a"]
    assert counts["b"] > 100


def test_several_values_come_in_their_order_and_none_twice() -> None:
    values = ("kill", "pause", "stop")
    assert best("family", values, {}, Random(3), count=3) == values
    assert len(best("family", values, {}, Random(3), count=2)) == 2


def test_a_run_with_changed_faults_says_nothing_about_families() -> None:
    new, changed = history([part([Run(transitions=("a",)), Run(parent=run_of(1))])])
    assert changed.choices == {"faults": ("changed",)}
    assert new.choices["faults"] == ("new",)
    assert new.choices["family"]


def drawn_after(runs: list[Run], times: int = 60, **settings: object) -> list[Plan]:
    nights = (f"2026{at}T010000Z" for at in range(1000, 1000 + times))
    return [plan_drawn(part(runs, night=night), **settings) for night in nights]


def test_a_guided_hunt_draws_the_family_that_gained_and_a_blind_one_does_not_care() -> None:
    runs = [
        Run(plan={"nemesis": [family]}, transitions=(f"{at}",) if family == "pause" else ())
        for at in range(15)
        for family in ("kill", "pause")
    ]
    for guided in (True, False):
        plans = drawn_after(runs, guided=guided, most_families=1)
        counts = Counter(family for plan in plans for family in plan.nemesis)
        assert (counts["pause"] > 5 * counts["kill"]) is guided
        assert guided or counts["kill"] > 10


def test_at_the_start_few_faults_are_changed() -> None:
    plans = drawn_after([Run(transitions=("a",))], 100)
    assert 5 < sum(plan.faults is not None for plan in plans) < 37


def test_faults_are_changed_less_often_where_that_gains_nothing() -> None:
    def share(*, changed_gain: bool) -> int:
        runs = [Run(transitions=("a",))]
        for at in range(12):
            gains_here = bool(at % 2) == changed_gain
            parent = run_of(1) if at % 2 else ""
            runs.append(Run(transitions=(f"{at}",) if gains_here else (), parent=parent))
        states = [part(runs, night=f"202611{day}T010000Z") for day in range(10, 30)]
        return sum(bool(each.parent) for state in states if (each := hunter().draw(state)))

    assert share(changed_gain=False) < 5
    assert share(changed_gain=True) > 15


def test_a_gain_compares_a_run_with_those_before_it() -> None:
    assert gains([5, 5, 9, 0]) == [0.5, 0.5, 1, 0]


def test_a_drought_prefers_nothing() -> None:
    assert gains([0] * 5) == [0.5] * 5


faults_by_hand = st.builds(
    PlannedFault,
    at_s=st.floats(0, 50),
    kind=st.sampled_from(["kill", "pause", "stop"]),
    target=st.sampled_from(["leader", "one", "n2"]),
    hold_s=st.floats(0.5, 10),
)


@given(faults=st.lists(faults_by_hand, max_size=MOST_FAULTS).map(tuple), seed=st.integers(0, 10**6))
def test_a_changed_schedule_is_one_that_can_be_played(
    faults: tuple[PlannedFault, ...], seed: int
) -> None:
    plan = plan_from({**PLAN, "seed": 1})
    changed = Mutation(plan, ("kill", "pause", "stop"), Random(seed)).of(faults)
    assert len(changed) <= MOST_FAULTS
    assert bool(faults) <= bool(changed)
    assert list(changed) == sorted(changed, key=lambda each: (each.at_s, each.kind))
    for each in changed:
        assert 0 <= each.at_s <= each.at_s + each.hold_s <= plan.time_limit_s
        assert each.hold_s < plan.delivery_timeout_s
        assert each.kind in KINDS


def test_changes_are_small_and_of_all_sorts() -> None:
    plan = plan_from({**PLAN, "seed": 1})
    faults = tuple(KILL.model_copy(update={"at_s": float(at)}) for at in range(0, 50, 10))
    changed = [Mutation(plan, ("pause",), Random(seed)).of(faults) for seed in range(60)]
    assert {len(each) for each in changed} >= {4, 5, 6}
    assert any(fault.kind == "pause" for each in changed for fault in each)
    kept = [len({*each} & {*faults}) for each in changed]
    assert min(kept) >= 2


def test_the_level_rises_with_each_valid_run_and_falls_with_each_other() -> None:
    assert level_of([]) == 0
    assert level_of([VALID, VALID]) == 2
    assert level_of([VALID, VALID, INVALID]) == 1
    assert level_of([VALID, VALID, UNKNOWN, VALID]) == 2
    assert level_of([INVALID, VALID]) == 1


@given(st.lists(st.sampled_from([VALID, INVALID, UNKNOWN])))
def test_there_is_always_a_level(verdicts: list[Validity]) -> None:
    assert 0 <= level_of(verdicts) < len(LEVELS)


def test_a_run_is_new_by_what_no_earlier_one_reached() -> None:
    runs = history([
        part([
            Run(transitions=("a", "b"), successions=(("a", "b"),)),
            Run(transitions=("b", "c"), plan={"time_limit_s": 30}),
            Run(transitions=("a",), valid=INVALID),
        ])
    ])  # fmt: skip
    assert [run.new_transitions for run in runs] == [("a", "b"), ("c",), ()]
    assert [run.score for run in runs] == [7, 6, 0]
    assert runs[0].choices["family"] == ("kill",)


def test_what_an_earlier_part_reached_is_not_new() -> None:
    earlier = part([Run(transitions=("a",))], night="20261127T010000Z")
    runs = history([earlier, part([Run(transitions=("a", "b"))])])
    assert [run.new_transitions for run in runs] == [("a",), ("b",)]


def owed(states: list[NightState], **settings: object) -> list[Planned]:
    hunt = hunted(**settings).hunt
    assert hunt is not None
    return owed_by(states, hunt)


def hunter(**settings: object) -> Hunter:
    return Hunter(hunted(**settings), lambda: FAMILIES, [])


def plan_drawn(state: NightState, **settings: object) -> Plan:
    planned = hunter(**settings).draw(state)
    assert planned is not None
    return hunter(**settings).plan(planned)


def test_the_same_journal_draws_the_same_run() -> None:
    state = part([Run(transitions=("a",)), Run()])
    one, two = hunter().draw(state), hunter().draw(state)
    assert one is not None
    assert two is not None
    assert one.model_dump(exclude={"at"}) == two.model_dump(exclude={"at"})
    assert one.item == 3


def test_each_run_has_faults_of_the_hunt_and_settings_of_the_swarm() -> None:
    states = [part([Run()] * count) for count in range(1, 25)]
    plans = [plan_drawn(state, guided=False, most_families=2) for state in states]
    assert all({*plan.nemesis} <= {*FAMILIES["kafka:3.6.1"]} for plan in plans)
    assert {len(plan.nemesis) for plan in plans} == {1, 2}
    assert len({tuple(plan.swarmed) for plan in plans}) > 5
    assert len({plan.seed for plan in plans}) == len(plans)


def test_a_plan_in_the_journal_is_whole() -> None:
    planned = hunter().draw(part([Run()]))
    assert planned is not None
    again = hunter().plan(planned.model_copy(update={"seed": planned.seed + 1}))
    first = hunter().plan(planned)
    assert again.seed == first.seed + 1
    assert again.model_copy(update={"seed": first.seed}) == first


def test_guided_changes_schedules_that_reached_something_and_blind_none() -> None:
    states = [part([Run(transitions=("a",))] + [Run()] * count) for count in range(30)]
    parents = [planned.parent for state in states if (planned := hunter().draw(state))]
    assert 0 < sum(each == run_of(1) for each in parents) < 15
    assert {*parents} == {"", run_of(1)}
    blind = [planned.parent for state in states if (planned := hunter(guided=False).draw(state))]
    assert {*blind} == {""}


def test_half_of_changed_plans_keep_all_but_faults_and_seed() -> None:
    parent = Run(transitions=("a",), plan={"rate": 321, "swarmed": ["rate"], "swarm": True})
    plans = [plan_drawn(part([parent] + [Run()] * count)) for count in range(60)]
    changed = [plan for plan in plans if plan.faults is not None]
    kept = [plan for plan in changed if (plan.rate, plan.swarmed) == (321, ("rate",))]
    assert len(changed) / 4 < len(kept) < 3 * len(changed) / 4
    others = [plan for plan in changed if plan not in kept]
    assert {(plan.system, plan.workload) for plan in others} == {("kafka:3.6.1", "log")}
    assert len({plan.swarmed for plan in others}) > 2


def test_a_run_is_changed_less_often_the_more_it_was_changed_before() -> None:
    first, second = Run(transitions=("a",)), Run(transitions=("b",))
    parents = Counter[str]()
    for at in range(1000, 1200):
        night = f"2026{at}T010000Z"
        runs = [first, second]
        runs += [Run(parent=run_of(1, night), transitions=(child,)) for child in "xyz"]
        planned = hunter().draw(part(runs, night=night))
        assert planned is not None
        parents[planned.parent.rpartition("-")[-1]] += 1
    assert 0 < parents["1"] < parents["2"]


@pytest.mark.parametrize("guided", [True, False])
def test_changed_runs_count_for_the_level_as_dealt_ones_do(*, guided: bool) -> None:
    runs = [Run(), Run(plan={"workload": "txn"}), Run(plan={"faults": []})]
    states = [part([*runs, Run(plan={"system": "kafka:3.5.1"})], night=f"2026112{day}T010000Z")
              for day in range(10)]  # fmt: skip
    plans = [plan_drawn(state, escalate=True, guided=guided) for state in states]
    assert {plan.level for plan in plans if plan.faults is None} == {3}


def test_a_verdict_that_comes_late_is_of_its_time() -> None:
    late = Run(valid=INVALID, broken=LOST, transitions=("a",), late_s=1000)
    state = part([late, Run(valid=INVALID, broken=LOST, transitions=("a",))])
    assert [run.item.number for run in history([state])] == [2, 1]
    assert [run.new_transitions for run in history([state])] == [("a",), ()]
    (failure,) = failures([state])
    assert [each.number for each in failure.runs] == [2, 1]


def test_a_failure_whose_verdict_comes_late_is_owed_its_repeats() -> None:
    runs = [broken(late_s=1000), Run(valid=None), Run()]
    lines = owed([part(runs)], repeats=2, controls={})
    assert [(line.item, line.repeats) for line in lines] == [(4, run_of(1)), (5, run_of(1))]


LOSES = PlannedFault(
    at_s=10, kind=next(kind for kind in KINDS if KINDS[kind].when_whole), target="one", hold_s=5
)


def test_faults_that_take_records_are_never_written() -> None:
    plan = plan_from({**PLAN, "seed": 1})
    mutations = [Mutation(plan, [*KINDS], Random(seed)) for seed in range(60)]
    changed = [each.of((KILL, LOSES)) for each in mutations]
    assert all(changed)
    assert not any(KINDS[each.kind].when_whole for faults in changed for each in faults)


@pytest.mark.parametrize(
    "parent",
    [
        Run(transitions=("a",), faults=(LOSES,)),
        Run(transitions=("a",), plan={"system": "kafka:3.5.1"}),
        Run(transitions=("a",), plan={"workload": "txn"}),
        Run(transitions=("a",), plan={"client_kind": "java"}),
        Run(transitions=("a",), faults=(KILL.model_copy(update={"kind": "isolate"}),)),
    ],
)
def test_a_run_that_this_hunt_could_not_play_has_no_children(parent: Run) -> None:
    kinds = {**KINDS_OF, "loses": (LOSES.kind,)}
    made = Hunter(hunted(), lambda: {"kafka:3.6.1": kinds}, [part([parent], "20261127T010000Z")])
    drawn_runs = [made.draw(part([Run()] * count)) for count in range(12)]
    assert {planned.parent for planned in drawn_runs if planned} == {""}


def test_main_phases_bound_a_hunt() -> None:
    assert hunter(main="2m").draw(part([Run()])) is not None
    assert hunter(main="2m").draw(part([Run(), Run()])) is None
    repeated = Run(why=Why.SAME_SEED, repeats=run_of(1))
    assert hunter(main="2m").draw(part([Run(), repeated])) is not None


def test_values_that_never_suit_each_other_are_one_sentence() -> None:
    with pytest.raises(SuiteError, match="the hunt made cannot find valid settings for a run: "):
        hunter(workloads=["txn"], systems=["reference"]).draw(part([]))


def broken(**more: object) -> Run:
    return Run(valid=INVALID, broken=LOST, **more)  # type: ignore[arg-type]  # by name


CONTROLS = {"kafka:3.6.1": "kafka:3.7.1"}


def test_the_first_run_of_a_failure_is_owed_repeats_and_controls() -> None:
    state = part([Run(), broken(seed=7), broken(seed=8)])
    lines = owed([state], repeats=3, controls=CONTROLS)
    assert [line.item for line in lines] == [4, 5, 6, 7, 8, 9]
    assert {line.repeats for line in lines} == {run_of(2)}
    whys = [Why.SAME_SEED, Why.CONTROL, Why.FRESH_SEED, Why.CONTROL, Why.FRESH_SEED, Why.CONTROL]
    assert [line.why for line in lines] == whys
    assert [line.seed for line in lines[:2]] == [7, 7]
    assert lines[2].seed == lines[3].seed not in {7, lines[4].seed}
    assert [line.plan["system"] for line in lines[:2]] == ["kafka:3.6.1", "kafka:3.7.1"]
    first, control = (plan_of(line) for line in lines[:2])
    assert control.model_copy(update={"system": first.system}) == first


@pytest.mark.parametrize("written", range(7))
def test_what_a_crash_kept_from_the_journal_is_owed_still(written: int) -> None:
    state = part([broken()])
    lines = owed([state], repeats=3, controls=CONTROLS)
    state = folded(lines[:written], state)
    rest = owed([state], repeats=3, controls=CONTROLS)
    both = Counter((line.why, line.seed) for line in [*lines[:written], *rest])
    assert both == Counter((line.why, line.seed) for line in lines)


def test_a_repeat_without_a_verdict_is_owed_anew_and_not_for_ever() -> None:
    runs = [broken()]
    for _ in range(20):
        lines = owed([part(runs)], repeats=2, controls={})
        if not lines:
            break
        runs += [
            Run(valid=UNKNOWN, why=line.why, repeats=line.repeats, seed=line.seed) for line in lines
        ]
    assert len(runs) == 1 + 4, "twice as many as asked for"
    assert len({run.seed for run in runs[1:]}) == 4


def test_a_control_that_comes_later_is_owed_all_its_runs() -> None:
    state = part([broken()])
    state = folded(owed([state], repeats=3, controls={}), state)
    lines = owed([state], repeats=3, controls=CONTROLS)
    assert [line.why for line in lines] == [Why.CONTROL] * 3
    assert {line.seed for line in lines} == {
        each.planned.seed for each in state.items.values() if each.repeated
    }


def test_another_control_is_owed_its_own_runs() -> None:
    state = part([broken()])
    state = folded(owed([state], repeats=2, controls=CONTROLS), state)
    lines = owed([state], repeats=2, controls={"kafka:3.6.1": "kafka:3.8.0"})
    assert [line.plan["system"] for line in lines] == ["kafka:3.8.0"] * 2
    (failure,) = failures([state])
    assert len(failure.controls_on("kafka:3.7.1")) == 2
    assert failure.controls_on("kafka:3.8.0") == []


def test_what_fails_otherwise_or_on_another_system_is_another_failure() -> None:
    other = Run(valid=INVALID, broken=("duplicate",))
    elsewhere = broken(plan={"system": "kafka:3.5.1"})
    found = failures([part([broken(), other, elsewhere, broken(), Run(valid=UNKNOWN)])])
    assert [(each.system, each.broken, len(each.runs)) for each in found] == [
        ("kafka:3.6.1", LOST, 2), ("kafka:3.6.1", ("duplicate",), 1), ("kafka:3.5.1", LOST, 1),
    ]  # fmt: skip
    assert [each.file_name for each in found] == [
        run_of(number).replace("/", "-") for number in (1, 2, 3)
    ]


def test_rates_count_verdicts_and_one_promise_of_several() -> None:
    first = run_of(1)

    def again(why: Why, **more: object) -> Run:
        return Run(why=why, repeats=first, **more)  # type: ignore[arg-type]  # by name

    (found,) = failures([
        part([
            Run(valid=INVALID, broken=("duplicate", "lost-write")),
            again(Why.SAME_SEED, valid=INVALID, broken=LOST),
            again(Why.FRESH_SEED, valid=VALID),
            again(Why.FRESH_SEED, valid=UNKNOWN),
            again(Why.FRESH_SEED, valid=INVALID, broken=("log-divergence",)),
            again(Why.CONTROL, valid=VALID),
            again(Why.CONTROL, valid=None),
        ])
    ])  # fmt: skip
    assert (found.recurs.times, found.recurs.of) == (1, 3)
    on_control = found.on_control("kafka:3.6.1")
    assert (on_control.times, on_control.of) == (0, 1)


def test_a_second_promise_is_a_failure_of_its_own() -> None:
    both = Run(valid=INVALID, broken=("lost-write", "phantom"))
    state = part([broken(), both, broken()])
    lost, phantom = failures([state])
    assert [each.number for each in lost.runs] == [1, 2, 3]
    assert (phantom.broken, [each.number for each in phantom.runs]) == (("phantom",), [2])
    state = folded(owed([state], repeats=2), state)
    assert [len(each.repeats) for each in failures([state])] == [2, 2]
    assert {each.planned.repeats for each in failures([state])[0].repeats} == {run_of(1)}


def test_a_repeat_that_broke_another_promise_says_so() -> None:
    again = Run(valid=INVALID, broken=("phantom",), why=Why.FRESH_SEED, repeats=run_of(1))
    (failure,) = failures([part([broken(), again])])
    assert (failure.recurs.times, failure.recurs.of) == (0, 1)
    assert failure.others_of(failure.repeats) == {"phantom": 1}


def test_a_repeat_of_a_part_that_died_is_owed_anew() -> None:
    dead = part([broken(), Run(valid=None, why=Why.SAME_SEED, repeats=run_of(1))])
    assert len(owed([dead], repeats=1)) == 0, "it goes on"
    lines = owed([dead, part([], "20261129T010000Z")], repeats=1)
    assert [(line.why, line.repeats) for line in lines] == [(Why.SAME_SEED, run_of(1))]


def test_a_failure_of_a_system_that_the_hunt_has_not_is_owed_nothing() -> None:
    assert owed([part([broken(plan={"system": "kafka:3.5.1"})])], repeats=2) == []


@pytest.mark.parametrize(("valid", "counted"), [(VALID, 0), (INVALID, 1)])
def test_a_repeat_that_was_interrupted_counts_only_if_it_broke_something(
    valid: Validity, counted: int
) -> None:
    state = part([broken(), Run(valid=None, why=Why.SAME_SEED, repeats=run_of(1))])
    again = Run(valid=valid, broken=LOST if valid is INVALID else ())
    started, played, *verdict = judged(2, again, run_of(2))
    assert isinstance(played, Played)
    cut = played.model_copy(update={"sentence": "it was interrupted"})
    (failure,) = failures([folded([started, cut, *verdict], state)])
    assert failure.recurs.of == counted
    assert len(owed([folded([started, cut, *verdict], state)], repeats=1)) == 1 - counted


def test_what_a_control_lost_is_in_its_line() -> None:
    name, system = "log.segment.bytes", "kafka:3.9.1"
    swarmed: dict[str, object] = {
        "swarm": True, "swarmed": [f"broker.{name}", "contents.batch_bytes"],
        "broker": {name: "16384"}, "contents": {"batch_bytes": 8000}, "rate": 50,
    }  # fmt: skip
    state = part([broken(plan={"system": system, **swarmed})])
    settings: dict[str, object] = {"systems": [system], "controls": {system: "kafka:4.3.1"}}
    lines = owed([state], repeats=1, **settings)
    (control,) = (line for line in lines if line.why is Why.CONTROL)
    assert name not in control.plan.get("broker", {})
    (lost,) = control.otherwise
    assert lost.startswith(f"{name} = 16384, ")
    (find,) = hunt_story(hunted(**settings), [folded(lines, state)], bundles={}).finds
    assert find.controls == (f"kafka:4.3.1: not repeated; {lost}",)


def test_a_control_in_another_mode_is_refused_with_what_to_type() -> None:
    controls = {"reference": "reference:controllers"}
    suite = hunted(systems=["reference"], hosts="simulated", controls=controls)
    with pytest.raises(SuiteError, match="has the mode combined; type reference:combined"):
        refuse_unplayable(suite)


def test_only_the_named_promise_ends_a_hunt() -> None:
    state = part([broken(), Run(valid=INVALID, broken=("phantom",)), broken()])
    assert first_that_broke([state], "phantom") == state.items[2]
    assert first_that_broke([state]) == state.items[1]
    assert hunter(until_failure="double-vote").draw(state) is not None
    for promise in ("phantom", True):
        assert hunter(until_failure=promise).draw(state) is None


def test_a_run_without_a_main_phase_takes_nothing_of_their_time() -> None:
    state = part([Run(valid=None)])
    started, played, *verdict = judged(1, Run(), run_of(1))
    assert isinstance(played, Played)
    ended = folded([started, played.model_copy(update={"main_s": 0.0}), *verdict], state)
    assert minutes_of(history([ended])) == {run_of(1): 0}
    assert hunter(main="1m").draw(ended) is not None
    assert hunter(main="1m").draw(folded([started, played, *verdict], state)) is None


def test_a_plan_of_another_version_ends_no_hunt() -> None:
    runs = [Run(), broken(plan={"nonsense": 1, "client_kind": "java"})]
    state = part(runs)
    assert hunter(main="1h").draw(state) is not None
    (find,) = hunt_story(hunted(), [state], bundles={}).finds
    assert (find.workload, find.client, find.faults) == ("log", "java", "kill")


def test_what_a_repeat_finds_is_owed_nothing() -> None:
    repeat = Run(valid=INVALID, broken=("duplicate",), why=Why.SAME_SEED, repeats=run_of(1))
    state = part([broken(), repeat])
    assert {line.repeats for line in owed([state], repeats=2, controls={})} == {run_of(1)}
    assert state.items[2].phase is Phase.JUDGED


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"workloads": ["nonsense"]}, "hunt.workloads cannot be"),
        ({"families": ["nonsense"]}, "the fault family 'nonsense' does not exist"),
        ({"controls": {"kafka:1.0.0": "kafka:1.1.0"}}, "kafka:1.0.0 is not one of the systems"),
        (
            {"controls": {"kafka:4.3.1": "kafka:4.3.1"}},
            "hunt.controls: kafka:4.3.1 cannot be its own control",
        ),
        ({"main": "soon"}, "write a time such as 30m, 8h or 1h30m"),
        ({"systms": []}, "there is no key 'hunt.systms'; did you mean 'hunt.systems'?"),
        ({"systems": []}, "hunt.systems cannot be"),
    ],
)
def test_what_is_wrong_with_a_hunt_is_one_sentence(
    settings: dict[str, object], why: str, tmp_path: Path
) -> None:
    text = tomli_w.dumps({"name": "made", "hunt": settings})
    with pytest.raises(SuiteError, match=re.escape(why)) as refused:
        parse_suite(text, tmp_path / "hunt.toml")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"systems": ["kafka:4.3.1"]}, "only the reference cluster can be simulated"),
        ({"workloads": ["txn"]}, "the hunt made cannot find valid settings for a run: "),
        ({"controls": {"reference": "nonsense"}}, "the control of reference: "),
    ],
)
def test_a_hunt_that_can_play_nothing_begins_no_part(
    settings: dict[str, object], why: str, tmp_path: Path
) -> None:
    suite = hunted(**{"systems": ["reference"], "hosts": "simulated", **settings})
    with pytest.raises(SuiteError, match=why), opened(tmp_path, tmp_path / "store", changed=suite):
        pass
    assert nights_of(tmp_path / "store", "made") == []


def test_a_hunt_has_no_entries() -> None:
    text = tomli_w.dumps({"name": "made", "hunt": {}, "axes": {}})
    with pytest.raises(SuiteError, match="a hunt chooses its runs at random; remove axes"):
        parse_suite(text, Path("hunt.toml"))
