"""What a hunt's journals add up to, for its table and its page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate

from harness.suites.hunting.failures import FAILURES, Failure, failures
from harness.suites.hunting.history import Drawn, choices_of, history, pulls_of
from harness.suites.hunting.plans import plan_of
from harness.suites.night import Item, NightState
from harness.suites.suite import Suite
from results.hunt_page import Find, HuntStory, Value
from results.record.terms import Validity
from results.record.transitions import TRANSITIONS

MINUTE_S = 60


def hunt_story(
    suite: Suite, states: Sequence[NightState], *, bundles: Mapping[str, str]
) -> HuntStory:
    """Return what a hunt's parts add up to.

    Args:
        suite: With `[hunt]`.
        states: Its parts, the oldest first.
        bundles: Files of failures' first runs, or why there is none, by run id.
    """
    assert suite.hunt is not None
    runs = history(states)
    minutes = minutes_of(runs)
    found = [
        _find(each, suite.hunt.controls, minutes, bundles.get(each.runs[0].run_id, ""))
        for each in failures(states)
    ]
    first = _first(runs, minutes)
    drawn = [each for state in states for each in state.planned]
    return HuntStory(
        name=suite.name,
        parts=len(states),
        guided=suite.hunt.guided,
        hours=max(minutes.values(), default=0.0) / MINUTE_S,
        outcomes=_outcomes(drawn),
        unknown=_unknown(drawn),
        finds=found,
        growth=growth_of(runs, minutes),
        first=sorted(first.items(), key=lambda each: (each[1], each[0])),
        never=sorted(TRANSITIONS.keys() - first.keys()),
        values=_values(runs),
    )


def minutes_of(runs: Sequence[Drawn]) -> dict[str, float]:
    """Return the minutes of main phases up to the end of each run, by its id."""
    ends_s = accumulate(run.plan.time_limit_s for run in runs)
    return {run.item.run_id: end_s / MINUTE_S for run, end_s in zip(runs, ends_s, strict=True)}


def _find(
    failure: Failure, controls: Mapping[str, str], minutes: Mapping[str, float], bundle: str
) -> Find:
    first = failure.runs[0]
    plan, control = plan_of(first.planned), controls.get(failure.system, "")
    choices = choices_of(plan)
    return Find(
        system=failure.system,
        sentence=first.judged.sentence if first.judged else "",
        broken=failure.broken,
        workload=plan.workload,
        client=", ".join(choices["client"]),
        faults=", ".join(choices["family"]),
        runs=len(failure.runs),
        first=first.run_id,
        minutes=minutes.get(first.run_id, 0.0),
        recurs=failure.recurs.words,
        control=control,
        on_control=failure.on_control(control).words,
        command=f"logquake run {FAILURES}/{failure.file_name}.toml --seed {first.planned.seed}",
        bundle=bundle,
    )


def _outcomes(drawn: Sequence[Item]) -> dict[str, int]:
    counts = Counter(each.outcome for each in drawn if each.outcome)
    return {str(each.value): counts[each] for each in Validity}


def _unknown(drawn: Sequence[Item]) -> list[tuple[str, int]]:
    reasons = Counter(
        each.judged.sentence if each.judged else each.sentence
        for each in drawn
        if each.outcome is Validity.UNKNOWN
    )
    return reasons.most_common()


def growth_of(runs: Sequence[Drawn], minutes: Mapping[str, float]) -> list[tuple[float, int, int]]:
    """Return after each run: minutes of main phases, transitions and pairs reached so far."""
    found, transitions, successions = [], 0, 0
    for run in runs:
        transitions += len(run.new_transitions)
        successions += len(run.new_successions)
        found.append((minutes[run.item.run_id], transitions, successions))
    return found


def _first(runs: Sequence[Drawn], minutes: Mapping[str, float]) -> dict[str, float]:
    return {name: minutes[run.item.run_id] for run in runs for name in run.new_transitions}


def _values(runs: Sequence[Drawn]) -> list[Value]:
    gained: dict[tuple[str, str], list[float]] = {}
    for pull in pulls_of(runs):
        for choice, values in pull.choices.items():
            for value in values:
                gained.setdefault((choice, value), []).append(pull.gain)
    return [
        Value(choice=choice, value=value, runs=len(each), gain=sum(each) / len(each))
        for (choice, value), each in sorted(gained.items())
    ]
