"""Find the marker that ends a record's transaction, or find out why the marker is missing."""

from dataclasses import dataclass

import numpy as np

from checkers.cleaned import keys_in
from checkers.client_reasons import Sent, log_with, marker_doubt, nodes_at, sent
from checkers.columns import Ints, equal, ints, select, texts, within
from checkers.findings import seconds
from checkers.group import Group, ReplicaLog
from checkers.group_reasons import as_leaders, coordinators, op_span, served_by
from checkers.late_records import marker_before
from checkers.reigns import TRANSACTIONS
from checkers.transactions import READ_COMMITTED
from results.record.keys import COMMIT_MARKER_KEY
from results.record.terms import Outcome


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class _Record:
    """A record of a transaction in the log of a replica.

    Attributes:
        group: The run's rows of one partition.
        log: The replica's log.
        at: The record's row in the log.
        mine: The record's send.
    """

    group: Group
    log: ReplicaLog
    at: int
    mine: Sent

    @property
    def offset(self) -> int:
        """The record's offset."""
        return int(self.log.offsets[self.at])

    @property
    def behind(self) -> Ints:
        """The log's rows that the same producer wrote after the record."""
        rows = np.flatnonzero(self.log.producer_ids[self.at :] == self.log.producer_ids[self.at])
        return rows[1:] + self.at

    @property
    def committed(self) -> bool:
        """Whether the record's transaction committed."""
        return self.outcomes(self.mine.op_id) == {Outcome.OK.value}

    def outcomes(self, op_id: int) -> set[str | None]:
        """Return the outcomes of an op's sends to the partition."""
        sends = self.group.table("sends")
        return set(texts(select(sends, ints(sends, "op_id") == op_id), "outcome"))

    @property
    def everywhere(self) -> bool:
        """Whether the final logs of all replicas have the record.

        Otherwise its marker may be missing only because the replica was out of sync for long
        (`checkers.cleaned_markers`).
        """
        nodes = nodes_at(self.group, self.offset, int(self.log.values[self.at]))
        return len(nodes) >= self.group.facts.plan.replication

    def lacks(self, above: int, below: int) -> bool:
        """Return whether a cleaner removed an offset that is between two given offsets."""
        rows = (self.log.offsets > above) & (self.log.offsets < below)
        return self.group.facts.compacted and int(rows.sum()) < below - above - 1


def marker_behind(group: Group, offset: int, value: int) -> str:
    """Return a clause about the marker of a record's transaction; "" if it is not known."""
    found, mine = log_with(group, offset, value), sent(group, value)
    if found is None or mine is None or not mine.in_txn or found[0].producer_ids[found[1]] < 0:
        return ""
    record = _Record(group=group, log=found[0], at=found[1], mine=mine)
    log, behind = record.log, record.behind
    markers = behind[log.controls[behind] == 1]
    first = int(markers[0]) if len(markers) else len(log.offsets)
    others = [(row, sent(group, int(log.values[row]))) for row in behind if row < first]
    later = next(((row, it) for row, it in others if it and it.op_id != mine.op_id), None)
    if not len(markers):
        removed = "" if later else _removed(record, None, below=log.read_end)
        return removed and f"no marker of its producer is behind it; {removed}"
    place = int(log.offsets[first])
    if later is None:
        return f"its transaction's marker is at offset {place}"
    row, other = later
    below = int(log.offsets[row])
    lost = marker_doubt(group, offset, mine.sent_ns, below=below)
    cleaned = ", or a cleaner removed the marker" * record.lacks(offset, below)
    blamed = _removed(record, other, below=below) or (
        f"{marker_before(log, record.at)}{_who_ends(group, mine.op_id, offset)}{cleaned}"
        f"{f', or the marker was lost: {lost}' if lost else ''}"
    )
    failed = Outcome.FAIL.value in record.outcomes(other.op_id)
    gave_up = ", which did not commit," if failed else ""
    return (
        f"no marker ends its transaction: the next marker of its producer, at offset {place},"
        f" follows op {other.op_id}'s record{gave_up} and ends both transactions; {blamed}"
    )


def _removed(record: _Record, later: Sent | None, *, below: int) -> str:
    """Return the proof that a cleaner removed the marker of a committed transaction, or "".

    A read_committed reader got the record before the producer's next transaction began. So by then,
    the leader had written the marker, and no log can have lost it. Cleaners must keep a marker as
    long as a record of its transaction is in the log (KAFKA-14055, KAFKA-8351).

    Args:
        record: The record.
        later: The first send of the producer's next transaction to this partition; None if there is
            none.
        below: The offset of the record of `later`, or the end of the log as far as it was read.
    """
    if not (record.committed and record.everywhere and record.lacks(record.offset, below)):
        return ""
    group, mine = record.group, record.mine
    if marker_doubt(group, record.offset, mine.sent_ns, below=below) or not record.log.whole:
        return ""
    polls = group.table("polls")
    reads = equal(polls, "isolation", READ_COMMITTED) & (ints(polls, "offset") == record.offset)
    reads &= ints(polls, "value") == record.log.values[record.at]
    ended, ops = (ints(polls, name)[reads] for name in ("complete_ns", "op_id"))
    early = np.flatnonzero((ended >= 0) & (ended < later.sent_ns if later else True))
    if not len(early):
        return ""
    first = early[np.argmin(ended[early])]
    before = f", before op {later.op_id} began" if later else ""
    return (
        f"its marker was written by {seconds(int(ended[first]))}, when op {int(ops[first])} read"
        f" the record as committed{before}: a cleaner removed the marker and kept the record"
        f"{_same_key(record, below)}"
    )


def _same_key(record: _Record, below: int) -> str:
    """Return a clause about a committed record that has the key of a commit marker, or "".

    The record must be behind the first offset that the log lacks, where the marker may have been.

    Args:
        record: The record whose marker is missing.
        below: The offset below which the marker must have been.
    """
    log, group = record.log, record.group
    between = log.offsets[(log.offsets > record.offset) & (log.offsets < below)]
    lacking = np.setdiff1d(np.arange(record.offset + 1, below), between)
    later = (log.offsets > lacking.min()) & within(log.values, ints(group.committed, "value"))
    rows = np.flatnonzero(later)
    if not group.facts.plan.keys or not len(rows):
        return ""
    same = log.offsets[rows[keys_in(group, log.values[rows]) == COMMIT_MARKER_KEY]].tolist()
    return f"; the record at offset {same[0]} has the key of a commit marker" if same else ""


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
