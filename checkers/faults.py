"""fault-without-effect: the nemesis did less than the plan asked for; the harness's own anomaly.

Definition: fewer confirmed faults than the plan's minimum (half of those scheduled, by default), or
a family with none that somebody named. Of the families of `all`, and of the default, those with two
faults or more that were begun count as named. A fault's row names its family in `spec`.

Why it proves something: that nothing was tried. A fault is confirmed by measurement (packets that
were dropped, a process that is gone), so one without confirmation may never have happened, and a
run that survived it survived nothing.

What would not prove it: a fault that was confirmed and that the cluster shrugged off.
"""

import json
from collections import Counter

import pyarrow as pa

from checkers.columns import present, select, texts
from checkers.disk_losses import was_begun
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, number_in
from checkers.group import Group
from checkers.protocol import Checker, Findings, Scope
from results.record.plan import ALL, NEMESIS_KINDS
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "fault-without-effect"
PARTITION = "partition"


def _families(faults: pa.Table) -> list[str]:
    """Return what a plan's nemesis calls each fault; rows of old do not say so."""
    return [
        _told_family(spec) or (kind if kind in NEMESIS_KINDS else PARTITION)
        for kind, spec in zip(texts(faults, "kind"), texts(faults, "spec"), strict=True)
    ]


def _told_family(spec: str) -> str:
    try:
        told = json.loads(spec)
    except (ValueError, RecursionError):
        return ""
    return str(told.get("family") or "") if isinstance(told, dict) else ""


def _expected(facts: RunFacts) -> list[str]:
    plan = facts.plan
    if plan.faults is not None:
        return sorted({fault.kind for fault in plan.faults})
    uncut = plan.hosts == "process" or plan.nodes == 1  # Hosts without links to cut.
    return sorted(set(plan.nemesis) - {ALL} - ({PARTITION} if uncut else set()))


def _asked(group: Group) -> list[tuple[str, int, int]]:
    """Return what the plan asks of the nemesis: kind, how many were confirmed, the least.

    Of a kind it is 1 if any was.
    """
    plan, faults = group.facts.plan, group.table("faults")
    confirmed = select(faults, present(faults, "confirmed_ns"))
    done = {*texts(confirmed, "kind"), *_families(confirmed)}
    scheduled = len(plan.faults) if plan.faults is not None else faults.num_rows
    least = plan.minimums.confirmed_faults
    least = (scheduled + 1) // 2 if least is None else least
    wanted = _expected(group.facts)
    if plan.drawn and plan.faults is None:
        # One that the end of the main phase cut short proves nothing; two that nobody saw do.
        tried = Counter(_families(select(faults, was_begun(faults))))
        wanted = [family for family in wanted if tried[family] > 1]
    enough = [("faults", confirmed.num_rows, least)] if least > 0 else []
    return enough + [(kind, int(kind in done), 1) for kind in wanted]


def _check(group: Group) -> Findings:
    asked = _asked(group)
    short = [each for each in asked if each[1] < each[2]]
    found = findings(len(asked), short, lambda item: _describe(group, item))
    why = "the plan asks for no confirmed fault, so that too few had an effect could not show"
    return could_not_show(found, why, given=bool(group.table("faults").num_rows))


def _describe(group: Group, item: tuple[str, int, int]) -> Anomaly:
    kind, confirmed, least = item
    faults = group.table("faults")
    called = zip(texts(faults, "kind"), _families(faults), strict=True)
    started = sum(kind in {"faults", *each} for each in called)
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


def _why(_group: Group, found: Anomaly) -> str:
    if number_in(found, "started"):
        return "it was begun, and its witness saw no effect; the table of faults says what it saw"
    return "it was never begun: the main phase was over, or nothing fitted"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="kind of fault had no confirmed effect",
        many="kinds of faults had no confirmed effect",
        means="A run whose faults did nothing proves nothing.",
    ),
    anomaly_class=AnomalyClass.HARNESS,
    tables=("faults",),
    check=_check,
    premises=(),
    scope=Scope.RUN,
    applies=_applies,
    compares="kinds and numbers of faults that the plan asks for",
)
