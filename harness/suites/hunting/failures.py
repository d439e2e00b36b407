"""The failures of a hunt: how often each recurs, and whether the control system has it, too.

Two runs failed alike if they are of one system and broke a promise in common, whatever faults they
had: a hunt draws other faults for each run. The first run of a failure is repeated, with its own
seed and with new ones. The same plans are played on the control system. What a repeat finds is
counted, and not repeated in its turn.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from harness.another_system import moved
from harness.suites.expansion import drawn
from harness.suites.hunting.plans import plan_of, values_of
from harness.suites.journal import Planned
from harness.suites.night import OVER, Item, NightState, Phase
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

    def controls_on(self, system: str) -> list[Item]:
        """Return the runs on a control system: a later part may have another one."""
        return [each for each in self.controls if each.planned.plan.get("system") == system]

    def _rate(self, items: Iterable[Item]) -> Rate:
        verdicts = {Validity.VALID, Validity.INVALID}
        judged = [each for each in items if each.reached and each.outcome in verdicts]
        return Rate(times=sum(self.is_had_by(each) for each in judged), of=len(judged))

    def is_had_by(self, item: Item) -> bool:
        """Tell whether a run broke one of the promises."""
        told = item.reached.broken if item.reached else ()
        return not {*told}.isdisjoint(self.broken)


def failures(states: Sequence[NightState]) -> list[Failure]:
    """Return the failures of a hunt's parts, the first one first."""
    items = [item for state in states for item in state.items.values()]
    alike: list[tuple[str, set[str], list[Item]]] = []
    for item in sorted(items, key=lambda each: (each.judged_at, each.number)):
        if not _fails(item):
            continue
        assert item.reached is not None
        system, broken = str(item.planned.plan.get("system", "")), {*item.reached.broken}
        for known, promises, runs in alike:
            if known == system and promises & broken:
                runs.append(item)
                break
        else:
            alike.append((system, broken, [item]))
    repeated: dict[str, list[Item]] = {}
    for item in items:
        repeated.setdefault(item.planned.repeats, []).append(item)
    return [
        _failure(system, tuple(sorted(broken)), runs, repeated) for system, broken, runs in alike
    ]


def _failure(
    system: str,
    broken: tuple[str, ...],
    runs: Sequence[Item],
    repeated: Mapping[str, Sequence[Item]],
) -> Failure:
    again = [each for run in runs for each in repeated.get(run.run_id, ())]
    return Failure(
        system=system,
        broken=broken,
        runs=tuple(runs),
        repeats=tuple(each for each in again if each.planned.why is not Why.CONTROL),
        controls=tuple(each for each in again if each.planned.why is Why.CONTROL),
    )


def _fails(item: Item) -> bool:
    return (
        not item.repeated
        and item.outcome is Validity.INVALID
        and item.reached is not None
        and bool(item.reached.broken)
    )


def owed(
    states: Sequence[NightState], *, repeats: int, controls: Mapping[str, str]
) -> list[Planned]:
    """Return the runs that failures are owed and that are not planned yet.

    A run that came to no verdict does not count, so another one with a new seed is owed. After
    twice as many as asked for, a failure is owed no more.

    Args:
        states: The hunt's parts; the last is the one that goes on.
        repeats: How many of each.
        controls: The control system, by system.
    """
    number, lines = max(states[-1].items, default=0), list[Planned]()
    for failure in failures(states):
        again = _left(failure, failure.repeats, repeats)
        control = controls.get(failure.system)
        moved = () if control is None else _left_on(control, failure, repeats)
        for planned in chain.from_iterable(zip_longest(again, moved)):
            if planned is not None:
                lines.append(planned.model_copy(update={"item": number + len(lines) + 1}))
    return lines


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
    if item.phase in OVER:
        return item.outcome in {Validity.VALID, Validity.INVALID}
    return True


def _on_control(planned: Planned, system: str) -> Planned:
    """Return a repeat on the control system, with what of its settings that system takes."""
    try:
        plan = moved(plan_of(planned), system, run_id=planned.repeats).plan
    except PlanError:  # Whoever plays it says why not.
        values = {**planned.plan, "system": system}
    else:
        values = values_of(plan)
    return planned.model_copy(update={"why": Why.CONTROL, "plan": values})
