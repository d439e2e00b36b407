"""Find the marker that ends a record's transaction, or who left it out or removed it."""

import numpy as np

from checkers.cleaned import keys_in
from checkers.client_reasons import Sent, log_with, marker_doubt, sent
from checkers.columns import equal, ints, select, texts
from checkers.findings import seconds
from checkers.group import Group, ReplicaLog
from checkers.group_reasons import as_leaders, coordinators, op_span, served_by
from checkers.late_records import marker_before
from checkers.reigns import TRANSACTIONS
from checkers.transactions import READ_COMMITTED
from results.record.keys import COMMIT_MARKER_KEY
from results.record.terms import Outcome


def marker_behind(group: Group, offset: int, value: int) -> str:
    """Return a clause with the offset of a transaction's marker; "" if the offset is unknown."""
    found, mine = log_with(group, offset, value), sent(group, value)
    if found is None or mine is None or not mine.in_txn:
        return ""
    log, at = found
    producer = int(log.producer_ids[at])
    behind = np.flatnonzero(log.producer_ids[at:] == producer)[1:] + at
    markers = behind[log.controls[behind] == 1]
    if producer < 0 or not len(markers):
        return ""
    others_sent = [
        (sent(group, int(log.values[each])), int(log.offsets[each]))
        for each in behind
        if each < markers[0]
    ]
    next_ = [(each, its) for each, its in others_sent if each and each.op_id != mine.op_id]
    place = int(log.offsets[markers[0]])
    if next_:
        other, its = next_[0]
        lost = marker_doubt(group, offset, mine.sent_ns, below=its)
        blamed = _removed(group, log, at, other, below=its) or (
            f"{marker_before(log, at)}{_who_ends(group, mine.op_id, offset)}"
            f"{f', or the marker was lost: {lost}' if lost else ''}"
        )
        gave_up = _gave_up(group, other.op_id)
        return (
            f"no marker ends its transaction: the next marker of its producer, at offset {place},"
            f" follows op {other.op_id}'s record{gave_up} and ends both transactions; {blamed}"
        )
    return f"its transaction's marker is at offset {place}"


def _removed(group: Group, log: ReplicaLog, at: int, later: Sent, *, below: int) -> str:
    """Return proof that a cleaner removed a transaction's marker, but kept its record; or "".

    A read with read_committed got the record before the producer's next transaction began. So at
    that time, the leader's log had the marker. Cleaners must keep a marker as long as a record of
    its transaction is in the log (KAFKA-14055, KAFKA-8351).

    Args:
        group: The partition.
        log: A replica's log.
        at: The record's row.
        later: The first send of the next transaction of the record's producer.
        below: The offset of that send's record.
    """
    offset, rows_between = int(log.offsets[at]), int((log.offsets[at + 1 :] < below).sum())
    if not group.facts.compacted or rows_between == below - offset - 1:
        return ""
    polls = group.table("polls")
    mine = equal(polls, "isolation", READ_COMMITTED) & (ints(polls, "offset") == offset)
    mine &= ints(polls, "value") == log.values[at]
    ended, ops = (ints(polls, name)[mine] for name in ("complete_ns", "op_id"))
    early = np.flatnonzero((ended >= 0) & (ended < later.sent_ns))
    if not len(early):
        return ""
    first = early[np.argmin(ended[early])]
    return (
        f"the marker was there at {seconds(int(ended[first]))}, when op {int(ops[first])} read the"
        f" record as committed, before op {later.op_id} began: a cleaner of {log.node} removed the"
        f" marker and kept the record{_same_key(group, log, at)}"
    )


def _same_key(group: Group, log: ReplicaLog, at: int) -> str:
    """Return a clause about the first later record that has the key of a commit marker; or ""."""
    if not group.facts.plan.keys:
        return ""
    sent_later = np.flatnonzero(log.values[at:] >= 0) + at
    same = sent_later[keys_in(group, log.values[sent_later]) == COMMIT_MARKER_KEY]
    if not len(same):
        return ""
    return f"; the record at offset {int(log.offsets[same[0]])} has the key of a commit marker"


def _gave_up(group: Group, op_id: int) -> str:
    sends = group.table("sends")
    failed = equal(sends, "outcome", Outcome.FAIL.value) & (ints(sends, "op_id") == op_id)
    return ", which did not commit," if failed.any() else ""


def _who_ends(group: Group, op_id: int, offset: int) -> str:
    """Return a clause that blames a missing marker on the coordinator, the leader, or both."""
    sends, span = group.table("sends"), op_span(group, "sends", op_id)
    ids = texts(select(sends, ints(sends, "op_id") == op_id), "transactional_id")
    by = coordinators(group.facts, TRANSACTIONS, ids[0], span)
    leader = served_by(group, span, offset).replace("its leader", f"leader of {group.place}")
    coordinator = f"{as_leaders(by)}," if len(by) == 1 else "its coordinator"
    if len(by) == 1 and leader.startswith(f"{by[0].node},"):
        return f"{coordinator[:-1]} and{leader.removeprefix(by[0].node)[1:]}, wrote no marker"
    leader = f"{leader}," if leader else "the leader"
    return f"{coordinator} sent no marker, or {leader} appended none"
