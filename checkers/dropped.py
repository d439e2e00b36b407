"""Which records may have been truncated: what the excuses of weak promises are about.

With acks=1, or after an unclean election, an acknowledged record may be dropped and its offset
given to another one. Two records that both stand where they were acknowledged were never dropped,
so that nothing excuses what is wrong between them.
"""

import numpy as np
import pyarrow as pa

from checkers.changes import SETTLED_NS, was_quiet
from checkers.columns import Ints, Mask, ints
from checkers.disk_losses import lost_on_disks
from checkers.group import Group
from checkers.protocol import DISK_DOUBTS, DISK_EXCUSES, Excuse
from checkers.unclean_elections import unclean_elections

_BEHIND_ALL = int(np.iinfo(np.int64).max)


def dropped(group: Group, offsets: Ints, values: Ints) -> Mask:
    """Tell which records do not stand at their offsets in the leader's final log.

    What no log tells may be gone: where there is none, and below its start, which retention moved.
    """
    log = group.final_log
    if log is None or not len(log.offsets):
        return np.ones(len(offsets), dtype=np.bool_)
    return ~log.holds(offsets, values)


def marker_lost(group: Group, send: pa.Table) -> tuple[str, ...]:
    """Return what may have taken the marker of a transaction and left a record of it.

    The next marker of its producer then decides for both. Whatever takes something behind the
    record may have taken the marker: an unclean election, or disks that lost it on every replica.
    So may an unclean election of the coordinator's own log, before all markers were written; those
    elections nobody records.

    Args:
        group: The partition.
        send: The record's row of `sends`; no row if it is unknown.
    """
    if not send.num_rows:
        return ()
    offset, begun_ns, known_ns = (
        int(ints(send, name)[0]) for name in ("offset", "invoke_ns", "complete_ns")
    )
    elections = unclean_elections(group)
    seen = bool(elections.took(np.array([_BEHIND_ALL]), np.array([begun_ns])).any())
    unseen = group.facts.plan.unclean_elections and not (
        known_ns >= 0 and was_quiet(group, begun_ns, known_ns + SETTLED_NS)
    )
    found = {Excuse.UNCLEAN.value} if seen or unseen else set[str]()
    for end in {max(offset, loss.end_after) for loss in group.facts.disk_losses}:
        found.update(lost_on_disks(group, end, known_ns))
    return tuple(sorted(found))


def taken_by_disks(group: Group, offsets: Ints, times_ns: Ints) -> dict[Excuse, Mask]:
    """Tell which records every replica of the partition lost with its disk, by excuses.

    Args:
        group: A partition's.
        offsets: Of the records.
        times_ns: When each was known to stand there.
    """
    if not group.facts.disk_losses:
        return {}
    pairs = zip(offsets.tolist(), times_ns.tolist(), strict=True)
    told = [lost_on_disks(group, *pair) for pair in pairs]
    return {
        excuse: np.array([excuse.value in each for each in told], dtype=np.bool_)
        for excuse in (*DISK_EXCUSES, *DISK_DOUBTS)
    }
