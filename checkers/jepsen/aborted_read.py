"""G1a by Jepsen's definition: an ok op read a value of a send that certainly failed.

Definition: an op that ended ok returned a value of a send that ended with `fail`. Each such read
counts.

Why it proves something: `fail` means that the send certainly has no effect, so no reader may get
the value.

What would not prove it: if a reader's own op did not end ok, no promise covers the values that the
reader got. The contract's check counts every reader, and differs in this point.
"""

import numpy as np

from checkers.columns import Ints, equal, first_match, ints, select
from checkers.findings import anomaly_at, could_not_show, findings
from checkers.group import Group
from checkers.protocol import Checker, Findings, Promise
from results.record.terms import AnomalyClass, Outcome
from results.record.verdict import Anomaly

NAME = "G1a"


def _check(group: Group) -> Findings:
    sends, polls = group.table("sends"), group.table("polls")
    failed = select(sends, equal(sends, "outcome", Outcome.FAIL.value))
    ok = equal(polls, "outcome", Outcome.OK.value) & (ints(polls, "value") >= 0)
    writer = first_match(ints(polls, "value"), ints(failed, "value"))
    readings = np.flatnonzero(ok & (writer >= 0))
    names = ("offset", "value", "op_id", "process")
    columns: list[Ints] = [ints(polls, name)[readings] for name in names]
    columns.append(ints(failed, "op_id")[writer[readings]])
    rows = sorted(zip(*(column.tolist() for column in columns), strict=True))
    compared = failed.num_rows if ok.any() else 0
    found = findings(compared, rows, lambda row: _describe(group, row))
    why = "no send failed, so an aborted read could not be detected"
    return could_not_show(found, why, given=bool(ok.any()))


def _describe(group: Group, row: tuple[int, ...]) -> Anomaly:
    offset, value, op_id, process, writer = row
    return anomaly_at(
        group,
        NAME,
        sentence=f"process {process} read {group.facts.name_of(value)} at offset {offset} of"
        f" {group.place} in op {op_id}, though op {writer}, which sent it, failed",
        evidence={
            "value": value,
            "offset": offset,
            "op_id": op_id,
            "process": process,
            "writer_op_id": writer,
        },
        offset=offset,
    )


CHECKER = Checker(
    name=NAME,
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls"),
    check=_check,
    promise=Promise.LOG,
    compares="failed sends, searched for in the records that ok ops read",
)
