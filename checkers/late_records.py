"""Records that lie behind the end of their own transaction.

A Produce request may arrive late, after the coordinator aborted its transaction and the marker was
written. Before KIP-890, a leader still appends the record (KAFKA-14402). The record then belongs to
the producer's next transaction. A marker right before the record is a sign of this. That marker is
of the record's producer and epoch, and ends nothing. So no record of the producer lies between the
marker and the producer's previous marker.

The sign is no proof: the marker may have ended an earlier transaction that wrote nothing. It is a
proof in two cases. Another record of the same transaction lies before the marker. Or the leader
appended the marker after the record was sent: a producer sends a record only after the markers of
its earlier transactions.
"""

import numpy as np

from checkers.acknowledger import KNOWN_NS, LOOK_NS
from checkers.columns import equal, ints, present, select
from checkers.group import Group, ReplicaLog


def marker_before(log: ReplicaLog, at: int) -> str:
    """Return the marker before a record that may belong to the record's own transaction.

    Args:
        log: A replica's log.
        at: The record's row.

    Returns:
        The beginning of a sentence for a report; empty if there is no such marker.
    """
    producer, epoch = log.producer_ids[at], log.producer_epochs[at]
    mine = np.flatnonzero(log.producer_ids[:at] == producer)
    last = mine[-2:]
    if not len(last) or not (log.controls[last] == 1).all():
        return ""
    if log.producer_epochs[last[-1]] != epoch:
        return ""
    return (
        f"its own may be that at {int(log.offsets[last[-1]])}, which ends no other record: then it"
        " was appended behind the end of its transaction (KAFKA-14402); else "
    )


def late_end(group: Group, log: ReplicaLog, at: int) -> str:
    """Return where a record's own transaction ended before the record; empty if nothing shows it.

    Args:
        group: The partition.
        log: A replica's log.
        at: The record's row.

    Returns:
        A clause with the marker's offset and the evidence that it ended the record's transaction.
    """
    mine = np.flatnonzero(log.producer_ids[:at] == log.producer_ids[at])
    if not len(mine) or log.controls[mine[-1]] != 1:
        return ""
    last = int(mine[-1])
    if log.producer_epochs[last] != log.producer_epochs[at] or log.producer_ids[at] < 0:
        return ""
    place = f"that transaction's marker stands at {int(log.offsets[last])}"
    earlier = mine[:-1][log.controls[mine[:-1]] == 1]
    ended = mine[:-1][mine[:-1] > (earlier[-1] if len(earlier) else -1)]
    txn, begun_ns = _transaction(group, int(log.values[at]))
    same = [row for row in ended if _transaction(group, int(log.values[row]))[0] == txn >= 0]
    if same:
        return f"{place}, behind its record at {int(log.offsets[same[0]])}"
    if txn >= 0 and not len(ended) and _was_written_after(group, log, last, begun_ns):
        return f"{place}, and was written after the record was sent"
    return ""


def _transaction(group: Group, value: int) -> tuple[int, int]:
    """Return the transaction that sent a value, and when it sent the value; -1 if unknown."""
    sends = group.table("sends")
    rows = select(sends, (ints(sends, "value") == value) & present(sends, "txn_id"))
    if value < 0 or rows.num_rows != 1:
        return -1, -1
    return int(ints(rows, "txn_id")[0]), int(ints(rows, "invoke_ns")[0])


def _was_written_after(group: Group, log: ReplicaLog, row: int, time_ns: int) -> bool:
    """Return whether the leader's log did not have a record yet at some time."""
    led = group.table("leadership")
    brokers = set(ints(led, "leader")[ints(led, "leader_epoch") == log.epochs[row]].tolist()) - {-1}
    if time_ns < 0 or len(brokers) != 1:
        return False
    states = group.table("replica_states")
    told = equal(states, "node", f"n{brokers.pop()}") & present(states, "observed_ns")
    seen = select(states, told & present(states, "log_end_offset"))
    later = ints(seen, "observed_ns") >= time_ns + LOOK_NS + KNOWN_NS
    return bool((later & (ints(seen, "log_end_offset") <= log.offsets[row])).any())
