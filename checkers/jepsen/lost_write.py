"""lost-write by Jepsen's definition: readers passed a committed record, but no reader got it.

Definition: let B be the highest offset that any ok poll of the partition reached. If a value is at
several offsets (`checkers/jepsen/claims.py`), only its first offset counts for B. A value is lost
if its last offset is at or below B, if it certainly committed, and if no ok poll returned it.

Why it proves something: readers read in order. So if a reader got a record, some reader must have
got each record below it.

What would not prove it: a reader may still get records above B. A record without a known offset
does not count. A single reader that skips a record is a `poll-skip`. The contract's check differs:
by Jepsen's definition, retention and truncation are not excuses, and a record above B is not lost.
"""

import numpy as np

from checkers.columns import NONE, Ints, Mask, equal, ints, select
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, known, seconds
from checkers.group import Group
from checkers.jepsen.claims import first_offsets, last_offsets
from checkers.protocol import Checker, Findings, Promise
from results.record.terms import AnomalyClass, Outcome
from results.record.verdict import Anomaly

NAME = "lost-write"


def read_values(group: Group) -> Ints:
    """Return the values that ok polls of a partition returned, with repetitions."""
    polls = group.table("polls")
    return ints(polls, "value")[equal(polls, "outcome", Outcome.OK.value)]


def _passed(group: Group) -> Mask:
    """Return a mask of the committed sends at or below the highest offset that readers reached."""
    place = last_offsets(group, ints(group.committed, "value"))
    reached = int(first_offsets(group, read_values(group)).max(initial=NONE))
    return np.asarray((place >= 0) & (place <= reached), dtype=np.bool_)


def _check(group: Group) -> Findings:
    sends, passed = group.committed, _passed(group)
    lost = select(sends, passed & ~np.isin(ints(sends, "value"), read_values(group)))
    names = ("offset", "value", "op_id", "mop", "process", "complete_ns")
    rows = sorted(zip(*(ints(lost, name).tolist() for name in names), strict=True))
    found = findings(int(passed.sum()), rows, lambda row: _describe(group, row))
    why = "no reader reached a committed record, so a skipped record could not be detected"
    return could_not_show(found, why, given=bool(len(read_values(group))))


def _describe(group: Group, row: tuple[int, ...]) -> Anomaly:
    offset, value, op_id, mop, process, ended_ns = row
    at = f"offset {offset}" if offset >= 0 else "an unknown offset"
    reader = _passed_by(group)
    return anomaly_at(
        group,
        NAME,
        sentence=f"{group.facts.name_of(value)}, committed at {at} of {group.place} by op {op_id}"
        f" (ended at {seconds(ended_ns)}), was returned by no poll, although op {reader}"
        " read beyond it",
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
    """Return the op whose read reached the highest offset."""
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
    promise=Promise.STORED,
    compares="committed sends that readers reached or passed",
)
