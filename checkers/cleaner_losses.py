"""Explain the loss of a record that the log cleaner must have kept.

A cleaner wrongly removes committed records if it takes their transaction for an aborted one. This
happens if the marker of an earlier abort of the same producer is missing (KAFKA-14055). So the
sentences name this abort.
"""

from collections.abc import Sequence

from checkers.acknowledger import Acked, Acknowledger, cut_at, moved, read_whole
from checkers.columns import equal, ints, select, texts
from checkers.facts import FINAL
from checkers.group import Group, Leader
from checkers.successors import had, readers_of
from results.record.terms import Outcome


def removed_by_cleaner(group: Group, record: Acked, by: Sequence[Acknowledger]) -> str:
    """Return a clause if the cleaner of the acknowledging leader removed a record, or "".

    At the end of the run, the log of this leader goes on beyond the record, but lacks the record.
    And nothing truncated this log at the record, or at a lower offset.

    Args:
        group: The run's rows of one partition.
        record: The missing record.
        by: The leaderships that may have acknowledged the record. All are of the same broker.
    """
    node = by[0].node
    log = group.logs.get(FINAL, {}).get(node)
    if not group.facts.compacted or log is None or moved(group) or not read_whole(group, node):
        return ""
    inside = log.start <= record.offset < log.read_end and log.at(record.offset) is None
    if not inside or had(group, record, node) or cut_at(group, record, node) is not None:
        return ""
    reads = readers_of(group, record)
    ops = [reads.get(Leader(broker=each.broker, epoch=each.epoch)) for each in by]
    read = next((each for each in ops if each is not None), None)
    returned = "" if read is None else f" and returned it to op {read}"
    written = read is not None or _copied(group, record, {each.epoch for each in by})
    never = "" if written else ", or the broker never wrote it"
    return (
        f"{returned}; {node}'s log goes on beyond the offset, and recorded no truncation there, but"
        f" lacks the record: a log cleaner removed it{never}{aborted_before(group, record.value)}"
    )


def _copied(group: Group, record: Acked, epochs: set[int]) -> bool:
    """Return whether a log has the record of one of these epochs: its leader had it before."""
    return any(
        not epochs.isdisjoint(log.epochs[log.values == record.value].tolist())
        for log in group.logs.get(FINAL, {}).values()
    )


def aborted_before(group: Group, value: int) -> str:
    """Return a clause about the last abort of a record's producer before the record, or ""."""
    sends = group.table("sends")
    own = select(sends, ints(sends, "value") == value)
    client = next(iter(texts(own, "transactional_id")), "")
    if not client:
        return ""
    offsets = ints(sends, "offset")
    failed = equal(sends, "transactional_id", client) & equal(sends, "outcome", Outcome.FAIL.value)
    at = int(offsets[failed & (offsets < ints(own, "offset").max())].max(initial=-1))
    return f"; the producer had aborted a transaction before, at offset {at}" if at >= 0 else ""
