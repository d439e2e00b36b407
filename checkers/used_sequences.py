"""Find records that no broker wrote, because librdkafka gave them a used sequence number.

With `after_timeout = "go-on"`, a client continues after a timeout and aborts a transaction that has
unanswered sends. The abort drops the queued retries. librdkafka then uses the sequence numbers of
these retries again, in the same producer epoch. If the first try was written, the broker considers
the next record a copy of that record. So the broker acknowledges the next record at the offset of
the first record, as KIP-98 requires. The next record is never written. Kafka's own client avoids
this, because it uses a new epoch instead (KIP-360).

The proof has three parts:

- The log holds another record at the acknowledged offset. This other record has the same
  transactional id, was sent earlier, and was never answered. The transaction of that record was
  aborted.
- At least two markers with the same producer and epoch follow that record. So both transactions had
  the same epoch. But a coordinator may abort a transaction because of its timeout, or because a
  client asks for a new epoch. Then the marker has the next epoch, which no client gets (KIP-360).
  So such a marker counts if the second transaction did not certainly commit, and if the log has no
  record in that next epoch. With transaction version 2, Kafka 4.0.0 raises the epoch once more for
  such an abort (KAFKA-19367).
- No transaction in between wrote a higher sequence number in that epoch. So the next record had
  this number.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from checkers.columns import NEVER, Ints, Mask, equal, ints, present, texts, within
from checkers.group import Group
from checkers.protocol import Excuse, Labels, Premise
from results.record.terms import Outcome

_TWICE_RAISED = (4, 0, 0)
"""The version in which the marker of such an abort may be two epochs above its records."""
_MARKERS = 2
"""The minimum number of markers: one aborts the first transaction, one ends the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedTwice:
    """A sequence number that two records got.

    Attributes:
        op_id: The op that sent the written record.
        held: The value of the written record.
        producer, epoch, sequence: The producer id, producer epoch and sequence number.
    """

    op_id: int
    held: int
    producer: int
    epoch: int
    sequence: int


def used_twice(group: Group) -> Mapping[int, UsedTwice]:
    """Return the values that were acknowledged at another record's offset, but never written."""
    return group.view(_used_twice)


def labels_of(group: Group, values: list[int]) -> Labels:
    """Return the reason that allows several values at one offset, if at most one was written."""
    if group.facts.plan.reuses_sequences and not group.shows_logs:
        return (), (Premise.SHOWN_CAUSE.value,)
    found = used_twice(group)
    left = [value for value in values if value not in found]
    return ((Excuse.SEQUENCE.value,) if len(left) < min(2, len(values)) else ()), ()


def masks_of(group: Group, values: Ints) -> tuple[Mask, Mask]:
    """Return two masks: values acknowledged at the offset of another record, and unknown cases."""
    unknown = np.full(len(values), group.facts.plan.reuses_sequences and not group.shows_logs)
    return within(values, np.array(sorted(used_twice(group)), np.int64)), unknown


def reason_of(group: Group, value: int) -> str:
    """Explain that a used sequence number is the reason why a message was not written; or ""."""
    found = used_twice(group).get(value)
    if found is None:
        return ""
    return (
        f"librdkafka gave the message the sequence number {found.sequence} of producer"
        f" {found.producer} in epoch {found.epoch} a second time:"
        f" {group.facts.name_of(found.held)} of op {found.op_id} had this number and was written,"
        " although it was aborted without an answer; so the broker treated this message as a copy"
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
    failed = equal(sends, "outcome", Outcome.FAIL.value)
    given_up = ~acked & failed
    may_be_aborted = within(values, ints(group.doubtful, "value"))
    ids, ops = texts(sends, "transactional_id"), ints(sends, "op_id")
    raised = 2 if group.facts.plan.version_numbers == _TWICE_RAISED else 1
    found = {}
    for row in stray.tolist():
        at = log.at(int(offsets[row]))
        firsts = np.flatnonzero(values == log.values[at]) if at is not None else np.empty(0, int)
        if at is None or len(firsts) != 1:
            continue
        first = int(firsts[0])
        producer, epoch = int(log.producer_ids[at]), int(log.producer_epochs[at])
        theirs, above = log.producer_ids == producer, log.producer_epochs - epoch
        in_epoch, in_later = (theirs & (log.producer_epochs == epoch), theirs & (above > 0))
        after = (log.controls == 1) & (log.offsets > offsets[row])
        ended, next_one = int((in_epoch & after).sum()), above[in_later & after].min(initial=NEVER)
        unused = not (in_later & (log.controls != 1) & (above <= next_one)).any()
        replaced = may_be_aborted[row] and unused and next_one <= raised
        same = ids[first] == ids[row] and began[first] < began[row]
        higher = in_epoch & (log.controls != 1) & (log.sequences > log.sequences[at])
        between = within(values, log.values[higher]) & (began < began[row])
        same = same and not (between & (ops != ops[first])).any()
        if given_up[first] and same and ended and ended + replaced >= _MARKERS:
            found[int(values[row])] = UsedTwice(
                op_id=int(ops[first]), held=int(values[first]), producer=producer, epoch=epoch,
                sequence=int(log.sequences[at]),
            )  # fmt: skip
    return found
