"""Run the checkers over one group, and convert their results to and from JSON.

A group is the rows of one partition, of the quorum, or of the run. JSON carries the results between
processes. This is the only module that catches every exception. A checker that crashes has no
result, so the verdict becomes unknown. The pipeline continues.
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
    """The result of one checker for one group.

    Attributes:
        name: The checker's name.
        rows, anomalies, beyond, gaps, unshown: As in `Findings`.
        error: The exception if the checker crashed, otherwise None.
    """

    name: str
    rows: int
    anomalies: tuple[Anomaly, ...] = ()
    beyond: tuple[tuple[Labels, int], ...] = field(default=())
    gaps: tuple[str, ...] = ()
    unshown: tuple[str, ...] = ()
    error: str | None = None


def run_checkers(group: Group, checkers: Sequence[Checker] | None = None) -> list[CheckResult]:
    """Run every checker that applies to the run and to this kind of group.

    Args:
        group: The rows of a partition, of the quorum, of a run, or rows derived from all
            partitions.
        checkers: The checkers to choose from. None: the checkers of the run's judge.
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
    """Return the result of a function on a group. After a crash, return a result with the error."""
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
    """Return the anomaly, and add the reason from the check and the faults that were in force."""
    reason = "" if found.cause else checker.why(group, found)
    if not reason:
        return found
    told = f"{reason}{in_force(group.facts, found)}"
    return replace(found, cause=told) if isinstance(reason, Proved) else replace(found, reason=told)


def dump_result(result: CheckResult) -> str:
    """Return a result as JSON; raise TypeError for values that JSON cannot represent."""
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
