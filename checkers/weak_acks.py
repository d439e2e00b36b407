"""What may have cost an acknowledged record of acks=1: an election, a restart, a truncation.

With acks=1 the leader alone vouches for a record. It goes where the leader does: another one that
had not fetched it is elected, or the leader comes back without the end of its log. Where nothing of
the kind happened, the leader had the record and lost it, and no promise is too weak for that.

Who acknowledged may have been a leader of before, cut off, that did not know of its successor yet.
So while a fault is in force, and for a while after it, any election of the run may be why; what is
sent at other times goes to the leader that everybody knows.

Where brokers' own logs are not shown, nobody records what was cut. Then a fault after the send may
be why, and what the system shows of elections and restarts; if it shows neither, nobody knows.

All of that takes the end of what a leader wrote in its epoch. Where the last leader's log has
another record of the same epoch at that offset or behind it, none of it was the cause.
"""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from checkers.changes import (
    NEVER_NS,
    TOLD_LATE_NS,
    disturbed,
    elected,
    first_told_ns,
    restarted,
    tells_restarts,
    was_left_alone,
)
from checkers.columns import Ints, Mask, ints, select
from checkers.facts import RunFacts
from checkers.group import Group
from results.record.declared import Sight


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
    cuts = group.table("truncations")
    known = bool(group.truncated(np.array([offset]))[0]) if offset >= 0 else cuts.num_rows > 0
    happened = known or _happened(group, sent_ns)
    settled_ns = -1 if _unsettled(group, sent_ns) else sent_ns
    return happened and _at_an_end(group, offset, settled_ns, acked_ns)


def nobody_knows(group: Group, offset: int, sent_ns: int, acked_ns: int) -> bool:
    """Tell whether what is hidden may have cost a record what `may_be_dropped` does not know of.

    Args:
        group: The partition.
        offset: Where the record stood, -1 if unknown.
        sent_ns: When it was sent; -1 if unknown.
        acked_ns: When its acknowledgement came; -1 if unknown.
    """
    settled_ns = -1 if _unsettled(group, sent_ns) else sent_ns
    return not _shows_causes(group.facts) and _at_an_end(group, offset, settled_ns, acked_ns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenCuts:
    """Which records of acks=1 may have been cut off, where the system does not show that.

    Attributes:
        may_be: Something happened that may have cost the partition a record.
        unknown: Nothing is known, and more may have happened than is shown.
    """

    may_be: Mask
    unknown: Mask


def hidden_cuts(group: Group, sent_ns: Ints) -> HiddenCuts:
    """Tell which records may have been cut off though no cut is recorded; none if cuts are shown.

    Args:
        group: The partition.
        sent_ns: When each was sent; -1 if unknown.
    """
    if group.shows_cuts:
        none = np.zeros(len(sent_ns), dtype=np.bool_)
        return HiddenCuts(may_be=none, unknown=none)
    # Whatever may be why of a later one may be why of an earlier one, too.
    times = np.unique(sent_ns).tolist()
    spared = bisect_left(times, True, key=lambda at_ns: not _happened(group, at_ns))  # noqa: FBT003 - a value
    may_be = np.asarray(sent_ns < [*times, NEVER_NS][spared], dtype=np.bool_)
    told = _shows_causes(group.facts)
    return HiddenCuts(may_be=may_be, unknown=np.zeros_like(may_be) if told else ~may_be)


def _happened(group: Group, sent_ns: int) -> bool:
    """Tell whether anything but a truncation is known that may have cost a record of acks=1."""
    facts = group.facts
    since_ns = 0 if _unsettled(group, sent_ns) else sent_ns - TOLD_LATE_NS
    if not group.shows_cuts and not was_left_alone(facts, sent_ns, NEVER_NS):
        return True
    until_ns = NEVER_NS if group.shows_logs else _read_until_ns(group)
    if facts.shows(Sight.LEADER_EPOCHS) and elected(group, since_ns, until_ns):
        return True
    return tells_restarts(facts) and restarted(group, since_ns, until_ns)


def _read_until_ns(group: Group) -> int:
    """Return when final reads ended: brokers' own stop takes nothing that clients saw missing."""
    ended_ns = int(ints(group.final_polls, "complete_ns").max(initial=-1))
    return ended_ns if ended_ns >= 0 else NEVER_NS


def _shows_causes(facts: RunFacts) -> bool:
    return facts.shows(Sight.LEADER_EPOCHS) and tells_restarts(facts)


def _unsettled(group: Group, sent_ns: int) -> bool:
    return sent_ns < 0 or disturbed(group.facts, sent_ns, sent_ns)


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
