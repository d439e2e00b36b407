"""unseen by Jepsen's definition: an op that sent a value ended ok, but no ok poll returned it.

Definition: an op that sent the value ended ok, and no ok poll of the history returned the value.

Why it proves something: Jepsen's workload runs until readers have read all acknowledged values. A
value that no reader got until then is missing.

What would not prove it: a history that was cut short, or readers that stopped early. A history does
not show whether this happened. `lost-write` may report the same value. The contract's check
differs: it requires complete final reads, and ignores values that `lost-write` reports.
"""

from checkers.columns import equal, ints, select, within
from checkers.findings import anomaly_at, findings, known, seconds
from checkers.group import Group
from checkers.jepsen.lost_write import read_values
from checkers.protocol import Checker, Findings, Promise
from results.record.terms import AnomalyClass, Outcome
from results.record.verdict import Anomaly

NAME = "unseen"


def _check(group: Group) -> Findings:
    sends = group.table("sends")
    ended = select(sends, equal(sends, "outcome", Outcome.OK.value))
    unread = select(ended, ~within(ints(ended, "value"), read_values(group)))
    names = ("offset", "value", "op_id", "complete_ns")
    rows = sorted(zip(*(ints(unread, name).tolist() for name in names), strict=True))
    return findings(ended.num_rows, rows, lambda row: _describe(group, row))


def _describe(group: Group, row: tuple[int, ...]) -> Anomaly:
    offset, value, op_id, ended_ns = row
    at = f"offset {offset}" if offset >= 0 else "an unknown offset"
    return anomaly_at(
        group,
        NAME,
        sentence=f"{group.facts.name_of(value)}, acknowledged at {at} of {group.place} at"
        f" {seconds(ended_ns)} by op {op_id}, was returned by no poll",
        evidence={
            "value": value,
            "offset": known(offset),
            "op_id": op_id,
            "acknowledged_ns": known(ended_ns),
        },
        offset=offset,
    )


CHECKER = Checker(
    name=NAME,
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls"),
    check=_check,
    promise=Promise.STORED,
    compares="sends that ended ok, searched for in the records that ok ops read",
)
