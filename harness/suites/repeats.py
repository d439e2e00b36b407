"""Decide which reruns a failed run needs, and explain why some reruns do not count.

`results.repeats` counts the reruns.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.suites.expansion import Entry, drawn
from harness.suites.journal import Planned
from harness.suites.night import OVER, Item, NightState, Phase
from harness.suites.suite import Repeat
from results.record.night import Why
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.terms import Validity
from results.repeats import Trial, counts

SEEDS = {Why.SAME_SEED: "the same seed", Why.FRESH_SEED: "new seeds"}


def owed(state: NightState, repeat: Repeat) -> list[Planned]:
    """Return the reruns that failed runs still need and that are not planned yet.

    For each signature of failures, only the first failed run is rerun. So a failure that appears in
    many entries is measured once. The failures of reruns are recorded, but not rerun.

    Args:
        state: The night's state.
        repeat: How many reruns the suite asks for.
    """
    held = Counter((each.planned.repeats, each.planned.why) for each in state.items.values())
    number = max(state.items, default=0)
    lines: list[Planned] = []
    for item in _measured(state.planned, repeat):
        for why, seed, copy in _wanted(item, repeat, state.night):
            if copy < held[item.run_id, why]:
                continue
            lines.append(
                Planned(
                    item=number + len(lines) + 1,
                    entry=item.entry,
                    seed=seed,
                    why=why,
                    repeats=item.run_id,
                    lasts_s=item.planned.lasts_s,
                    takes_s=item.planned.takes_s,
                    measured=item.planned.measured,
                )
            )
    return lines


def _measured(items: Iterable[Item], repeat: Repeat) -> Iterator[Item]:
    """Yield the first failed run of each signature."""
    seen: set[str] = set()
    failed = [each for each in items if failing(each, unknown=repeat.unknown)]
    for item in sorted(failed, key=lambda each: (each.judged_at, each.number)):
        key = item.judged.signature if item.judged else ""
        if key not in seen:
            seen.add(key)
            yield item


def plan_of(entry: Entry, planned: Planned, store: Path) -> Plan:
    """Return the plan of a planned run.

    A rerun keeps the settings that the swarm chose for the failed run. Otherwise a new seed would
    change these settings, and the rerun would measure something else.

    Args:
        entry: The suite's entry.
        planned: The planned run.
        store: The store with the failed run, if this is a rerun.

    Raises:
        SuiteError: The values make no valid plan.
    """
    plan = entry.plan(planned.seed)
    if not (planned.repeats and plan.swarm):
        return plan
    try:
        stored = plan_from(load_plan(RunPaths(store / planned.repeats).plan))
    except PlanError:  # The stored plan is missing.
        return plan
    return stored.model_copy(update={"seed": planned.seed})


def measured(state: NightState) -> set[str]:
    """Return the runs whose reruns are complete, so that their pages can show a recurrence rate."""
    repeats = [each for each in state.items.values() if each.planned.repeats]
    open_ = {each.planned.repeats for each in repeats if each.phase not in OVER}
    return {each.planned.repeats for each in repeats} - open_


def failing(item: Item, *, unknown: bool) -> bool:
    """Return whether a run failed."""
    failures = {Validity.INVALID, Validity.UNKNOWN} if unknown else {Validity.INVALID}
    return item.phase is Phase.JUDGED and item.outcome in failures


def _wanted(item: Item, repeat: Repeat, night: str) -> Iterator[tuple[Why, int, int]]:
    for copy in range(repeat.same_seed):
        yield Why.SAME_SEED, item.planned.seed, copy
    for copy in range(repeat.fresh_seeds):
        yield Why.FRESH_SEED, drawn(night, item.run_id, copy), copy


def trials(nights: Iterable[NightState]) -> list[Trial]:
    """Return the runs that count in recurrence rates. Runs that retention deleted do not count."""
    known = list(nights)
    gone = {run_id for night in known for run_id in night.dropped}
    items = [item for night in known for item in night.items.values()]
    return [_trial(each) for each in items if each.judged and each.run_id not in gone]


def _trial(item: Item) -> Trial:
    return Trial(
        run_id=item.run_id,
        why=item.planned.why,
        repeats=item.planned.repeats,
        verdict=item.judged.valid if item.judged else "",
        signature=item.judged.signature if item.judged else "",
    )


def uncounted(state: NightState, key: str) -> list[str]:
    """Return sentences that explain why some reruns of a failure do not count tonight.

    Args:
        state: The night's state.
        key: The failure's signature.
    """
    mine = [each for each in state.items.values() if each.judged and each.judged.signature == key]
    failed = {each.run_id for each in mine}
    repeats = [each for each in state.items.values() if each.planned.repeats in failed]
    if not repeats:
        return [_never(mine)] if mine else []
    said = []
    for why, seeds in SEEDS.items():
        those = [each for each in repeats if each.planned.why is why]
        reasons = Counter(reason for each in those if (reason := _missing(each, state, key)))
        said += [
            f"{count} of {len(those)} reruns with {seeds} {reason}"
            for reason, count in reasons.items()
        ]
    return said


def _never(items: Iterable[Item]) -> str:
    """Return why a failure got no rerun."""
    if all(each.repeated for each in items):
        return "the failure was not rerun: only a rerun of another failure had it"
    return "the failure was not rerun: the suite's [repeat] requests no rerun of it"


def _missing(item: Item, state: NightState, key: str) -> str:
    """Return the reason why a rerun does not count. It is empty if the rerun counts."""
    match item.phase:
        case Phase.JUDGED:
            return "" if counts(_trial(item), key) else "got no verdict"
        case Phase.UNPLAYED:
            return f"could not run: {item.sentence}"
        case Phase.LEFT_OUT:
            return f"did not run: {item.sentence}"
        case Phase.WAITING:
            return f"did not run: {state.stopped or 'the night has not ended'}"
        case Phase.UNDER_WAY | Phase.PLAYED:
            return "have not ended"
