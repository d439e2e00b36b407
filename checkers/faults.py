"""fault-without-effect: faults had less effect than the plan asked for; an anomaly of the harness.

Definition: fewer faults were confirmed than the plan's minimum (by default, half of the scheduled
faults, but at least one). Or a family that the plan names has no confirmed fault. With `all` or the
default, the harness chooses the families. Then a family counts as named if at least two of its
faults began. A fault's row names its family in `spec`.

Why it proves something: without a confirmed fault, nothing was tested. A fault is confirmed by a
measurement, such as dropped packets or an ended process. A fault without confirmation may never
have happened. If a run passes without faults, that proves nothing.

What would not prove it: a confirmed fault that the cluster tolerated.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.columns import NONE, Mask, present, select, texts
from checkers.disk_losses import json_object, was_begun
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, number_in, seconds
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Scope
from checkers.reigns import ENDING
from results.record.clock import NS_PER_S
from results.record.milestones import ENDED
from results.record.plan import ALL, NEMESIS_KINDS, Plan
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "fault-without-effect"
PARTITION = "partition"
_NAMED = 3
_NOT_RUNNING = ("no broker runs", "not running")
"""Phrases in the message of a fault that found no running process."""


def _families(faults: pa.Table) -> list[str]:
    """Return the plan's family name of each fault. For old rows, derive the name from the kind."""
    return [
        _field(spec, "family") or (kind if kind in NEMESIS_KINDS else PARTITION)
        for kind, spec in zip(texts(faults, "kind"), texts(faults, "spec"), strict=True)
    ]


def _expected(facts: RunFacts) -> list[str]:
    plan = facts.plan
    if plan.faults is not None:
        return sorted({fault.kind for fault in plan.faults})
    uncut = plan.hosts == "process" or plan.nodes == 1  # Hosts without links to cut.
    return sorted(set(plan.nemesis) - {ALL} - ({PARTITION} if uncut else set()))


def _asked(group: Group) -> list[tuple[str, int, int]]:
    """Return the plan's requirements on faults: (kind, number of confirmed faults, minimum).

    The kind `faults` means all faults. For any other kind, the number is 1 if a fault of this kind
    was confirmed.
    """
    plan, faults = group.facts.plan, group.table("faults")
    confirmed = select(faults, present(faults, "confirmed_ns"))
    done = {*texts(confirmed, "kind"), *_families(confirmed)}
    scheduled = len(plan.faults) if plan.faults is not None else faults.num_rows
    least = plan.minimums.confirmed_faults
    least = max(int(_draws(plan)), (scheduled + 1) // 2) if least is None else least
    wanted = _expected(group.facts)
    if plan.drawn and plan.faults is None:
        # The end of the main phase may have cut a fault short. So at least two must have begun.
        tried = Counter(_families(select(faults, was_begun(faults))))
        wanted = [family for family in wanted if tried[family] > 1]
    enough = [("faults", confirmed.num_rows, least)] if least > 0 else []
    return enough + [(kind, int(kind in done), 1) for kind in wanted]


def _check(group: Group) -> Findings:
    asked = _asked(group)
    short = [each for each in asked if each[1] < each[2]]
    # If no fault of any kind was confirmed, the kinds are reported instead of the number.
    kinds = [each for each in short if each[0] != "faults"]
    short = kinds if kinds and not max(each[1] for each in asked) else short
    found = findings(len(asked), short, lambda item: _describe(group, item))
    why = (
        "the plan asks for no confirmed fault, so a lack of effective faults could not be detected"
    )
    return could_not_show(found, why, given=bool(group.table("faults").num_rows))


def _describe(group: Group, item: tuple[str, int, int]) -> Anomaly:
    kind, confirmed, least = item
    faults = group.table("faults")
    started = int((_of_kind(faults, kind) & was_begun(faults)).sum())
    number = "1 fault was" if confirmed == 1 else f"{confirmed} faults were"
    what = number if kind == "faults" else f"no fault of kind {kind} was"
    were = "was" if started == 1 else "were"
    of = f"of {started} that {were} started" if started else "and none was started"
    return anomaly_at(
        group,
        NAME,
        sentence=f"{what} confirmed, {of}; at least {least} must be confirmed",
        evidence={"kind": kind, "confirmed": confirmed, "minimum": least, "started": started},
    )


def _draws(plan: Plan) -> bool:
    """Return whether a plan asks for random faults. A scenario has its own steps instead."""
    return plan.scenario is None and plan.faults is None and bool(plan.nemesis)


def _applies(facts: RunFacts) -> bool:
    return _draws(facts.plan) or bool(_expected(facts))


def _why(group: Group, found: Anomaly) -> str:
    faults = group.table("faults")
    mine = _of_kind(faults, str(found.evidence.get("kind")))
    if not mine.any() and number_in(found, "started") <= 0:
        return "it never began: the main phase was over, or no target was suitable"
    unseen = select(faults, mine & ~present(faults, "confirmed_ns"))
    said = [_seen(group.facts, row) for row in unseen.slice(0, _NAMED).to_pylist()]
    more = unseen.num_rows - len(said)
    if not said:
        return "all faults that began were confirmed: the plan asks for more faults than began"
    return f"{'; '.join(said)}{f' (and {more} more)' if more > 0 else ''}"


def _of_kind(faults: pa.Table, kind: str) -> Mask:
    """Return a mask of the faults of a kind or a family. The kind `faults` means all faults."""
    called = zip(texts(faults, "kind"), _families(faults), strict=True)
    return np.array([kind in {"faults", *each} for each in called], dtype=np.bool_)


def _seen(facts: RunFacts, fault: dict[str, Any]) -> str:
    """Return a sentence with the observations of an unconfirmed fault."""
    of = ", ".join(fault["targets"] or ())
    asked_ns = -1 if fault["requested_ns"] is None else fault["requested_ns"]
    kind = f"{fault['kind']}{f' of {of}' if of else ''}"
    if never := _never_begun(fault):
        return f"{kind} {never}"
    what = f"{kind}, begun at {seconds(asked_ns)},"
    for name in ("effect", "spec"):
        why = _field(fault[name] or "", "without_effect")
        if why:
            ended = _ended(facts, fault["targets"] or (), asked_ns)
            gone = any(each in why for each in _NOT_RUNNING) and not ended
            healed = _found_gone(fault) if gone else {}
            since = [
                _answered(facts, each, asked_ns, healed.get(each, ""))
                for each in fault["targets"] or ()
                if gone
            ]
            return f"{what} had no effect: {why}{ended}{''.join(since)}"
    return f"{what} had no observed effect"


def _never_begun(fault: dict[str, Any]) -> str:
    """Return why a fault never began; "" if it began or if the reason is not recorded."""
    told = json_object(fault["spec"] or "")
    waited, why = told.get("waited"), told.get("without_effect")
    if not isinstance(waited, dict) or waited.get("came") is not False:
        skipped = why and told.get("begun") is False and not fault["targets"]
        return f"never began: {why}" if skipped else ""
    saw = "; then ".join(map(str, waited.get("saw") or ("no answer",)))
    for_what = f"waited {waited.get('waited_s')} s for {waited.get('when')}"
    return f"{for_what}, which did not come; saw {saw}"


def _ended(facts: RunFacts, nodes: Sequence[str], until_ns: int) -> str:
    """Return a clause if a target had ended by itself before the fault began; otherwise ""."""
    ended = [
        f"{each.detail.get('node')} was found to have ended at {seconds(each.at_ns)}, exit code"
        f" {each.detail.get('code') or 'unknown'}"
        for each in facts.milestones
        if each.name == ENDED and each.detail.get("node") in nodes and each.at_ns <= until_ns
    ]
    return f" ({ended[-1]})" if ended else ""


def _found_gone(fault: dict[str, Any]) -> dict[str, str]:
    """Return a phrase for each target that the heal restarted because the process had ended."""
    told = json_object(fault["heal_effect"] or "")
    before, seen, gone = (told.get(name) for name in ("pid_before", "processes", "was_gone"))
    if not isinstance(before, dict) or not isinstance(seen, list) or not isinstance(gone, list):
        return {}
    new = {str(each.get("node")): each.get("pid") for each in seen if isinstance(each, dict)}
    return {
        str(node): f"that its process {before[node]} had ended, and started {new[node]}"
        for node in gone
        if isinstance(before.get(node), int) and isinstance(new.get(node), int)
    }


def _answered(facts: RunFacts, node: str, at_ns: int, healed: str) -> str:
    """Return a clause about a target that did not run: its last answer, and what may have ended it.

    Args:
        facts: The run's context.
        node: The target.
        at_ns: When the fault began.
        healed: The findings and the actions of the heal; "" if they were not recorded.
    """
    before_ns, after_ns = facts.answers.get((node, at_ns), (NONE, NONE))
    hits = [
        each
        for each in facts.disturbances
        if node in each.nodes
        and each.kind in ENDING
        and each.begun_ns < at_ns
        and each.ended_ns >= before_ns
    ]
    again = f"; it answered next at {seconds(after_ns)}" if after_ns >= 0 else ""
    if hits:
        last = f"{hits[-1].kind} of {node}, begun at {seconds(hits[-1].begun_ns)}"
        return f": {last}, may have ended it{again}"
    if before_ns < 0:
        return f", and {node} had not answered before{again}"
    gap_s = (at_ns - before_ns) / NS_PER_S
    if healed:
        return (
            f", although it had answered at {seconds(before_ns)} and no recorded event ended it:"
            f" its heal found {healed}"
        )
    return (
        f", although it had answered at {seconds(before_ns)} and no recorded event ended"
        f" it{again}: its end within these {gap_s:.3f} s was not observed, or the check of its"
        " process was wrong"
    )


def _field(text: str, name: str) -> str:
    return str(json_object(text).get(name) or "")


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="kind of fault had no confirmed effect",
        many="kinds of faults had no confirmed effect",
        means="A run whose faults had no effect proves nothing.",
    ),
    anomaly_class=AnomalyClass.HARNESS,
    tables=("faults",),
    check=_check,
    premises=(),
    scope=Scope.RUN,
    applies=_applies,
    compares="kinds and numbers of faults that the plan asks for",
    chapter=Chapter.HARNESS,
    looks_for="fewer confirmed faults than the plan's minimum (by default, half of those scheduled,"
    " and at least one), or a named family without any. With `all` and the default, the harness"
    " chooses the families: then a family counts if two of its faults began",
)
