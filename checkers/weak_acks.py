"""Decide whether an election, restart or truncation may have lost a record sent with acks=1.

With acks=1 only the leader guarantees a record. The record is lost if a replica without it is
elected, or if the leader restarts and its log lacks the last records. A fault that may have removed
the record's offset from a disk after the send is always a possible cause. In any other case the
leader itself lost a record that it had, and no excuse allows this.

The record may have been acknowledged by an old leader that was cut off and does not know the next
leader. So during a fault, and for a while after it, any election of the run is a possible cause. At
other times, records go to the leader that all brokers know.

If brokers' own logs are not visible, truncations are not recorded. Then a fault after the send is a
possible cause. An election or restart that the system shows is a possible cause, too. If the system
hides elections or restarts, the cause is unknown.

Except for disk faults, each of these causes removes the last records that a leader wrote in its
epoch. The last leader's log may have another record of the same epoch at that offset or later. Then
these events are not the cause.
"""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from checkers.changes import (
    TOLD_LATE_NS,
    disturbed,
    elected,
    first_told_ns,
    restarted,
    tells_restarts,
    was_left_alone,
)
from checkers.columns import NEVER, Ints, Mask, ints, select
from checkers.facts import RunFacts
from checkers.group import Group
from results.record.declared import Sight


def may_be_dropped(group: Group, offset: int, sent_ns: int, acked_ns: int) -> bool:
    """Return whether any known event may have lost a record sent with acks=1.

    Args:
        group: The run's rows of one partition.
        offset: The record's offset. -1 if unknown.
        sent_ns: When the record was sent. -1 if unknown.
        acked_ns: When the record was acknowledged. -1 if unknown.
    """
    if any(
        loss.concerns(group.topic, group.partition)
        and loss.until_ns >= sent_ns
        and (offset < 0 or loss.first_taken <= offset)
        for loss in group.facts.disk_losses
    ):
        return True
    cuts = group.table("truncations")
    known = bool(group.truncated(np.array([offset]))[0]) if offset >= 0 else cuts.num_rows > 0
    happened = known or _happened(group, sent_ns)
    settled_ns = -1 if _unsettled(group, sent_ns) else sent_ns
    return happened and _at_an_end(group, offset, settled_ns, acked_ns)


def nobody_knows(group: Group, offset: int, sent_ns: int, acked_ns: int) -> bool:
    """Return whether an event that the system hides may have lost a record with acks=1.

    Args:
        group: The run's rows of one partition.
        offset: The record's offset. -1 if unknown.
        sent_ns: When the record was sent. -1 if unknown.
        acked_ns: When the record was acknowledged. -1 if unknown.
    """
    settled_ns = -1 if _unsettled(group, sent_ns) else sent_ns
    return not _shows_causes(group.facts) and _at_an_end(group, offset, settled_ns, acked_ns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenCuts:
    """The records with acks=1 that may have been truncated, in a system that hides truncations.

    Attributes:
        may_be: A known event may have lost the record.
        unknown: No such event is known, but the system does not show all such events.
    """

    may_be: Mask
    unknown: Mask


def hidden_cuts(group: Group, sent_ns: Ints) -> HiddenCuts:
    """Return masks of records that may have been truncated, if the system hides truncations.

    Args:
        group: The run's rows of one partition.
        sent_ns: When each record was sent. -1 if unknown.
    """
    if group.shows_cuts:
        none = np.zeros(len(sent_ns), dtype=np.bool_)
        return HiddenCuts(may_be=none, unknown=none)
    # A possible cause for a later record is also possible for an earlier one.
    times = np.unique(sent_ns).tolist()
    spared = bisect_left(times, True, key=lambda at_ns: not _happened(group, at_ns))  # noqa: FBT003 - a value
    may_be = np.asarray(sent_ns < [*times, NEVER][spared], dtype=np.bool_)
    told = _shows_causes(group.facts)
    return HiddenCuts(may_be=may_be, unknown=np.zeros_like(may_be) if told else ~may_be)


def _happened(group: Group, sent_ns: int) -> bool:
    """Return whether a known event may have lost a record with acks=1. Truncations are ignored."""
    facts = group.facts
    since_ns = 0 if _unsettled(group, sent_ns) else sent_ns - TOLD_LATE_NS
    if not group.shows_cuts and not was_left_alone(facts, sent_ns, NEVER):
        return True
    until_ns = NEVER if group.shows_logs else _read_until_ns(group)
    if facts.shows(Sight.LEADER_EPOCHS) and elected(group, since_ns, until_ns):
        return True
    return tells_restarts(facts) and restarted(group, since_ns, until_ns)


def _read_until_ns(group: Group) -> int:
    """Return the end time of the final reads. The brokers' later stop cannot explain a loss."""
    ended_ns = int(ints(group.final_polls, "complete_ns").max(initial=-1))
    return ended_ns if ended_ns >= 0 else NEVER


def _shows_causes(facts: RunFacts) -> bool:
    return facts.shows(Sight.LEADER_EPOCHS) and tells_restarts(facts)


def _unsettled(group: Group, sent_ns: int) -> bool:
    return sent_ns < 0 or disturbed(group.facts, sent_ns, sent_ns)


def _at_an_end(group: Group, offset: int, sent_ns: int, acked_ns: int) -> bool:
    """Return whether the last leader's log may lack an epoch from an offset on.

    The epochs that count are those whose leader may have acknowledged the record. The result is
    true if the log has no record of one of these epochs at the offset or later. The result is also
    true if this is unknown.

    Args:
        group: The run's rows of one partition.
        offset: The record's offset.
        sent_ns: When the record was sent. Every broker knew each epoch that was reported
            `TOLD_LATE_NS` earlier. -1 if this is uncertain.
        acked_ns: When the record was acknowledged.
    """
    log = group.final_log
    if log is None or not log.whole or offset < 0 or acked_ns < 0:
        return True
    begun = group.view(_begun_ns)
    heard_ns = sent_ns - TOLD_LATE_NS
    known = max((epoch for epoch, at_ns in begun.items() if 0 <= at_ns <= heard_ns), default=-1)
    left = set(np.unique(log.epochs[log.offsets >= offset]).tolist())
    may = {
        epoch
        for epoch, told_ns in begun.items()
        if epoch >= known and told_ns <= acked_ns + TOLD_LATE_NS
    }
    return not may or not may <= left


def _begun_ns(group: Group) -> dict[int, int]:
    """Return, for each leader epoch, the time at which it was first reported."""
    rows = group.table("leadership")
    led = select(rows, (ints(rows, "leader") >= 0) & (ints(rows, "leader_epoch") >= 0))
    epochs = np.unique(ints(led, "leader_epoch")).tolist()
    return {epoch: first_told_ns(group, epoch) for epoch in epochs}
