"""never-delivered: a share group finished a partition but never delivered one of its records.

Definition: all of these facts are true. Final reads show a record. No member of the share group
ever received it. At the end, the group's coordinator reported a lag of 0, so the group had finished
every record of every partition. The group started at the beginning of the log, and the record
cannot have reached the delivery limit.

Why it proves something: a share group delivers each record of its topics at least once. The
deliveries of a record end when it is accepted or rejected, or after a maximum number of deliveries
(KIP-932). With a lag of 0, the group will never deliver the record.

What would not prove it:

- A group that had not finished at the end. This is a gap.
- A record above the end offset of the final reads. The group's lag was queried only up to this
  offset.
- A record that may have reached the delivery limit. A client can acquire a record and lose it
  before a poll returns it.

The check computes an upper bound on such acquisitions, and skips records that may have reached the
limit. From the send of the record on, the bound counts:

- two for each join of a member, because each member that joins also leaves;
- one for each member at each fault that ended after the send, or never;
- one for each member each time that such a fault resets client connections;
- one for each later leader epoch of the partition;
- one for each `hold_s` of time;
- one for each member at the end.

The bound also covers faults that drop or delay packets repeatedly (links that stall or flap). Such
a fault does not itself end a connection. A member that gets no answer closes its connection after
10 seconds. The member's session and lock expire after 6 seconds. `hold_s` is the smallest of these
times. A connection that is still being set up has acquired no record. Such a fault may cause more
leader changes, and each new leader begins an epoch. Only one member can hold a record at a time, so
each epoch adds only one acquisition. If an old leader still delivers records, this adds no
acquisition, because the share coordinator refuses the old leader's writes.

If the check skipped a record that no member received, this is a gap, and the verdict is unknown.
The anomaly is allowed if an unclean election, or the disks of every replica, may have lost the
group's state of the record, or records of the partition. Such a loss counts only if it began before
the group had finished. A loss of state that was over before the send does not count. If a loss
allows the anomaly, a skipped record is no gap, either.
"""

import numpy as np
import pyarrow as pa

from checkers.columns import (
    NONE,
    Ints,
    equal,
    first_match,
    ints,
    order_of,
    present,
    select,
    take,
)
from checkers.deliveries import TABLES, applies, delivered, is_in, labels_of
from checkers.excuses import TAKES_RECORDS
from checkers.facts import Disturbance, RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, number_in, seconds
from checkers.group import Group
from checkers.group_reasons import served_by
from checkers.positions import SUBSCRIBE
from checkers.protocol import DISK_DOUBTS, Chapter, Checker, During, Findings, Labels, Promise
from checkers.state_losses import losses
from results.record.clock import NS_PER_S
from results.record.identities import group_of
from results.record.milestones import DRAINED
from results.record.shares import hold_s, limit
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "never-delivered"
_STRIKES_EVERY_NS = 300_000_000
"""The minimum time between two resets, for a fault that resets connections repeatedly."""


def _check(group: Group) -> Findings:
    drained = group.facts.milestone(DRAINED)
    if drained is None or drained.detail.get("failed"):
        why = drained.detail["failed"] if drained else "the group's progress was not queried"
        gap = f"{why}, so the records that the group skipped are unknown"
        return Findings(rows=0, gaps=(gap,))
    kept, sends = _asked(group), group.table("sends")
    sends = take(sends, order_of(ints(sends, "value"), ints(sends, "invoke_ns")))
    at = first_match(ints(kept, "value"), ints(sends, "value"))
    sent_ns = np.append(ints(sends, "invoke_ns"), NONE)[at]
    known = at >= 0
    kept, sent_ns = select(kept, known), sent_ns[known]
    given = delivered(group)
    unread = ints(select(given, ~present(given, "value")), "offset")
    missed = ~is_in(kept, given) & ~np.isin(ints(kept, "offset"), unread)
    chances = _chances(group, sent_ns, ints(kept, "leader_epoch"), drained.at_ns)
    judged = chances < limit(group.facts.plan)
    rows = np.flatnonzero(missed).tolist()
    told = {at_ns: _labels(group, at_ns, drained.at_ns) for at_ns in {*sent_ns[missed].tolist()}}
    labels = {row: told[int(sent_ns[row])] for row in rows}
    open_ = [row for row in labels if not judged[row] and DISK_DOUBTS.keys() >= {*labels[row][0]}]
    found = findings(
        int(judged.sum()),
        np.flatnonzero(missed & judged).tolist(),
        lambda row: _describe(group, kept.slice(int(row), 1), int(sent_ns[row]), drained.at_ns),
        lambda row: labels[row],
        gaps=_in_doubt(group, take(kept, np.array(open_, dtype=np.int64))),
    )
    return could_not_show(
        found,
        (
            "each record may have reached the delivery limit, so a skipped record could not be"
            " detected"
        ),
        given=bool(len(at)),
    )


def _asked(group: Group) -> pa.Table:
    """Return the final reads' records below the offset up to which the group's lag was queried."""
    kept, reads = group.final_polls, group.table("final_reads")
    return select(kept, ints(kept, "offset") < ints(reads, "target_end").max(initial=0))


def _labels(group: Group, sent_ns: int, drained_ns: int) -> Labels:
    """Return the excuses and broken premises for a record that no member got.

    The state of a record is newer than the record. But the group's start offset may be older, and
    may be beyond the end of a log that the partition lost before the record was sent.
    """
    excuses, broken = labels_of(group, sent_ns, drained_ns)
    return tuple(sorted({*excuses, *losses(group, missed_ns=drained_ns)})), broken


def _in_doubt(group: Group, lost: pa.Table) -> tuple[str, ...]:
    """Return a gap if undelivered records may have reached the delivery limit; else nothing."""
    if not lost.num_rows:
        return ()
    first = int(ints(lost, "offset").min())
    what = f"no member got {lost.num_rows} of the records that may have reached the"
    return (f"{group.place}: {what} delivery limit, the first at offset {first}",)


def _chances(group: Group, sent_ns: Ints, epochs: Ints, drained_ns: int) -> Ints:
    """Return how often each record can have been acquired without a delivery, at most.

    Args:
        group: The run's rows of one partition.
        sent_ns: When each record was sent.
        epochs: The leader epoch of each record, or -1 if unknown.
        drained_ns: When the share group had finished.
    """
    facts, moves = group.facts, group.table("assignments")
    joined_ns = np.sort(ints(select(moves, equal(moves, "kind", SUBSCRIBE)), "time_ns"))
    came = len(joined_ns) - np.searchsorted(joined_ns, sent_ns)
    members = _members(facts)
    faults = np.zeros(len(sent_ns), dtype=np.int64)
    for each in facts.disturbances:
        faults += (sent_ns <= each.ended_ns) * (1 + _strikes(each, drained_ns))
    given_up = (drained_ns - sent_ns) / (hold_s(facts.plan) * NS_PER_S)
    most = 2 * came + members * (1 + faults) + _successions(group, epochs) + given_up
    return np.asarray(np.ceil(most), dtype=np.int64)


def _strikes(fault: Disturbance, drained_ns: int) -> int:
    """Return how often a fault can have reset connections before the group had finished."""
    if fault.strikes >= 0:
        return fault.strikes
    lasted_ns = min(fault.ended_ns, drained_ns) - fault.begun_ns
    return max(0, lasted_ns // _STRIKES_EVERY_NS + 1)


def _successions(group: Group, epochs: Ints) -> Ints:
    """Return, for each given leader epoch, the number of the partition's later epochs."""
    told = ints(group.table("leadership"), "leader_epoch")
    last = max(told.max(initial=NONE), epochs.max(initial=NONE))
    return np.asarray(last - epochs, dtype=np.int64)


def _members(facts: RunFacts) -> int:
    plan = facts.plan
    threads = range(plan.concurrency)
    return sum(group_of(each, plan, workers=plan.crews) is not None for each in threads)


def _describe(group: Group, kept: pa.Table, sent_ns: int, drained_ns: int) -> Anomaly:
    offset, value = int(ints(kept, "offset")[0]), int(ints(kept, "value")[0])
    return anomaly_at(
        group,
        NAME,
        sentence=f"offset {offset} of {group.place} (value {value}), sent at {seconds(sent_ns)},"
        " was never delivered to any member of the share group, which had finished all"
        f" records at {seconds(drained_ns)}",
        evidence={"value": value, "sent_ns": sent_ns, "drained_ns": drained_ns},
        offset=offset,
    )


def _why(group: Group, found: Anomaly) -> str:
    rows = delivered(group)
    offsets, found_at = ints(rows, "offset"), found.offset
    behind = int((offsets > found_at).sum())
    later = ints(rows, "told_ns")[offsets > found_at]
    until_ns = int(later.min(initial=number_in(found, "drained_ns")))
    who = served_by(group, (number_in(found, "sent_ns"), until_ns))
    passed = f"members got {behind} records after it; " if behind else ""
    return (
        f"{passed}{f'{who},' if who else 'a broker'} skipped it, or a client did not pass it on:"
        " the run's record does not show which"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="record was never delivered to the share group",
        many="records were never delivered to the share group",
        means="The share group had finished all records, but no member ever got this one.",
        promise="A share group delivers each record at least once.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=(*TABLES, "polls", "sends", "assignments", "final_reads"),
    check=_check,
    applies=applies,
    promise=Promise.GROUPS,
    compares="records that existed at the end and that the share group cannot have given up",
    during=During.AT_END,
    chapter=Chapter.GROUPS,
    looks_for="a record that final reads show, but that no member of the share group got,"
    " although the group had finished all records",
    waits="the group finishes all records only at the end of the run",
    excuses=TAKES_RECORDS,
)
