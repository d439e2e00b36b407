"""Where librdkafka gave two records one sequence number: a broker takes the second for a copy.

A client that goes on after a time-out (`after_timeout = "go-on"`) aborts a transaction with sends
that nobody answered. The abort drops what waits to be sent once more, and librdkafka then uses
those sequence numbers again, in the same producer epoch. If the first try was written after all,
the broker takes the next record for a copy of it, and acknowledges it at the place of the first:
that is what KIP-98 asks of it. The second record is never written. Kafka's own client takes a new
epoch then (KIP-360), so of it nothing is excused.

What proves it: the log holds another record where this one was acknowledged. That one is of the
same transactional id, sent before, never answered, and its transaction was aborted. Behind it stand
two markers of its producer in its epoch: so the epoch was the same for both transactions. No
transaction between them wrote a higher number in that epoch: so the second record had this one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from checkers.columns import Ints, Mask, equal, ints, present, texts, within
from checkers.group import Group
from checkers.protocol import Excuse, Labels, Premise
from results.record.terms import Outcome

_MARKERS = 2
"""The abort of the first transaction, and the end of the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedTwice:
    """A sequence number of two records.

    Attributes:
        op_id: That sent the record which was written.
        held: Its value.
        producer, epoch, sequence: The number, and whose.
    """

    op_id: int
    held: int
    producer: int
    epoch: int
    sequence: int


def used_twice(group: Group) -> Mapping[int, UsedTwice]:
    """Return the values that were acknowledged in the place of others, and never written."""
    return group.view(_used_twice)


def labels_of(group: Group, values: list[int]) -> Labels:
    """Return what excuses values of one place, if all but one of them were never written there."""
    if group.facts.plan.reuses_sequences and not group.shows_logs:
        return (), (Premise.SHOWN_CAUSE.value,)
    found = used_twice(group)
    left = [value for value in values if value not in found]
    return ((Excuse.SEQUENCE.value,) if len(left) < min(2, len(values)) else ()), ()


def masks_of(group: Group, values: Ints) -> tuple[Mask, Mask]:
    """Return of which values that is so, and of which nobody can tell."""
    unknown = np.full(len(values), group.facts.plan.reuses_sequences and not group.shows_logs)
    return within(values, np.array(sorted(used_twice(group)), np.int64)), unknown


def reason_of(group: Group, value: int) -> str:
    """Return what happened to a value, for people; empty if it is none of these."""
    found = used_twice(group).get(value)
    if found is None:
        return ""
    return (
        f"librdkafka gave it the sequence number {found.sequence} of producer {found.producer} in"
        f" epoch {found.epoch}, which {group.facts.name_of(found.held)} of op {found.op_id} had: it"
        " had aborted that one without an answer, though it was written; so the broker took this"
        " one for a copy"
    )


def _used_twice(group: Group) -> dict[int, UsedTwice]:
    log = group.final_log
    if log is None or not group.facts.plan.reuses_sequences:
        return {}
    sends = group.table("sends")
    values, offsets, began = (ints(sends, name) for name in ("value", "offset", "invoke_ns"))
    acked = equal(sends, "acked", True)  # noqa: FBT003 - a value
    written = np.concatenate(
        [each.values for logs in group.logs.values() for each in logs.values()]
    )
    stray = np.flatnonzero(acked & present(sends, "txn_id") & (offsets >= 0))
    stray = stray[~within(values[stray], written)]
    if not len(stray):
        return {}
    given_up = ~acked & equal(sends, "outcome", Outcome.FAIL.value)
    ids, ops = texts(sends, "transactional_id"), ints(sends, "op_id")
    found = {}
    for row in stray.tolist():
        at = log.at(int(offsets[row]))
        firsts = np.flatnonzero(values == log.values[at]) if at is not None else np.empty(0, int)
        if at is None or len(firsts) != 1:
            continue
        first = int(firsts[0])
        producer, epoch = int(log.producer_ids[at]), int(log.producer_epochs[at])
        markers = (log.controls == 1) & (log.producer_ids == producer)
        markers &= (log.producer_epochs == epoch) & (log.offsets > offsets[row])
        same = ids[first] == ids[row] and began[first] < began[row]
        higher = (log.controls != 1) & (log.producer_ids == producer)
        higher &= (log.producer_epochs == epoch) & (log.sequences > log.sequences[at])
        between = within(values, log.values[higher]) & (began < began[row])
        same = same and not (between & (ops != ops[first])).any()
        if given_up[first] and same and int(markers.sum()) >= _MARKERS:
            found[int(values[row])] = UsedTwice(
                op_id=int(ops[first]), held=int(values[first]), producer=producer, epoch=epoch,
                sequence=int(log.sequences[at]),
            )  # fmt: skip
    return found
