"""Find the records that may have been truncated, in cases in which the contract allows truncation.

With acks=1, or after an unclean election, an acknowledged record may be dropped, and another record
may get its offset. Two records that are both at their acknowledged offsets were not dropped. So no
excuse applies to an anomaly between these two records.
"""

import numpy as np
import pyarrow as pa

from checkers.changes import SETTLED_NS, was_quiet
from checkers.columns import NEVER, Ints, Mask, equal, ints, present, texts
from checkers.disk_losses import lost_on_disks
from checkers.group import Group
from checkers.protocol import DISK_DOUBTS, DISK_EXCUSES, Excuse
from checkers.reigns import TRANSACTIONS
from checkers.state_losses import disk_reasons
from checkers.unclean_elections import unclean_elections


def dropped(group: Group, offsets: Ints, values: Ints) -> Mask:
    """Return a mask of the records that are not at their offsets in the leader's final log.

    Every record counts as dropped if there is no final log. A record below the log's start also
    counts as dropped, even if retention removed the record.
    """
    log = group.final_log
    if log is None or not len(log.offsets):
        return np.ones(len(offsets), dtype=np.bool_)
    return ~log.holds(offsets, values)


def marker_lost(group: Group, send: pa.Table, *, missed_ns: int = NEVER) -> tuple[str, ...]:
    """Return the excuses for the loss of a transaction's marker, if its record is still in the log.

    Without the marker, the producer's next marker decides for both transactions. An unclean
    election, or a loss on the disks of all replicas, can remove a marker after the record. Such a
    loss of the coordinator's own log can also prevent the write of a marker, or reverse the
    decision. The elections for that log are not recorded.

    Args:
        group: The run's rows of one partition.
        send: The record's row of `sends`; an empty table if the row is unknown. A plain send has no
            marker, so nothing is excused.
        missed_ns: When the marker was missing. Elections and losses that began later do not count.
    """
    if not present(send, "txn_id").any():
        return ()
    offset, begun_ns, known_ns = (
        int(ints(send, name)[0]) for name in ("offset", "invoke_ns", "complete_ns")
    )
    places = np.array([NEVER]), np.array([begun_ns])
    seen = bool(unclean_elections(group).took(*places, missed_ns=missed_ns).any())
    until_ns = min(known_ns + SETTLED_NS if known_ns >= 0 else NEVER, missed_ns)
    unseen = group.facts.plan.unclean_elections and not was_quiet(group, begun_ns, until_ns)
    found = {Excuse.UNCLEAN.value} if seen or unseen else set[str]()
    for end in {max(offset, loss.end_after) for loss in group.facts.disk_losses}:
        # A marker is written at any time after the send began.
        for at_ns in (begun_ns, known_ns):
            found.update(lost_on_disks(group, end, at_ns, missed_ns=missed_ns))
    needed_ns = min(missed_ns, _next_ended_ns(group, send))
    found |= disk_reasons(group.facts, TRANSACTIONS, known_ns=begun_ns, needed_ns=needed_ns)
    return tuple(sorted(found))


def _next_ended_ns(group: Group, send: pa.Table) -> int:
    """Return a time by which all markers of a send's transaction were written.

    A producer sends records of its next transaction only after that. Without such a record, the
    time is the largest integer.
    """
    sends = group.table("sends")
    later = equal(sends, "transactional_id", *texts(send, "transactional_id"))
    later &= equal(sends, "acked", True) & (ints(sends, "op_id") > ints(send, "op_id")[0])  # noqa: FBT003 - a value
    ended_ns = ints(sends, "complete_ns")
    return int(ended_ns[later & (ended_ns >= 0)].min(initial=NEVER))


def taken_by_disks(
    group: Group, offsets: Ints, times_ns: Ints, missed_ns: Ints | None = None
) -> dict[Excuse, Mask]:
    """Return, for each excuse or doubt, a mask of the records that all replicas' disks lost.

    Args:
        group: The run's rows of one partition.
        offsets: The records' offsets.
        times_ns: When each record was known to be in the log.
        missed_ns: When each record was missing. Later losses do not count. None: unknown for all.
    """
    if not group.facts.disk_losses:
        return {}
    until = np.full(len(offsets), NEVER) if missed_ns is None else missed_ns
    rows = zip(offsets.tolist(), times_ns.tolist(), until.tolist(), strict=True)
    told = [lost_on_disks(group, at, known, missed_ns=missed) for at, known, missed in rows]
    return {
        excuse: np.array([excuse.value in each for each in told], dtype=np.bool_)
        for excuse in (*DISK_EXCUSES, *DISK_DOUBTS)
    }
