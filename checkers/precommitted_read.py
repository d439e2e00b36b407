"""precommitted-read: a transaction read what itself had not committed yet.

Definition: a read_committed transaction read a value that it sent itself.

Why it proves something: in Kafka a transaction's records are kept from every read_committed reader
until its commit, which is the last thing that an op does; the producer's own consumer is no
exception.

What would not prove it: a read_uncommitted reader; a read of the value by a later op.
"""

import numpy as np

from checkers.columns import equal, first_match, ints, present, select, take
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, findings
from checkers.group import Group
from checkers.protocol import Checker, Findings
from checkers.transactions import READ_COMMITTED
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly

NAME = "precommitted-read"
_Read = tuple[int, int, int]


def _precommitted(group: Group) -> list[_Read]:
    """Return (offset, value, op id) of what ops read of their own, each once."""
    sends, polls = group.table("sends"), group.table("polls")
    sends = select(sends, present(sends, "value"))
    at = first_match(ints(polls, "value"), ints(sends, "value"))
    writers = np.append(ints(sends, "op_id"), -1)[at]
    own = (at >= 0) & (writers == ints(polls, "op_id")) & equal(polls, "isolation", READ_COMMITTED)
    rows = take(polls, np.flatnonzero(own))
    columns = (ints(rows, name).tolist() for name in ("offset", "value", "op_id"))
    return sorted(set(zip(*columns, strict=True)))


def _check(group: Group) -> Findings:
    sends = group.table("sends")
    return findings(
        int(present(sends, "txn_id").sum()),
        _precommitted(group),
        lambda read: _describe(group, read),
    )


def _describe(group: Group, read: _Read) -> Anomaly:
    offset, value, op_id = read
    return anomaly_at(
        group,
        NAME,
        sentence=f"op {op_id} read {group.facts.name_of(value)} at offset {offset} of"
        f" {group.place} before the commit of its own transaction, which had sent it",
        evidence={"value": value, "offset": offset, "op_id": op_id},
        offset=offset,
    )


def _applies(facts: RunFacts) -> bool:
    return facts.plan.transactional or facts.history


CHECKER = Checker(
    name=NAME,
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls"),
    check=_check,
    applies=_applies,
)
