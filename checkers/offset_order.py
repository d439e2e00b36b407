"""offset-order: a send began after another send's acknowledgement, but got a lower offset.

Definition: two sends to a partition are acknowledged. The first send ended before the second send
began, but the first has the higher offset.

Why it proves something: at its acknowledgement, the first record was in the log, and the second was
not yet sent. A log grows only at its end. Brokers' clocks do not matter, because both times come
from one clock, the clock of the run's record. For a send in a transaction, the times are the start
and the end of its op. The op takes longer than the send, so the check reports no false anomaly. The
check also covers aborted records, because they are in the log like all other records.

What would not prove it:

- Two equal times.
- An acknowledgement without an offset.
- A dropped record, with acks=1 or an unclean election. Two leaders may then have assigned offsets
  independently.
- A record that power losses, wipes or flipped bits removed from every replica.
- A send whose sequence number librdkafka used twice (`used_sequences`).
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.columns import NONE, Ints, Mask, equal, ints
from checkers.excuses import TAKES_ACKNOWLEDGED
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, seconds
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Excuse, Findings, Promise, Proof
from checkers.send_order import out_of_order, send_excuses
from checkers.step_findings import step_findings
from checkers.symptoms import SAME_OP
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "offset-order"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Acks:
    """The acknowledged sends of a partition: row numbers in `sends`, offsets and times."""

    row: Ints
    offset: Ints
    began: Ints
    ended: Ints


def _acks(group: Group) -> _Acks:
    sends = group.table("sends")
    offset, began, ended = (ints(sends, name) for name in ("offset", "invoke_ns", "complete_ns"))
    whole = (offset >= 0) & (began >= 0) & (ended >= 0)
    row = np.flatnonzero(whole & equal(sends, "acked", True))  # noqa: FBT003 - a value
    return _Acks(row=row, offset=offset[row], began=began[row], ended=ended[row])


def _highest_before(acks: _Acks, among: Mask) -> Ints:
    """Return, for each send, the highest offset that was acknowledged before it began, or `NONE`.

    The function sorts the sends once by end time and keeps a running maximum of their offsets.

    Args:
        acks: All acknowledged sends.
        among: The sends whose offsets count.
    """
    ended = np.flatnonzero(among)
    ended = ended[np.argsort(acks.ended[ended], kind="stable")]
    highest = np.append(NONE, np.maximum.accumulate(acks.offset[ended]))
    # Strictly before: for two equal times, the order is unknown.
    return highest[np.searchsorted(acks.ended[ended], acks.began, side="left")]


def _check(group: Group) -> Findings:
    acks = _acks(group)
    everyone = np.ones(len(acks.row), dtype=np.bool_)
    before = _highest_before(acks, everyone)
    found = np.flatnonzero(before > acks.offset)
    fits = send_excuses(group, acks.row) if len(found) else {}
    sound = ~np.logical_or.reduce([~everyone, *fits.values()])
    compared = step_findings(
        int((before >= 0).sum()),
        acks.offset[found],
        lambda index: _describe(group, acks, int(found[index]), sound),
        {excuse: _excused(acks, found, fitting) for excuse, fitting in fits.items()},
    )
    why = "no send began after another was acknowledged, so a wrong order could not be detected"
    return could_not_show(compared, why, given=bool(len(acks.row)))


def _excused(acks: _Acks, found: Ints, fitting: Mask) -> Mask:
    """Return a mask of the misplaced sends that an excuse covers.

    The excuse must apply to the send itself, or to every earlier send with a higher offset.
    """
    highest = _highest_before(acks, ~fitting)
    return fitting[found] | (highest[found] <= acks.offset[found])


def _witness(acks: _Acks, later: int, sound: Mask) -> int:
    """Return the earlier send that best proves that a send is misplaced.

    A send without an excuse is preferred. If that does not decide, the send that ended last is
    returned.
    """
    proves = (acks.ended < acks.began[later]) & (acks.offset > acks.offset[later])
    candidates = np.flatnonzero(proves)
    ranks = (acks.offset[candidates], acks.ended[candidates], sound[candidates])
    return int(candidates[np.lexsort(ranks)[-1]])


def _describe(group: Group, acks: _Acks, later: int, sound: Mask) -> Anomaly:
    sends, name_of = group.table("sends"), group.facts.name_of
    first = _row(sends, int(acks.row[_witness(acks, later, sound)]))
    second = _row(sends, int(acks.row[later]))
    return anomaly_at(
        group,
        NAME,
        sentence=f"{name_of(second['value'])}, sent by op {second['op_id']} at"
        f" {seconds(second['invoke_ns'])}, got offset {second['offset']} of"
        f" {group.place}, below offset {first['offset']} of {name_of(first['value'])},"
        f" which op {first['op_id']} had sent and which had already been acknowledged at"
        f" {seconds(first['complete_ns'])}",
        evidence={
            "op_id": second["op_id"],
            "value": second["value"],
            "offset": second["offset"],
            "sent_ns": second["invoke_ns"],
            "earlier_op_id": first["op_id"],
            "earlier_value": first["value"],
            "earlier_offset": first["offset"],
            "earlier_acknowledged_ns": first["complete_ns"],
        },
        offset=second["offset"],
    )


def _row(table: pa.Table, row: int) -> dict[str, int]:
    names = ("op_id", "value", "offset", "invoke_ns", "complete_ns")
    return {name: ints(table.slice(row, 1), name).item() for name in names}


def _applies(facts: RunFacts) -> bool:
    return not facts.no_acks


CHECKER = Checker(
    name=NAME,
    why=out_of_order,
    words=Words(
        one="write got a higher offset than a later write",
        many="writes got higher offsets than later writes",
        means="A send that had ended before another one began has the higher offset.",
        promise="A send that begins after another send was acknowledged gets a higher offset.",
        explains={
            "nonmonotonic-send": (
                "two sends of one process in the wrong order are also in the"
                " wrong order by the clock"
            ),
            "int-nonmonotonic-send": SAME_OP,
        },
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls", "leadership", "replica_records", "replica_states", "truncations"),
    check=_check,
    applies=_applies,
    promise=Promise.LOG,
    compares="acknowledged sends that began after another one had been acknowledged",
    chapter=Chapter.ORDER,
    of_histories=True,
    looks_for="acknowledged sends whose op ended strictly before another op began, by the single"
    " clock of the run's record. The report names the earlier send that ended last, if"
    " possible a send that no excuse allows",
    meanwhile=Proof.TOLD,
    excuses=TAKES_ACKNOWLEDGED | {Excuse.SEQUENCE},
)
