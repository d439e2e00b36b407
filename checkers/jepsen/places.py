"""duplicate and inconsistent-offsets by Jepsen's definition: values and offsets that do not match.

Definition: the check uses the records that readers got, in ops of any outcome, and the offsets that
certainly committed sends got. One value at two or more offsets is a `duplicate`. One offset with
two or more values is `inconsistent-offsets`.

Why it proves something: a value is sent once, and an offset is written once.

What would not prove it: the offset of a send proves nothing if the send failed, or may not have
committed. The contract's checks differ: they also use the leader's final log, and trust every
acknowledgement.
"""

import numpy as np

from checkers.columns import Ints, ints, repeated, unique_pairs
from checkers.findings import anomaly_at, could_not_show, findings
from checkers.group import Group
from checkers.jepsen.claims import claims
from checkers.protocol import Checker, Findings, Promise
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Evidence

DUPLICATE, INCONSISTENT = "duplicate", "inconsistent-offsets"
_MAX_OPS = 10
_Repeats = list[tuple[int, list[int]]]


def _repeats(keys: Ints, others: Ints) -> _Repeats:
    """Return each key that is paired with several numbers, together with these numbers."""
    keys, others = unique_pairs(keys, others)
    twice = repeated(keys)
    begin, end = np.searchsorted(keys, twice), np.searchsorted(keys, twice, "right")
    bounds = zip(twice.tolist(), begin.tolist(), end.tolist(), strict=True)
    return [(key, others[first:last].tolist()) for key, first, last in bounds]


def _check_values(group: Group) -> Findings:
    offsets, values = group.view(claims)
    found = sorted(_repeats(values, offsets), key=lambda each: each[1])
    again = len(values) - len(np.unique(values))
    told = findings(again, found, lambda each: _describe_value(group, *each))
    why = "no value was reported twice, so a value at two offsets could not be detected"
    return could_not_show(told, why, given=bool(len(values)))


def _check_offsets(group: Group) -> Findings:
    offsets, values = group.view(claims)
    found = _repeats(offsets, values)
    again = len(offsets) - len(np.unique(offsets))
    told = findings(again, found, lambda each: _describe_offset(group, *each))
    why = "no offset was reported twice, so an offset with two values could not be detected"
    return could_not_show(told, why, given=bool(len(offsets)))


def _describe_value(group: Group, value: int, offsets: list[int]) -> Anomaly:
    at = " and ".join(str(offset) for offset in offsets)
    return anomaly_at(
        group,
        DUPLICATE,
        sentence=f"{group.facts.name_of(value)} is at offsets {at} of {group.place}",
        evidence={"value": value, "offsets": offsets, **_ops(group, "value", value)},
        offset=offsets[0],
    )


def _describe_offset(group: Group, offset: int, values: list[int]) -> Anomaly:
    held = " and ".join(group.facts.name_of(value) for value in values)
    return anomaly_at(
        group,
        INCONSISTENT,
        sentence=f"offset {offset} of {group.place} held {held}",
        evidence={"offset": offset, "values": values, **_ops(group, "offset", offset)},
        offset=offset,
    )


def _ops(group: Group, name: str, number: int) -> Evidence:
    """Return the first ops that sent or read a given value or a given offset."""
    sent, read = (
        np.unique(ints(rows, "op_id")[ints(rows, name) == number]).tolist()[:_MAX_OPS]
        for rows in (group.committed, group.table("polls"))
    )
    return {"send_op_ids": sent, "poll_op_ids": read}


DUPLICATE_CHECKER = Checker(
    name=DUPLICATE,
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls"),
    check=_check_values,
    promise=Promise.ONCE,
    compares="reports of a value that was reported before",
)
INCONSISTENT_CHECKER = Checker(
    name=INCONSISTENT,
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls"),
    check=_check_offsets,
    promise=Promise.LOG,
    compares="reports of an offset that was reported before",
)
