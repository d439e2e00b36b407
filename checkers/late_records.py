"""Find records that were appended after the end of their own transaction.

A Produce request may arrive late, after the coordinator aborted its transaction and the marker was
written. Before KIP-890, a leader still appends the record (KAFKA-14402). The record then belongs to
the producer's next transaction. The following is a sign of this. A marker of the same producer and
producer epoch is before the record. No other record of the producer is between this marker and the
record, or between this marker and the producer's previous marker. So the marker ends no other
record.

This sign is not a proof, because the marker may have ended an earlier transaction that wrote
nothing. There are two proofs:

- Another record of the same transaction is before the marker.
- The marker cannot have ended an earlier transaction. No record is between the producer's previous
  marker and this marker, and no transaction in between sent anything to the partition. And the
  producer's next transaction follows the record without a marker in between. A producer begins a
  transaction only after the markers of its previous transaction.
"""

import numpy as np

from checkers.columns import NONE, equal, first_match, ints, present, select, texts
from checkers.group import Group, ReplicaLog


def marker_before(log: ReplicaLog, at: int) -> str:
    """Describe the marker before a record if this marker may end the record's own transaction.

    Args:
        log: A replica's log.
        at: The record's row.

    Returns:
        The beginning of a sentence for a report; "" if there is no such marker.
    """
    producer, epoch = log.producer_ids[at], log.producer_epochs[at]
    mine = np.flatnonzero(log.producer_ids[:at] == producer)
    last = mine[-2:]
    if not len(last) or not (log.controls[last] == 1).all():
        return ""
    if log.producer_epochs[last[-1]] != epoch:
        return ""
    return (
        f"its own marker may be at offset {int(log.offsets[last[-1]])}, because that marker ends"
        " no other record: then the record was appended after the end of its transaction"
        " (KAFKA-14402); otherwise "
    )


def late_end(group: Group, log: ReplicaLog, at: int) -> str:
    """Return the proof that a record's own transaction ended before the record, or "".

    Args:
        group: The run's rows of one partition.
        log: A replica's log.
        at: The record's row.

    Returns:
        A clause with the marker's offset and the evidence that it ended the record's transaction.
    """
    mine = np.flatnonzero(log.producer_ids[:at] == log.producer_ids[at])
    markers = mine[log.controls[mine] == 1]
    txn = _transaction(group, int(log.values[at]))
    if not len(markers) or txn < 0 or log.producer_ids[at] < 0:
        return ""
    last, before = int(markers[-1]), int(markers[-2]) if len(markers) > 1 else NONE
    txns = {int(row): _transaction(group, int(log.values[row])) for row in mine[mine > before]}
    ended = [row for row in txns if row < last]
    alike = log.producer_epochs[last] == log.producer_epochs[at]
    if not alike or any(each != txn for row, each in txns.items() if row > last):
        return ""  # The record may belong to a transaction that another record began.
    place = f"that transaction's marker stands at {int(log.offsets[last])}"
    same = [row for row in ended if txns[row] == txn]
    if same:
        return f"{place}, behind its record at {int(log.offsets[same[0]])}"
    next_ = _next_begins(group, log, at)
    written = [int(row) for row in mine[mine < last] if log.values[row] >= 0]
    previous = _transaction(group, int(log.values[written[-1]])) if written else NONE
    if ended or next_ < 0 or not _follows(group, previous, txn):
        return ""
    return (
        f"{place}, because no other one can have ended there, and the next one begins at"
        f" {int(log.offsets[next_])}"
    )


def _transaction(group: Group, value: int) -> int:
    """Return the transaction that sent a value; -1 if unknown."""
    sends = group.table("sends")
    at = first_match(np.array([value]), ints(sends, "value"))[0]
    return int(ints(sends, "txn_id")[at]) if at >= 0 and value >= 0 else -1


def _next_begins(group: Group, log: ReplicaLog, at: int) -> int:
    """Return the row in which a producer's next transaction begins; -1 if a marker comes first."""
    txn = _transaction(group, int(log.values[at]))
    for row in np.flatnonzero(log.producer_ids[at + 1 :] == log.producer_ids[at]) + at + 1:
        if log.controls[row] == 1:
            return NONE
        begun = _transaction(group, int(log.values[row]))
        if begun != txn:
            return int(row) if begun >= 0 else NONE
    return NONE


def _follows(group: Group, previous: int, txn: int) -> bool:
    """Return whether a producer sent nothing to the partition between two of its transactions.

    Args:
        group: The run's rows of one partition.
        previous: The earlier transaction. -1 if there is none.
        txn: The later transaction.
    """
    sends = group.table("sends")
    name = texts(select(sends, ints(sends, "txn_id") == txn), "transactional_id")[0]
    mine = select(sends, equal(sends, "transactional_id", name or "") & present(sends, "txn_id"))
    ids, begun = ints(mine, "txn_id"), ints(mine, "invoke_ns")
    if not name or (begun < 0).any() or (previous >= 0 and not (ids == previous).any()):
        return False
    earlier = ids[begun < begun[ids == txn].min()]
    since = begun[ids == previous].max() if previous >= 0 else NONE
    return not (begun[(ids != previous) & np.isin(ids, earlier)] > since).any()
