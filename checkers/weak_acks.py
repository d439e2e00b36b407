"""What may have cost an acknowledged record of acks=1: an election, a restart, a truncation.

With acks=1 the leader alone vouches for a record. It goes where the leader does: another one that
had not fetched it is elected, or the leader comes back without the end of its log. Where nothing of
the kind happened, the leader had the record and lost it, and no promise is too weak for that.

Who acknowledged may have been a leader of before, cut off, that did not know of its successor yet.
So while a fault is in force, and for a while after it, any election of the run may be why; what is
sent at other times goes to the leader that everybody knows.

All of that takes the end of what a leader wrote in its epoch. Where the last leader's log has
another record of the same epoch at that offset or behind it, none of it was the cause.
"""

import numpy as np

from checkers.changes import (
    TOLD_LATE_NS,
    disturbed,
    elected,
    first_told_ns,
    restarted,
)
from checkers.columns import ints, select
from checkers.group import Group


def may_be_dropped(group: Group, offset: int, sent_ns: int, acked_ns: int) -> bool:
    """Tell whether anything happened that may have cost a partition a record of acks=1.

    Args:
        group: The partition.
        offset: Where the record stood, -1 if unknown.
        sent_ns: When it was sent; -1 if unknown.
        acked_ns: When its acknowledgement came; -1 if unknown.
    """
    here = (group.topic, group.partition)
    losses = (each for each in group.facts.disk_losses if each.concerns(*here))
    if any(each.until_ns >= sent_ns for each in losses):
        return True
    unsettled = sent_ns < 0 or disturbed(group.facts, sent_ns, sent_ns)
    since_ns = 0 if unsettled else sent_ns - TOLD_LATE_NS
    cuts, blind = group.table("truncations"), not group.shows_logs
    known = bool(group.truncated(np.array([offset]))[0]) if offset >= 0 else cuts.num_rows > 0
    truncated = known or blind
    happened = truncated or elected(group, since_ns) or restarted(group, since_ns)
    return happened and _at_an_end(group, offset, -1 if unsettled else sent_ns, acked_ns)


def _at_an_end(group: Group, offset: int, sent_ns: int, acked_ns: int) -> bool:
    """Tell whether some leader that may have acknowledged left nothing at an offset or behind it.

    Args:
        group: The partition.
        offset: Where the record stood.
        sent_ns: Since when at least everybody knew the leader; -1: they may not have.
        acked_ns: When it acknowledged.
    """
    log = group.final_log
    if log is None or not log.whole or offset < 0 or acked_ns < 0:
        return True
    begun = group.view(_begun_ns)
    known = max((epoch for epoch, told_ns in begun.items() if told_ns <= sent_ns), default=-1)
    left = set(np.unique(log.epochs[log.offsets >= offset]).tolist())
    may = {
        epoch
        for epoch, told_ns in begun.items()
        if epoch >= known and told_ns <= acked_ns + TOLD_LATE_NS
    }
    return not may or not may <= left


def _begun_ns(group: Group) -> dict[int, int]:
    """Return when each leader epoch was told first."""
    rows = group.table("leadership")
    led = select(rows, (ints(rows, "leader") >= 0) & (ints(rows, "leader_epoch") >= 0))
    epochs = np.unique(ints(led, "leader_epoch")).tolist()
    return {epoch: first_told_ns(group, epoch) for epoch in epochs}
