"""Runs the checkers over one group; what they found travels between processes as JSON.

Here stands the one broad `except` of the checkers: a checker that crashed has judged nothing, which
must make the verdict unknown rather than end the pipeline.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from checkers.group import Group
from checkers.protocol import Checker, Labels, Proved, Scope
from checkers.registry import checkers_of
from checkers.telling import in_force
from results.record.verdict import Anomaly

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What one checker said of one group.

    Attributes:
        name: The checker's.
        rows, anomalies, beyond, gaps, unshown: As in `Findings`.
        error: Why it crashed, None if it did not.
    """

    name: str
    rows: int
    anomalies: tuple[Anomaly, ...] = ()
    beyond: tuple[tuple[Labels, int], ...] = field(default=())
    gaps: tuple[str, ...] = ()
    unshown: tuple[str, ...] = ()
    error: str | None = None


def run_checkers(group: Group, checkers: Sequence[Checker] | None = None) -> list[CheckResult]:
    """Run every checker of the group's scope that applies to the run.

    Args:
        group: A partition's, the quorum's, a run's, or what was derived of all partitions.
        checkers: None: those of the run's judge.
    """
    scope = _scope(group)
    checkers = checkers_of(group.facts) if checkers is None else checkers
    results = []
    for checker in checkers:
        if checker.scope is scope and checker.fits(group.facts):
            results.append(_run(checker, group))
            group.forget()
    return results


def _scope(group: Group) -> Scope:
    if group.of_quorum:
        return Scope.QUORUM
    if group.remade:
        return Scope.REMADE
    if group.partition >= 0:
        return Scope.PARTITION
    return Scope.ACROSS if group.derived else Scope.RUN


def guarded(name: str, group: Group, work: Callable[[Group], T]) -> T | CheckResult:
    """Return what some work on a group gives; if it crashes, a result that says so."""
    try:
        return work(group)
    except Exception as crash:  # noqa: BLE001 - see the module's docstring
        where = f"{group.place}: " if group.topic else ""
        return CheckResult(name=name, rows=0, error=f"{where}{type(crash).__name__}: {crash}")


def _run(checker: Checker, group: Group) -> CheckResult:
    return guarded(checker.name, group, lambda given: _result(checker, given))


def _result(checker: Checker, group: Group) -> CheckResult:
    found = checker.check(group)
    return CheckResult(
        name=checker.name,
        rows=found.rows,
        anomalies=tuple(_explained(checker, group, each) for each in found.anomalies),
        beyond=tuple(sorted(found.beyond.items())),
        gaps=found.gaps,
        unshown=found.unshown,
    )


def _explained(checker: Checker, group: Group, found: Anomaly) -> Anomaly:
    """Return an anomaly with the reason that its check can give, and the faults of that time."""
    reason = "" if found.cause else checker.why(group, found)
    if not reason:
        return found
    told = f"{reason}{in_force(group.facts, found)}"
    return replace(found, cause=told) if isinstance(reason, Proved) else replace(found, reason=told)


def dump_result(result: CheckResult) -> str:
    """Return a result as JSON; fails on anything that is not a plain number or word."""
    return json.dumps(asdict(result), ensure_ascii=False)


def parse_result(text: str) -> CheckResult:
    """Return the result that `dump_result` wrote."""
    raw = json.loads(text)
    return CheckResult(
        name=raw["name"],
        rows=raw["rows"],
        anomalies=tuple(_anomaly(each) for each in raw["anomalies"]),
        beyond=tuple(
            ((tuple(excuses), tuple(broken)), count) for (excuses, broken), count in raw["beyond"]
        ),
        gaps=tuple(raw["gaps"]),
        unshown=tuple(raw["unshown"]),
        error=raw["error"],
    )


def _anomaly(raw: dict[str, Any]) -> Anomaly:
    tuples = {key: tuple(raw[key]) for key in ("excuses", "broken_premises")}
    return Anomaly(**{**raw, **tuples})
