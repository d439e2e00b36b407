"""lost-write as Jepsen has it: readers went past a committed record that none of them got.

Definition: let B be the highest offset that any ok poll of the partition reached; a value that
stands at several offsets (`checkers/jepsen/claims.py`) counts with its first. Lost are the values
whose last offset is at or below B, that certainly committed, and that no ok poll returned.

Why it proves something: readers read in order, so whoever got a record was given what stands below
it, or somebody else was. What would not prove it: records above B, which a reader may yet get; a
record without a known offset; one reader that skips it (that is a `poll-skip`). It differs from the
contract's: here retention and truncation are no excuse, and what no reader has reached is not lost.
"""

import numpy as np

from checkers.columns import NONE, Ints, Mask, equal, ints, select
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, findings, known, seconds
from checkers.group import Group
from checkers.jepsen.claims import first_offsets, last_offsets
from checkers.protocol import Checker, Findings
from results.record.terms import AnomalyClass, Outcome
from results.record.verdict import Anomaly

NAME = "lost-write"


def read_values(group: Group) -> Ints:
    """Return the values that ok polls of a partition returned, as often as they did."""
    polls = group.table("polls")
    return ints(polls, "value")[equal(polls, "outcome", Outcome.OK.value)]


def _lost(group: Group) -> Mask:
    """Tell which rows of the committed sends are lost."""
    sent, read = ints(group.committed, "value"), read_values(group)
    place = last_offsets(group, sent)
    reached = int(first_offsets(group, read).max(initial=NONE))
    return (place >= 0) & (place <= reached) & ~np.isin(sent, read)


def _check(group: Group) -> Findings:
    sends = group.committed
    lost = select(sends, _lost(group))
    names = ("offset", "value", "op_id", "mop", "process", "complete_ns")
    rows = sorted(zip(*(ints(lost, name).tolist() for name in names), strict=True))
    return findings(sends.num_rows, rows, lambda row: _describe(group, row))


def _describe(group: Group, row: tuple[int, ...]) -> Anomaly:
    offset, value, op_id, mop, process, ended_ns = row
    at = f"offset {offset}" if offset >= 0 else "an unknown offset"
    reader = _passed_by(group)
    return anomaly_at(
        group,
        NAME,
        sentence=f"{group.facts.name_of(value)}, committed at {at} of {group.place} by op {op_id}"
        f" (ended at {seconds(ended_ns)}), was returned by no poll, though op {reader} read on"
        " beyond it",
        evidence={
            "value": value,
            "offset": known(offset),
            "op_id": op_id,
            "mop": mop,
            "process": process,
            "ended_ns": known(ended_ns),
            "furthest_reader_op_id": reader,
        },
        offset=offset,
    )


def _passed_by(group: Group) -> int:
    """Return the op whose read went furthest."""
    polls = group.table("polls")
    ok = select(polls, equal(polls, "outcome", Outcome.OK.value))
    furthest = int(np.argmax(first_offsets(group, ints(ok, "value"))))
    return int(ints(ok, "op_id")[furthest])


def _applies(facts: RunFacts) -> bool:
    return not facts.no_acks


CHECKER = Checker(
    name=NAME,
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls"),
    check=_check,
    applies=_applies,
)
