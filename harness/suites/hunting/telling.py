"""Compute a hunt's table and page from its journals."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate

from harness.suites.hunting.failures import FAILURES, Failure, failures
from harness.suites.hunting.history import (
    CHANGED,
    NEW,
    ORIGIN,
    Drawn,
    choices_told,
    history,
    main_s_of,
    pulls_of,
    readable,
)
from harness.suites.night import Item, NightState
from harness.suites.suite import Suite
from results.hunt_page import Bundle, Find, HuntStory, Value
from results.record.terms import Validity
from results.record.transitions import TRANSITIONS

MINUTE_S, HOUR_MIN = 60, 60


def hunt_story(
    suite: Suite, states: Sequence[NightState], *, bundles: Mapping[str, Bundle]
) -> HuntStory:
    """Return the content of a hunt's table and page.

    Args:
        suite: A suite with `[hunt]`.
        states: The hunt's parts, the oldest first.
        bundles: The bundle of the first run of each failure, by the id of that run.
    """
    assert suite.hunt is not None
    runs = history(states)
    minutes = minutes_of(runs)
    found = [
        _find(each, suite.hunt.controls, minutes, bundles.get(each.runs[0].run_id, Bundle()))
        for each in failures(states)
    ]
    first = _first(runs, minutes)
    drawn = [each for state in states for each in state.planned]
    return HuntStory(
        name=suite.name,
        parts=len(states),
        way=" and ".join(sorted({_way(each) for each in states})),
        hours=max(minutes.values(), default=0.0) / HOUR_MIN,
        outcomes=_outcomes(drawn),
        unknown=_unknown(drawn),
        finds=found,
        clean=_clean(runs, {each.system for each in found}),
        growth=growth_of(runs, minutes),
        first=sorted(first.items(), key=lambda each: (each[1], each[0])),
        never=sorted(TRANSITIONS.keys() - first.keys()),
        values=_values(runs),
    )


def minutes_of(runs: Sequence[Drawn]) -> dict[str, float]:
    """Return, by run id, how many minutes of main phases there were up to the run's end."""
    ends_s = accumulate(main_s_of(run.item) for run in runs)
    return {run.item.run_id: end_s / MINUTE_S for run, end_s in zip(runs, ends_s, strict=True)}


def _way(part: NightState) -> str:
    """Return `guided` or `blind`. If an old part does not say it, changed faults mean `guided`."""
    changed = any(each.planned.parent for each in part.planned)
    guided = changed if part.guided is None else part.guided
    return "guided" if guided else "blind"


def _clean(runs: Sequence[Drawn], broken: Collection[str]) -> list[tuple[str, float, int]]:
    """Return the systems without a failure: the minutes of main phases and the runs of each."""
    counts = Counter(run.system for run in runs)
    times_s: dict[str, float] = {}
    for run in runs:
        times_s[run.system] = times_s.get(run.system, 0.0) + main_s_of(run.item)
    return [
        (system, times_s[system] / MINUTE_S, count)
        for system, count in sorted(counts.items())
        if system not in broken
    ]


def _find(
    failure: Failure, controls: Mapping[str, str], minutes: Mapping[str, float], bundle: Bundle
) -> Find:
    first, choices = failure.runs[0], choices_told(failure.runs[0].planned)
    named = controls.get(failure.system)
    systems = failure.control_systems if named is None else [named]
    command = f"logquake run {FAILURES}/{failure.file_name}.toml --seed {first.planned.seed}"
    played = [*failure.repeats, *(run for each in systems for run in failure.controls_on(each))]
    return Find(
        system=failure.system,
        sentence=first.judged.sentence if first.judged else "",
        broken=failure.broken,
        date=f"{datetime.fromtimestamp(first.started_at, UTC):%Y-%m-%d}",
        workload=", ".join(choices["workload"]),
        client=", ".join(choices["client"]),
        faults=", ".join(choices["family"]),
        runs=tuple(each.run_id for each in failure.runs),
        minutes=minutes.get(first.run_id, 0.0),
        recurs=failure.recurs.words + _others(failure, failure.repeats),
        controls=tuple(_control(failure, each) for each in systems),
        others=tuple(each.run_id for each in played if failure.others_of([each])),
        command=command,
        control_commands=tuple(f"{command} --system {each}" for each in systems),
        bundle=bundle,
    )


def _control(failure: Failure, system: str) -> str:
    """Return a sentence on a control system's runs: how many had the failure, and what differed."""
    items = failure.controls_on(system)
    otherwise = dict.fromkeys(note for each in items for note in each.planned.otherwise)
    words = f"{system}: {failure.on_control(system).words}{_others(failure, items)}"
    return "; ".join((words, *otherwise))


def _others(failure: Failure, items: Sequence[Item]) -> str:
    found = failure.others_of(items)
    return "".join(f", {count} broke {promise}" for promise, count in found.items())


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
    """Return sums up to each run: of minutes in main phases, of transitions, and of pairs."""
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
    for pull in pulls_of(readable(runs)):
        for arm in pull.arms:
            gained.setdefault(arm, []).append(pull.gain)
    if (ORIGIN, CHANGED) not in gained:
        gained.pop((ORIGIN, NEW), None)  # There was no choice.
    return [
        Value(choice=choice, value=value, runs=len(each), gain=sum(each) / len(each))
        for (choice, value), each in sorted(gained.items())
    ]
