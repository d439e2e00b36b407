"""ack-mismatch: the offset in an acknowledgement does not hold the acknowledged record.

Definition: the acknowledged offset does not hold the value, but another offset of the partition
holds it. The check uses the last leader's final log. If that log was not read, the check uses the
records that readers got.

Why it proves something: the offset in an acknowledgement is the offset at which the leader appended
the record. Some applications continue from that offset, for example for exactly-once processing. A
wrong offset misleads them.

What would not prove it: if no offset holds the value, the anomaly is a `lost-write` instead. An
offset below the log's start proves nothing. The record at the acknowledged offset may be lost: with
acks=1, by an unclean election, or on the disks of all replicas. Then the log may have kept another
try of the same send, at another offset.

One wrong answer can match several definitions. If a reader got another value at the offset,
`inconsistent-offsets` is reported, too. If the value is at several offsets, `duplicate` is
reported, too. The evidence lists these checks under `also`.
"""

from dataclasses import dataclass

import numpy as np

from checkers.client_reasons import misplaced
from checkers.columns import NONE, Ints, Mask, equal, ints, stack, unique_pairs, within
from checkers.dropped import earliest_acks, taken_by_disks
from checkers.excuses import TAKES_ACKNOWLEDGED
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, known, number_in, numbers_in
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Excuse, Findings, Premise, Promise
from checkers.step_findings import step_findings
from checkers.symptoms import OF_WRITERS
from checkers.unclean_elections import unclean_elections
from checkers.weak_acks import hidden_cuts
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "ack-mismatch"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Places:
    """The known offsets of each value: distinct pairs, sorted by value and then by offset."""

    value: Ints
    offset: Ints

    def of(self, value: int) -> list[int]:
        """Return the offsets that hold a value."""
        begin = np.searchsorted(self.value, value)
        end = np.searchsorted(self.value, value, "right")
        offsets: list[int] = self.offset[begin:end].tolist()
        return offsets

    def knows(self, values: Ints) -> Mask:
        """Return a mask of the given values that have a known offset."""
        return within(values, self.value)

    def holds(self, values: Ints, offsets: Ints) -> Mask:
        """Return a mask: whether the offset of each pair (value, offset) holds the value."""
        if not len(self.value):
            return np.zeros(len(values), dtype=np.bool_)
        first = np.minimum(np.searchsorted(self.value, values), len(self.value) - 1)
        held = (self.value[first] == values) & (self.offset[first] == offsets)
        rest = np.flatnonzero(~held)  # Only values at several offsets need the slow search.
        if len(rest):
            held[rest] = self._holds_anywhere(values[rest], offsets[rest])
        return np.asarray(held, dtype=np.bool_)

    def _holds_anywhere(self, values: Ints, offsets: Ints) -> Mask:
        count = len(values)
        _, at = np.unique(stack([offsets, self.offset]), return_inverse=True)
        _, what = np.unique(stack([values, self.value]), return_inverse=True)
        pairs = what.astype(np.int64) * len(at) + at
        return within(pairs[:count], pairs[count:])


def _polled(group: Group) -> _Places:
    polls = group.table("polls")
    return _places(ints(polls, "value"), ints(polls, "offset"))


def _places(values: Ints, offsets: Ints) -> _Places:
    real = (values >= 0) & (offsets >= 0)
    value, offset = unique_pairs(values[real], offsets[real])
    return _Places(value=value, offset=offset)


def _known(group: Group) -> _Places:
    log = group.final_log
    return _polled(group) if log is None else _places(log.values, log.offsets)


def _check(group: Group) -> Findings:
    sends, places = group.table("sends"), _known(group)
    offsets, values = ints(sends, "offset"), ints(sends, "value")
    # The value may have been below the log's start. A copy above the start is not proof.
    acked = (offsets >= group.log_start) & equal(sends, "acked", True)  # noqa: FBT003 - a value
    rows = np.flatnonzero(acked & places.knows(values))
    wrong = rows[~places.holds(values[rows], offsets[rows])]
    # The log also shows that a value is missing. Without a log, readers may not have reached it.
    looked = len(rows) if group.final_log is None else int(acked.sum())
    return step_findings(
        looked,
        offsets[wrong],
        lambda index: _describe(group, places, int(wrong[index])),
        _excuses(group, wrong),
    )


def _excuses(group: Group, rows: Ints) -> dict[Excuse | Premise, Mask]:
    sends = group.table("sends")
    offsets, values, begun, ended = (
        ints(sends, name)[rows] for name in ("offset", "value", "invoke_ns", "complete_ns")
    )
    # The offset may have held the value once: a replica truncated it there, or a reader got it.
    dropped = group.truncated(offsets)
    if len(rows):
        dropped |= _polled(group).holds(values, offsets)
    cut, weak = hidden_cuts(group, begun), equal(sends, "acks", "1")[rows]
    # If the record shows no truncations, an unclean leader may have caused any truncation.
    dropped_uncleanly = dropped if group.shows_cuts else np.ones(len(rows), dtype=np.bool_)
    fits: dict[Excuse | Premise, Mask] = {
        Excuse.ACKS: (dropped | cut.may_be) & weak,
        Premise.SHOWN_CAUSE: ~dropped & cut.unknown & weak,
        Excuse.UNCLEAN: dropped_uncleanly & unclean_elections(group).took(offsets, begun),
    }
    since = earliest_acks(group, sends)[rows]
    fits.update(taken_by_disks(group, offsets, ended, since_ns=since).items())
    return fits


def _describe(group: Group, places: _Places, row: int) -> Anomaly:
    sends = group.table("sends").slice(row, 1)
    value, offset, op_id, process = (
        ints(sends, name).item() for name in ("value", "offset", "op_id", "process")
    )
    there, instead = places.of(value), _held(group, offset)
    read_there = sorted(set(_read_at(group, offset)) - {value})
    also = (["inconsistent-offsets"] if read_there else []) + (
        ["duplicate"] if len({*there, *_polled(group).of(value)}) > 1 else []
    )
    name_of = group.facts.name_of
    held = f"which holds {name_of(instead)}" if instead is not None else "which holds no value"
    same = f" (also reported as {' and '.join(also)})" if also else ""
    return anomaly_at(
        group,
        NAME,
        sentence=f"{name_of(value)}, sent by op {op_id}, was acknowledged at offset {offset} of"
        f" {group.place}, {held}; the value is at offset{'s' if len(there) > 1 else ''}"
        f" {' and '.join(map(str, there))}{same}",
        evidence={
            "value": value,
            "op_id": op_id,
            "process": process,
            "acknowledged_offset": offset,
            "offsets": there,
            "holds_instead": instead,
            "also": also,
        },
        offset=offset,
    )


def _held(group: Group, offset: int) -> int | None:
    """Return the value at an offset, or None if the offset holds no value."""
    log = group.final_log
    if log is None:
        return next(iter(_read_at(group, offset)), None)
    index = log.at(offset)
    return None if index is None else known(int(log.values[index]))


def _read_at(group: Group, offset: int) -> list[int]:
    polls = group.table("polls")
    values = ints(polls, "value")[ints(polls, "offset") == offset]
    return sorted(set(values[values >= 0].tolist()))


def _applies(facts: RunFacts) -> bool:
    return not facts.no_acks


def _why(group: Group, found: Anomaly) -> str:
    value, offset = (number_in(found, name) for name in ("value", "acknowledged_offset"))
    return misplaced(group, value, offset, min(numbers_in(found, "offsets"), default=NONE))


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="write is at another offset than acknowledged",
        many="writes are at other offsets than acknowledged",
        means="The acknowledged offset does not hold the value, and another offset does.",
        promise="A record is at the offset that its acknowledgement reports.",
        explains={
            "inconsistent-offsets": "the acknowledged offset holds another value",
            **dict.fromkeys(
                OF_WRITERS,
                ("if its acknowledgement has a wrong offset, a message seems to be out of order"),
            ),
        },
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls", "leadership", "replica_records", "replica_states", "truncations"),
    check=_check,
    applies=_applies,
    promise=Promise.LOG,
    compares="acknowledged offsets, compared with the offsets of the records",
    chapter=Chapter.ORDER,
    of_histories=True,
    looks_for="each acknowledgement that names an offset, compared with the offset of its value"
    " in the last leader's log; if that log is missing, with the offset at which"
    " readers got the value",
    waits="the record may still be truncated; the anomaly is then lost-write",
    excuses=TAKES_ACKNOWLEDGED,
)
