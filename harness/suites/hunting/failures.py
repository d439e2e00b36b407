"""The failures of a hunt: how often each recurs, and whether the control system has it, too.

A promise is a guarantee of Kafka that a checker tests. Two runs have the same failure if they have
the same system and both broke the same promise. The faults of the two runs may differ, because a
hunt chooses new faults for each run. If a run also broke a new promise, the run has another
failure, too. The first run with a failure is rerun: with its own seed, and with new seeds. The
control system plays the same plans. The failures of reruns are counted, but not rerun.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path

from harness.another_system import moved
from harness.suites.expansion import drawn
from harness.suites.hunting.plans import plan_of, values_of
from harness.suites.journal import Planned
from harness.suites.night import OVER, Item, NightState, Phase
from harness.suites.suite import Hunt
from results.export.bundle import SUFFIX, bundle_name
from results.record.night import Why
from results.record.paths import RunPaths
from results.record.plan import PlanError
from results.record.terms import Validity
from results.repeats import Rate

FAILURES = "failures"
"""The folder with the failures' files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure of one system.

    Attributes:
        system: The system.
        broken: The names of the anomalies that stand for the broken promises.
        runs: The hunt's own runs with this failure, the first one first.
        repeats: Reruns of the first run's plan, with its seed and with new seeds.
        controls: Reruns of that plan on control systems.
    """

    system: str
    broken: tuple[str, ...]
    runs: tuple[Item, ...]
    repeats: tuple[Item, ...] = ()
    controls: tuple[Item, ...] = ()

    @property
    def file_name(self) -> str:
        """The failure's file name without a suffix. The bundle of the first run has this name."""
        return bundle_name(RunPaths(Path(self.runs[0].run_id))).removesuffix(SUFFIX)

    @property
    def recurs(self) -> Rate:
        """How many reruns with a verdict broke one of the failure's promises again."""
        return self._rate(self.repeats)

    def on_control(self, system: str) -> Rate:
        """Return the number of runs on a control system that broke a promise of the failure."""
        return self._rate(self.controls_on(system))

    @property
    def control_systems(self) -> list[str]:
        """The control systems of this failure's reruns, the first one first."""
        return [*dict.fromkeys(str(each.planned.plan.get("system")) for each in self.controls)]

    def controls_on(self, system: str) -> list[Item]:
        """Return the reruns on one control system, because a hunt may have several."""
        return [each for each in self.controls if each.planned.plan.get("system") == system]

    def _rate(self, items: Iterable[Item]) -> Rate:
        judged = [each for each in items if each.reached and is_conclusive(each)]
        return Rate(times=sum(self.is_had_by(each) for each in judged), of=len(judged))

    def is_had_by(self, item: Item) -> bool:
        """Return whether a run has this failure, i.e. broke one of the failure's promises."""
        return not {*_broken(item)}.isdisjoint(self.broken)

    def others_of(self, items: Iterable[Item]) -> dict[str, int]:
        """Return the other promises that some runs broke, with the number of runs for each."""
        found = Counter(name for each in items for name in {*_broken(each)} - {*self.broken})
        return dict(sorted(found.items()))


def failures(states: Sequence[NightState]) -> list[Failure]:
    """Return the failures in all parts of a hunt, in the order in which they first appeared."""
    items = [item for state in states for item in state.items.values()]
    alike: list[tuple[str, set[str], list[Item]]] = []
    opened: set[str] = set()
    for item in sorted(items, key=lambda each: (each.judged_at, each.number)):
        if not _fails(item):
            continue
        assert item.reached is not None
        system, broken = str(item.planned.plan.get("system", "")), {*item.reached.broken}
        for known, promises, runs in alike:
            if known == system and promises & broken:
                runs.append(item)
                broken -= promises
        if broken:
            alike.append((system, broken, [item]))
            opened.add(item.run_id)
    repeated: dict[str, list[Item]] = {}
    for item in items:
        repeated.setdefault(item.planned.repeats, []).append(item)
    found = []
    for system, broken, runs in alike:
        # The reruns of a run count only for the failure that it opened.
        others = opened - {runs[0].run_id}
        again = [item for run in runs if run.run_id not in others
                 for item in repeated.get(run.run_id, ())]  # fmt: skip
        found.append(_failure(system, tuple(sorted(broken)), runs, again))
    return found


def _failure(
    system: str,
    broken: tuple[str, ...],
    runs: Sequence[Item],
    again: Sequence[Item],
) -> Failure:
    return Failure(
        system=system,
        broken=broken,
        runs=tuple(runs),
        repeats=tuple(each for each in again if each.planned.why is not Why.CONTROL),
        controls=tuple(each for each in again if each.planned.why is Why.CONTROL),
    )


def first_that_broke(states: Sequence[NightState], promise: str = "") -> Item | None:
    """Return the first run of the hunt (no rerun) that broke a promise; None if no run did.

    Args:
        states: The hunt's parts.
        promise: The anomaly's name; an empty string means any anomaly.
    """
    failed = [item for failure in failures(states) for item in failure.runs]
    mine = [each for each in failed if not promise or promise in _broken(each)]
    return min(mine, key=lambda each: (each.judged_at, each.number), default=None)


def _broken(item: Item) -> tuple[str, ...]:
    return item.reached.broken if item.reached else ()


def _fails(item: Item) -> bool:
    return (
        not item.repeated
        and item.outcome is Validity.INVALID
        and item.reached is not None
        and bool(item.reached.broken)
    )


def owed(states: Sequence[NightState], hunt: Hunt) -> list[Planned]:
    """Return the reruns that failures still need and that are not planned yet.

    If a rerun ends without a verdict, another rerun with a new seed replaces it. A failure gets at
    most twice as many reruns as the hunt asks for. If the hunt no longer has a system, the failures
    of that system get no reruns.

    Args:
        states: The hunt's parts; the last one is in progress.
        hunt: The systems, their controls, and the number of reruns for each.
    """
    number, lines = max(states[-1].items, default=0), list[Planned]()
    for failure in failures([*map(_given_up, states[:-1]), states[-1]]):
        if failure.system not in hunt.systems:
            continue
        again = _left(failure, failure.repeats, hunt.repeats)
        control = hunt.controls.get(failure.system)
        moved = () if control is None else _left_on(control, failure, hunt.repeats)
        for planned in chain.from_iterable(zip_longest(again, moved)):
            if planned is not None:
                lines.append(planned.model_copy(update={"item": number + len(lines) + 1}))
    return lines


def _given_up(part: NightState) -> NightState:
    """Return an ended part of a hunt. Its unfinished runs are marked as left out."""
    items = {
        number: each if each.phase in OVER else replace(each, phase=Phase.LEFT_OUT)
        for number, each in part.items.items()
    }
    return replace(part, items=items)


def _left(failure: Failure, played: Sequence[Item], repeats: int) -> Iterator[Planned]:
    """Yield the reruns that a failure still needs."""
    first, counted = failure.runs[0], 0
    for copy in range(2 * repeats):
        if counted == repeats:
            return
        seed = first.planned.seed if copy == 0 else drawn(first.run_id, copy)
        mine = [each for each in played if each.planned.seed == seed]
        if any(_counts(each) for each in mine):
            counted += 1
        elif all(each.phase is Phase.LEFT_OUT for each in mine):  # None, or all left out.
            counted += 1
            yield first.planned.model_copy(
                update={
                    "seed": seed,
                    "why": Why.SAME_SEED if copy == 0 else Why.FRESH_SEED,
                    "repeats": first.run_id,
                    "parent": "",
                }
            )


def _left_on(control: str, failure: Failure, repeats: int) -> Iterator[Planned]:
    played = failure.controls_on(control)
    yield from (_on_control(each, control) for each in _left(failure, played, repeats))


def _counts(item: Item) -> bool:
    """Return whether a rerun has a conclusive verdict, or may still get one."""
    return item.phase not in OVER or is_conclusive(item)


def is_conclusive(item: Item) -> bool:
    """Return whether a run is conclusive: it shows that the failure occurred, or that it did not.

    A run that was cut off is conclusive only if it shows the failure.
    """
    if item.outcome is Validity.VALID:
        return not item.sentence
    return item.outcome is Validity.INVALID


def _on_control(planned: Planned, system: str) -> Planned:
    """Return a rerun on the control system, without the settings that this system does not have."""
    try:
        there = moved(plan_of(planned), system, run_id=planned.repeats)
    except PlanError:  # The error comes when the run is played.
        values, otherwise = {**planned.plan, "system": system}, tuple[str, ...]()
    else:
        values, otherwise = values_of(there.plan), there.notes
    return planned.model_copy(update={"why": Why.CONTROL, "plan": values, "otherwise": otherwise})
