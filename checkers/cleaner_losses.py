"""Explain the loss of a record that the log cleaner must have kept.

A cleaner wrongly removes committed records if it takes their transaction for an aborted one. This
happens if the marker of an earlier abort of the same producer is missing (KAFKA-14055). So the
sentences name such an abort.
"""

from collections.abc import Sequence

import numpy as np

from checkers.acknowledger import Acked, Acknowledger, cut_at, moved, read_whole, shrank
from checkers.cleaned import keys_in, may_stand
from checkers.columns import equal, ints, select, texts
from checkers.facts import FINAL
from checkers.group import Group, Leader, ReplicaLog
from checkers.successors import had, readers_of
from checkers.transactions import READ_COMMITTED
from results.record.terms import Outcome


def removed_by_cleaner(group: Group, record: Acked, by: Sequence[Acknowledger]) -> str:
    """Return a clause if the cleaner of the acknowledging leader must have removed a record, or "".

    If no reader and no log shows that the leader had the record, the clause also says that the
    leader may never have written it.

    At the end of the run, the log of this leader goes on beyond the record, but lacks the record.
    Nothing truncated this log at the record, or at a lower offset. The log never shrank to the
    record or below. And no other message of its key may have been behind the record.

    Args:
        group: The run's rows of one partition.
        record: The missing record.
        by: The leaderships that may have acknowledged the record. All are of the same broker.
    """
    node = by[0].node
    log = group.logs.get(FINAL, {}).get(node)
    if not group.facts.compacted or not group.shows_cuts or log is None:
        return ""
    if moved(group) or not read_whole(group, node) or _may_have_a_successor(group, record):
        return ""
    inside = log.start <= record.offset < log.read_end and log.at(record.offset) is None
    cut = cut_at(group, record, node) is not None or shrank(group, record, node)
    if not inside or cut or had(group, record, node):
        return ""
    reads = readers_of(group, record)
    ops = [reads.get(Leader(broker=each.broker, epoch=each.epoch)) for each in by]
    read = next((each for each in ops if each is not None), None)
    returned = "" if read is None else f" and returned it to op {read}"
    written = read is not None or _copied(group, record, {each.epoch for each in by})
    never = "" if written else ", or the broker never wrote it"
    return (
        f"{returned}; {node}'s log goes on beyond the offset, and recorded no truncation there, but"
        f" lacks the record: a log cleaner must have removed it{never}"
        f"{_without_its_marker(group, record.value, log)}"
    )


def abort_before_final_read(group: Group, value: int) -> str:
    """Return a clause about an abort that may hide a record from a read_committed reader, or "".

    The last leader's log has the record, but lacks the marker of an earlier abort of its producer.
    """
    isolations = texts(group.table("final_reads"), "isolation")
    if group.final_log is None or not group.facts.compacted or READ_COMMITTED not in isolations:
        return ""
    return _without_its_marker(group, value, group.final_log)


def _may_have_a_successor(group: Group, record: Acked) -> bool:
    """Return whether another message of the record's key may have been behind the record.

    The cleaner may remove the record because of such a message, which may have been lost later.
    """
    if not group.facts.plan.keys:
        return True
    sends = group.table("sends")
    values, offsets = ints(sends, "value"), ints(sends, "offset")
    other = (values >= 0) & (values != record.value) & may_stand(group, values)
    other &= (offsets < 0) | (offsets > record.offset)
    key = keys_in(group, np.array([record.value]))[0]
    return bool((keys_in(group, values[other]) == key).any())


def _copied(group: Group, record: Acked, epochs: set[int]) -> bool:
    """Return whether a final log has the record with one of these leader epochs.

    If so, the leader of that epoch had the record earlier.
    """
    return any(
        not epochs.isdisjoint(log.epochs[log.values == record.value].tolist())
        for log in group.logs.get(FINAL, {}).values()
    )


def _without_its_marker(group: Group, value: int, log: ReplicaLog) -> str:
    """Return a clause if a log lacks the marker of the last abort of a record's producer, or ""."""
    sends = group.table("sends")
    own = select(sends, ints(sends, "value") == value)
    client = next(iter(texts(own, "transactional_id")), "")
    producers = {
        each
        for one in group.logs.get(FINAL, {}).values()
        for each in one.producer_ids[one.values == value].tolist()
    }
    if not client or len(producers) != 1:
        return ""
    offsets, offset = ints(sends, "offset"), int(ints(own, "offset").max())
    failed = equal(sends, "transactional_id", client) & equal(sends, "outcome", Outcome.FAIL.value)
    at = int(offsets[failed & (offsets < offset)].max(initial=-1))
    markers = (log.controls == 1) & (log.producer_ids == producers.pop())
    if at < 0 or (markers & (log.offsets > at) & (log.offsets < offset)).any():
        return ""
    return (
        f"; {log.node}'s log lacks the marker of an earlier abort of its producer, behind offset"
        f" {at}"
    )
