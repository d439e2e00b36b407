"""fault-without-effect: the nemesis did less than the plan asked for; the harness's own anomaly.

Definition: fewer confirmed faults than the plan's minimum (half of those scheduled, by default), or
a listed kind with none.

Why it proves something: that nothing was tried. A fault is confirmed by measurement (packets that
were dropped, a process that is gone), so one without confirmation may never have happened, and a
run that survived it survived nothing.

What would not prove it: a fault that was confirmed and that the cluster shrugged off.
"""

from checkers.columns import present, select, texts
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, findings
from checkers.group import Group
from checkers.protocol import Checker, Findings, Scope
from results.record.plan import NEMESIS_KINDS
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly

NAME = "fault-without-effect"
PARTITION = "partition"
POWER_LOSS = "power-loss"


def family(kind: str) -> str:
    """Return the kind in the plan's nemesis of a fault; all shapes of cuts are partitions."""
    return kind if kind in {*NEMESIS_KINDS, POWER_LOSS} else PARTITION


def _expected(facts: RunFacts) -> list[str]:
    plan = facts.plan
    if plan.faults is not None:
        return sorted({fault.kind for fault in plan.faults})
    uncut = plan.hosts == "process" or plan.nodes == 1  # Hosts without links to cut.
    return sorted(set(plan.nemesis) - ({PARTITION} if uncut else set()))


def _shortfalls(group: Group) -> list[tuple[str, int, int]]:
    plan, faults = group.facts.plan, group.table("faults")
    kinds = texts(select(faults, present(faults, "confirmed_ns")), "kind")
    done = set(kinds) | {family(kind) for kind in kinds}
    scheduled = len(plan.faults) if plan.faults is not None else faults.num_rows
    least = plan.minimums.confirmed_faults
    least = (scheduled + 1) // 2 if least is None else least
    few = [("faults", len(kinds), least)] if len(kinds) < least else []
    return few + [(kind, 0, 1) for kind in _expected(group.facts) if kind not in done]


def _check(group: Group) -> Findings:
    rows = group.table("faults").num_rows
    return findings(rows, _shortfalls(group), lambda item: _describe(group, item))


def _describe(group: Group, item: tuple[str, int, int]) -> Anomaly:
    kind, confirmed, least = item
    kinds = texts(group.table("faults"), "kind")
    started = sum(kind in {"faults", each, family(each)} for each in kinds)
    what = f"{confirmed} faults were" if kind == "faults" else f"no fault of kind {kind} was"
    of = f"of {started} that were started" if started else "and none was started"
    return anomaly_at(
        group,
        NAME,
        sentence=f"{what} confirmed, {of}; at least {least} must be",
        evidence={"kind": kind, "confirmed": confirmed, "minimum": least, "started": started},
    )


def _applies(facts: RunFacts) -> bool:
    return bool(_expected(facts))


CHECKER = Checker(
    name=NAME,
    anomaly_class=AnomalyClass.HARNESS,
    tables=("faults",),
    check=_check,
    premises=(),
    scope=Scope.RUN,
    applies=_applies,
)
