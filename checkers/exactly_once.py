"""repeated-input and skipped-input: a pipeline handled an input twice, or left it out.

Definition, repeated-input: two transactions that certainly committed handled the same record of an
input. Definition, skipped-input: a record of an input was certainly committed, and lies below one
that a committed transaction handled; no committed transaction handled it, and each that did handle
it had no effect (`handled`).

Why it proves something: a transaction carries its records and the positions behind what it read.
Both commit, or neither (KIP-98). Who is given a partition goes on from what was committed last, and
waits for a transaction that is still to be decided; what a member commits that was replaced
meanwhile is refused (KIP-447). So each input takes effect exactly once (KIP-129 names it
exactly-once stream processing), whatever happens to members, coordinators and leaders.

What would not prove it: a transaction whose commit was not answered, unless final reads of all
outputs were complete; an input that nobody was shown in the end; one behind the last that was
handled. Where an unclean election, or disks that lost it on every replica, may have cost the
group's position or a marker, it is allowed.
"""

import numpy as np

from checkers.columns import ints, texts
from checkers.excuses import TAKES_RECORDS
from checkers.findings import anomaly_at, could_not_show, findings, number_in, numbers_in, seconds
from checkers.group import Group
from checkers.group_reasons import as_leaders, coordinators
from checkers.handled import ABORTED, COMMITTED, UNKNOWN, Handled, applies, excuses_of, handled
from checkers.protocol import (
    Chapter,
    Checker,
    During,
    Findings,
    Labels,
    Premise,
    Promise,
    Scope,
    Waits,
)
from checkers.reigns import GROUPS
from results.record.identities import groups
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

REPEATED, SKIPPED = "repeated-input", "skipped-input"
_NAMED = 5


def _repeated(group: Group) -> Findings:
    found = handled(group)
    committed = found.counts(COMMITTED)
    return could_not_show(
        findings(
            int((committed > 0).sum()),
            np.flatnonzero(committed > 1).tolist(),
            lambda at: _describe_repeated(group, found, at),
            lambda _: _labels(group),
        ),
        "no transaction that handled an input committed, so one that is handled twice could not"
        " show",
    )


def _skipped(group: Group) -> Findings:
    found = handled(group)
    offsets = ints(found.rows, "offset")[found.cuts[:-1]]
    below = offsets < found.reach()
    decided = found.counts(UNKNOWN) == 0
    missed = below & decided & (found.counts(COMMITTED) == 0)
    return could_not_show(
        findings(
            int((below & decided).sum()),
            np.flatnonzero(missed).tolist(),
            lambda at: _describe_skipped(group, found, at),
            lambda _: _labels(group),
        ),
        "no transaction that handled a second input committed, so one that is skipped could not"
        " show",
    )


def _labels(group: Group) -> Labels:
    broken = (Premise.WHOLE_RECORD.value,) if group.facts.cut_streams else ()
    return excuses_of(group), broken


def _input(found: Handled, at: int) -> tuple[str, int, int]:
    row = int(found.cuts[at])
    place = texts(found.rows.slice(row, 1), "place")[0]
    return place, int(ints(found.rows, "offset")[row]), int(ints(found.rows, "value")[row])


def _describe_repeated(group: Group, found: Handled, at: int) -> Anomaly:
    place, offset, value = _input(found, at)
    ops = found.ops(at, COMMITTED)
    return anomaly_at(
        group,
        REPEATED,
        sentence=f"offset {offset} of {place} (value {value}) was handled by the transactions of"
        f" ops {_listed(ops)}, and both committed",
        evidence={"place": place, "input_offset": offset, "value": value, "op_ids": ops[:_NAMED]},
    )


def _describe_skipped(group: Group, found: Handled, at: int) -> Anomaly:
    place, offset, value = _input(found, at)
    ops, reach = found.ops(at, ABORTED), int(found.reach()[at])
    by = f"only by ops {_listed(ops)}, which had no effect" if ops else "by nobody"
    return anomaly_at(
        group,
        SKIPPED,
        sentence=f"offset {offset} of {place} (value {value}) was handled {by}; committed"
        f" transactions went on to offset {reach}",
        evidence={
            "place": place,
            "input_offset": offset,
            "value": value,
            "op_ids": ops[:_NAMED],
            "reached": reach,
        },
    )


def _listed(ops: list[int]) -> str:
    more = len(ops) - _NAMED
    return " and ".join(map(str, ops[:_NAMED])) + (f" (and {more} more)" if more > 0 else "")


def _why(group: Group, found: Anomaly) -> str:
    """Return who coordinated the group when its first and last transactions were answered."""
    rows = group.derived["effects"]
    ops = numbers_in(found, "op_ids")
    mine = np.isin(ints(rows, "op_id"), ops)
    name = "".join(groups(group.facts.plan)[:1])
    if not mine.any():
        last = number_in(found, "reached")
        return (
            f"no member recorded that it was given it, though positions went on to {last}; the"
            " record does not show whether a broker left it out, or the client"
        )
    span = int(ints(rows, "invoke_ns")[mine].min()), int(ints(rows, "complete_ns")[mine].max())
    led = coordinators(group.facts, GROUPS, name, span)
    when = f"from {seconds(span[0])} to {seconds(span[1])}"
    if not led:
        return f"the record does not have who coordinated group {name} {when}"
    took = "did not keep both positions" if found.name == REPEATED else "kept the position of one"
    return f"{as_leaders(led)}, coordinated group {name} {when}: it {took}"


REPEATED_CHECKER = Checker(
    name=REPEATED,
    why=_why,
    words=Words(
        one="input of a pipeline took effect twice",
        many="inputs of a pipeline took effect twice",
        means="Two committed transactions handled the same record.",
        promise="A pipeline that commits positions in its transactions handles each input once.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("inputs", "effects"),
    check=_repeated,
    scope=Scope.ACROSS,
    applies=applies,
    promise=Promise.TRANSACTIONS,
    compares="inputs that a committed transaction handled",
    chapter=Chapter.TRANSACTIONS,
    looks_for="two transactions that certainly committed handled the same record of an input",
    waits=Waits.BEFORE,
    excuses=TAKES_RECORDS,
)
SKIPPED_CHECKER = Checker(
    name=SKIPPED,
    why=_why,
    words=Words(
        one="input of a pipeline took no effect",
        many="inputs of a pipeline took no effect",
        means="Committed transactions went on behind a record that none of them handled.",
        promise="A pipeline that commits positions in its transactions leaves no input out.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("inputs", "effects"),
    check=_skipped,
    scope=Scope.ACROSS,
    applies=applies,
    promise=Promise.TRANSACTIONS,
    compares="committed inputs below the last one that a committed transaction handled",
    during=During.AT_END,
    chapter=Chapter.TRANSACTIONS,
    looks_for="a committed record of an input, below one that a committed transaction handled; no"
    " transaction that handled it took effect",
    waits="a transaction may still be decided",
    excuses=TAKES_RECORDS,
)
