"""Find the records that may have been truncated, in cases in which the contract allows truncation.

With acks=1, or after an unclean election, an acknowledged record may be dropped, and another record
may get its offset. Two records that are both at their acknowledged offsets were not dropped. So no
excuse applies to an anomaly between these two records.
"""

import numpy as np
import pyarrow as pa

from checkers.changes import SETTLED_NS, was_quiet
from checkers.columns import NEVER, NONE, Ints, Mask, equal, ints, present, select, texts
from checkers.disk_losses import first_known_ns, lost_on_disks
from checkers.group import Group
from checkers.protocol import DISK_DOUBTS, DISK_EXCUSES, Excuse
from checkers.reigns import TRANSACTIONS
from checkers.state_losses import disk_reasons
from checkers.unclean_elections import began_ns_of, unclean_elections
from checkers.written_epochs import written_epochs


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


def earliest_acks(group: Group, sends: pa.Table) -> Ints:
    """Return, for each send, the earliest time at which a broker may have acknowledged it.

    An op with several sends ends after its last answer, and a transaction ends after its commit. So
    their records may have been acknowledged at any time since the op began.
    """
    several = present(sends, "txn_id") | (group.facts.plan.sends_per_op > 1)
    return np.where(several, ints(sends, "invoke_ns"), ints(sends, "complete_ns"))


def written_since(group: Group, offset: int, value: int, since_ns: int) -> int:
    """Return a time, or the begin of a record's leader epoch if copies show that it was later."""
    epoch = min(written_epochs(group, offset, value), default=NONE)
    return max(since_ns, began_ns_of(group, epoch))


def known_span(group: Group, offset: int, value: int) -> tuple[int, int]:
    """Return when a value may first have been at an offset, and when this was known."""
    known_ns, sends = first_known_ns(group, offset, value), group.table("sends")
    mine = equal(sends, "acked", True) & (ints(sends, "value") == value)  # noqa: FBT003 - a value
    mine &= ints(sends, "offset") == offset
    since_ns = int(earliest_acks(group, select(sends, mine)).min(initial=known_ns))
    return min(written_since(group, offset, value, since_ns), known_ns), known_ns


def lost_in_span(
    group: Group, offset: int, since_ns: int, known_ns: int, *, missed_ns: int = NEVER
) -> tuple[str, ...]:
    """Return the reasons of `lost_on_disks` for a record that was written in a span of time.

    Args:
        group: The run's rows of one partition.
        offset: The record's offset. -1 if unknown.
        since_ns: The earliest time at which the record may have been acknowledged.
        known_ns: When the record was known to be in the log. -1 if unknown.
        missed_ns: When the record was missing. Losses that began later do not count.
    """
    losses = group.facts.disk_losses if since_ns != known_ns else ()
    until_ns = known_ns if known_ns >= 0 else NEVER
    between = (loss.until_ns for loss in losses if since_ns < loss.until_ns < until_ns)
    times = {since_ns, known_ns, *between}
    told = {each for at in times for each in lost_on_disks(group, offset, at, missed_ns=missed_ns)}
    return tuple(sorted(told - set(DISK_DOUBTS) or told))


def taken_by_disks(
    group: Group,
    offsets: Ints,
    times_ns: Ints,
    missed_ns: Ints | None = None,
    *,
    since_ns: Ints | None = None,
) -> dict[Excuse, Mask]:
    """Return, for each excuse or doubt, a mask of the records that all replicas' disks lost.

    Args:
        group: The run's rows of one partition.
        offsets: The records' offsets.
        times_ns: When each record was known to be in the log.
        missed_ns: When each record was missing. Later losses do not count. None: unknown for all.
        since_ns: The earliest time at which each record may have been written. None: `times_ns`.
    """
    if not group.facts.disk_losses:
        return {}
    until = np.full(len(offsets), NEVER) if missed_ns is None else missed_ns
    since = times_ns if since_ns is None else since_ns
    rows = zip(*(each.tolist() for each in (offsets, since, times_ns, until)), strict=True)
    told = [lost_in_span(group, *row, missed_ns=missed) for *row, missed in rows]
    return {
        excuse: np.array([excuse.value in each for each in told], dtype=np.bool_)
        for excuse in (*DISK_EXCUSES, *DISK_DOUBTS)
    }
