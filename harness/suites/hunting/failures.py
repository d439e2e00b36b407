"""The failures of a hunt: how often each recurs, and whether the control system has it, too.

Two runs failed alike if they are of one system and broke a promise in common, whatever faults they
had: a hunt draws other faults for each run. What else one of them broke is another failure. The
first run of a failure is repeated, with its own seed and with new ones. The same plans are played
on the control system. What a repeat finds is counted, and not repeated in its turn.
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
"""The folder of their files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What one system broke.

    Attributes:
        system: Which one.
        broken: The promises.
        runs: Drawn runs that broke them, the first one first.
        repeats: Runs of the first one's plan, with its seed and new ones.
        controls: The same on control systems.
    """

    system: str
    broken: tuple[str, ...]
    runs: tuple[Item, ...]
    repeats: tuple[Item, ...] = ()
    controls: tuple[Item, ...] = ()

    @property
    def file_name(self) -> str:
        """How its files are called, without their endings: as its first run's bundle."""
        return bundle_name(RunPaths(Path(self.runs[0].run_id))).removesuffix(SUFFIX)

    @property
    def recurs(self) -> Rate:
        """How many of the repeats with a verdict broke one of the promises again."""
        return self._rate(self.repeats)

    def on_control(self, system: str) -> Rate:
        """Return the same of a control system's runs."""
        return self._rate(self.controls_on(system))

    @property
    def control_systems(self) -> list[str]:
        """The control systems of its runs, the first one first."""
        return [*dict.fromkeys(str(each.planned.plan.get("system")) for each in self.controls)]

    def controls_on(self, system: str) -> list[Item]:
        """Return the runs on a control system: a later part may have another one."""
        return [each for each in self.controls if each.planned.plan.get("system") == system]

    def _rate(self, items: Iterable[Item]) -> Rate:
        judged = [each for each in items if each.reached and is_conclusive(each)]
        return Rate(times=sum(self.is_had_by(each) for each in judged), of=len(judged))

    def is_had_by(self, item: Item) -> bool:
        """Tell whether a run broke one of the promises."""
        return not {*_broken(item)}.isdisjoint(self.broken)

    def others_of(self, items: Iterable[Item]) -> dict[str, int]:
        """Return the promises that are none of this failure's, with how many runs broke each."""
        found = Counter(name for each in items for name in {*_broken(each)} - {*self.broken})
        return dict(sorted(found.items()))


def failures(states: Sequence[NightState]) -> list[Failure]:
    """Return the failures of a hunt's parts, the first one first."""
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
        # The repeats of a run count for one failure: the one that it has first.
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
    """Return the drawn run that broke a promise first; None: none did.

    Args:
        states: The hunt's parts.
        promise: The anomaly's name; empty: any.
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
    """Return the runs that failures are owed and that are not planned yet.

    A run that came to no verdict does not count, so another one with a new seed is owed. After
    twice as many as asked for, a failure is owed no more. Failures of systems that the hunt does
    not have are owed nothing.

    Args:
        states: The hunt's parts; the last is the one that goes on.
        hunt: Its systems and their controls, and how many repeats of each.
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
    """Return a part that does not go on: a run of it that is not over will never be."""
    items = {
        number: each if each.phase in OVER else replace(each, phase=Phase.LEFT_OUT)
        for number, each in part.items.items()
    }
    return replace(part, items=items)


def _left(failure: Failure, played: Sequence[Item], repeats: int) -> Iterator[Planned]:
    """Yield the repeats that are left to be played."""
    first, counted = failure.runs[0], 0
    for copy in range(2 * repeats):
        if counted == repeats:
            return
        seed = first.planned.seed if copy == 0 else drawn(first.run_id, copy)
        mine = [each for each in played if each.planned.seed == seed]
        if any(_counts(each) for each in mine):
            counted += 1
        elif all(each.phase is Phase.LEFT_OUT for each in mine):  # None, or the time was over.
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
    """Tell whether a repeat has a verdict that counts, or may come to one."""
    return item.phase not in OVER or is_conclusive(item)


def is_conclusive(item: Item) -> bool:
    """Tell whether a run says if the failure is there; one that was cut off says so if it is."""
    if item.outcome is Validity.VALID:
        return not item.sentence
    return item.outcome is Validity.INVALID


def _on_control(planned: Planned, system: str) -> Planned:
    """Return a repeat on the control system, with what of its settings that system takes."""
    try:
        there = moved(plan_of(planned), system, run_id=planned.repeats)
    except PlanError:  # Whoever plays it says why not.
        values, otherwise = {**planned.plan, "system": system}, tuple[str, ...]()
    else:
        values, otherwise = values_of(there.plan), there.notes
    return planned.model_copy(update={"why": Why.CONTROL, "plan": values, "otherwise": otherwise})
