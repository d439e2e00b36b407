"""committed-truncation: a replica dropped a record that was committed.

Definition: a leader held a record and announced a high watermark above that record. Later, a
replica dropped the record. The record is known from an earlier snapshot by offset, epoch and hash.
In addition, a leader's own announcement in an epoch is compared with the leader's later logs. If
such a log has a record of a later epoch below the announced high watermark, the leader dropped
committed records. The same is true if the final log ends below that watermark. If a disk fault may
have removed the records, the evidence reports that. The check needs Kafka 2.2 or later
(`announcements`).

Why it proves something: a leader announces a high watermark only when every in-sync replica holds
all records below it. Every log that has such a record must keep it. A replica that dropped the
record can fetch it again. But until then the replica can be elected without the record. Then
acknowledged messages are lost.

What would not prove it: a follower may truncate records that its leader never had. A record may
seem dropped because the log's beginning was deleted, or because the replica was moved away and came
back. In both cases no truncation is recorded. If the run has not recovered, a final log that is too
short proves nothing after a reassignment.

An announcement proves nothing if the leader's log at that time is unknown. The check takes that log
from the first copy after the announcement. In a scenario, the copies of a step are made after all
brokers were asked. If the leader held another record at the time of the announcement, the leader
dropped that other record later. The other record was committed, too. The announcement must be older
than the copy that still has the record. The anomaly is allowed after an unclean election of a later
epoch. It is also allowed if a power loss, a wipe or a flipped bit removed the records from that
replica.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from checkers.announcements import Announcement, Announcements, announcements, announces
from checkers.changes import disturbed
from checkers.columns import NEVER, NONE, Mask, equal, ints, select, within
from checkers.disk_losses import excuses_of_disk, taken_from
from checkers.epoch_starts import checkpoints, goes_back, runs
from checkers.excuses import TAKES_RECORDS
from checkers.facts import CRASH, FINAL
from checkers.findings import anomaly_at, findings, number_in, seconds, texts_in
from checkers.group import Group, ReplicaLog
from checkers.protocol import Chapter, Checker, Excuse, Findings, Labels, Premise, Promise, Proved
from checkers.replica_reasons import (
    began_short,
    cut_text,
    fate,
    holders,
    leader_of,
    leader_text,
    stood_still,
    verb,
)
from checkers.symptoms import LACKING, OF_A_LOST_END
from checkers.unclean_elections import unclean_elections
from checkers.witnesses import Truncation, holds, not_earlier, truncations_of
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "committed-truncation"
_FOLLOWED = re.compile(r"^follower of broker (?P<leader>\d+): epoch (?P<epoch>\d+) ends at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A copy of a replica's log, made from its files at one time.

    Attributes:
        asked_ns: The time of the brokers' last answer before the files were copied; -1 if no broker
            answered. For the final copy, it is the largest integer.
    """

    snapshot: str
    log: ReplicaLog
    asked_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """The committed records that a replica no longer has.

    Attributes:
        node: The replica's node.
        first, last, count: The first and the last offset, and the number of records.
        had: The copy that still has the records. It is None if the replica itself announced these
            records as a leader.
        lacks: The log that lacks the records, or holds other records at their offsets.
        after: The snapshot that has the log `lacks`.
        announced: The announcement that shows that the records were committed.
    """

    node: str
    first: int
    last: int
    count: int
    had: Copy | None
    lacks: ReplicaLog
    after: str
    announced: Announcement


def _same(log: ReplicaLog, other: ReplicaLog) -> Mask:
    """Return a mask of the records of one log that another log holds at the same offsets."""
    if not len(other.offsets):
        return np.zeros(len(log.offsets), dtype=np.bool_)
    at = np.minimum(np.searchsorted(other.offsets, log.offsets), len(other.offsets) - 1)
    same = other.offsets[at] == log.offsets
    for name in ("epochs", "hashes", "controls"):
        same &= getattr(other, name)[at] == getattr(log, name)
    return np.asarray(same, dtype=np.bool_)


def _copies(group: Group) -> dict[str, list[Copy]]:
    """Return the readable copies of each node's log, the oldest first."""
    facts, states = group.facts, group.table("replica_states")
    copies: dict[str, list[Copy]] = {}
    for snapshot in (*facts.step_isrs, FINAL):
        told = select(states, equal(states, "snapshot", snapshot))
        last = snapshot == FINAL  # All announcements are older than this copy.
        asked_ns = NEVER if last else int(ints(told, "observed_ns").max(initial=-1))
        for node, log in sorted(group.logs.get(snapshot, {}).items()):
            unit = node if last else f"{snapshot}/{node}"
            if unit not in facts.unreadable_nodes and (not last or log.whole):
                copy = Copy(snapshot=snapshot, log=log, asked_ns=asked_ns)
                copies.setdefault(node, []).append(copy)
    return copies


def _lost_between(group: Group, one: Copy, other: Copy) -> Mask:
    """Return a mask of the records of a copy that the replica's next copy lacks or replaces.

    A record counts only if a truncation or a disk loss is recorded for it.
    """
    start = other.log.start if group.facts.forgets else 0
    lost = ~_same(one.log, other.log) & (one.log.offsets >= start)
    if group.facts.compacted:
        lost &= within(one.log.offsets, other.log.offsets)
    cuts = group.table("truncations")
    mine = select(cuts, equal(cuts, "node", one.log.node))
    recorded = np.zeros(len(lost), dtype=np.bool_)
    for start, end in zip(ints(mine, "from_offset"), ints(mine, "to_offset"), strict=True):
        recorded |= (one.log.offsets >= start) & ((one.log.offsets < end) | (end < 0))
    gone = taken_from(group, one.log.node, one.log.offsets, since_ns=one.asked_ns)
    for taken in gone.values():
        recorded |= taken
    return lost & recorded


def _by_copies(group: Group, told: Announcements) -> tuple[int, list[Dropped]]:
    """Return how many records were compared, and which records were dropped between two copies."""
    copies, since = _copies(group), unclean_elections(group).over_from()
    rows, found = 0, list[Dropped]()
    for mine in copies.values():
        for one, other in pairwise(mine):
            rows += len(one.log.offsets) if len(told) else 0
            lost = _lost_between(group, one, other)
            if lost.any():
                older = told.where((told.observed_ns >= 0) & (told.observed_ns <= one.asked_ns))
                dropped = [
                    each
                    for some in _parts(older, since)
                    for each in _committed(one, other, lost, list(_held(one, some, copies)))
                ]
                found += [_least_excused(group, dropped)] if dropped else []
    return rows, found


def _held(
    copy: Copy, told: Announcements, copies: dict[str, list[Copy]]
) -> Iterator[tuple[Announcement, Mask]]:
    """Yield announcements, each with a mask of a copy's records that the announcement covers.

    A record is covered if the announcing leader held the record below the high watermark.
    """
    for node, logs in copies.items():
        before_ns = -1
        for later in logs:
            first = (told.observed_ns > before_ns) & (told.observed_ns <= later.asked_ns)
            heard = told.where(first & (told.brokers == _broker(node)))
            before_ns = max(before_ns, later.asked_ns)
            if len(heard):
                highest = heard[int(np.argmax(heard.marks))]
                below = copy.log.offsets < highest.high_watermark
                yield highest, below & _same(copy.log, later.log)


def _committed(
    one: Copy, other: Copy, lost: Mask, held: list[tuple[Announcement, Mask]]
) -> Iterator[Dropped]:
    """Yield the lost records that leaders had held and announced as committed."""
    known = [(announced, lost & mask) for announced, mask in held if (lost & mask).any()]
    if not known:
        return
    gone = np.logical_or.reduce([mask for _, mask in known])
    offsets, first = one.log.offsets[gone], int(np.argmax(gone))
    witnesses = [announced for announced, mask in known if mask[first]]
    yield Dropped(
        node=one.log.node,
        first=int(offsets[0]),
        last=int(offsets[-1]),
        count=len(offsets),
        had=one,
        lacks=other.log,
        after=other.snapshot,
        announced=max(witnesses, key=lambda each: each.high_watermark),
    )


def _by_own_word(group: Group, told: Announcements) -> tuple[int, list[Dropped]]:
    """Return how many records were compared, and which announced records their leader dropped."""
    rows, found = 0, dict[str, list[Dropped]]()
    since = unclean_elections(group).over_from()
    for snapshot in sorted(group.logs, key=lambda name: (name in {FINAL, CRASH}, name)):
        for node, log in sorted(group.logs[snapshot].items()):
            own = told.where(told.brokers == _broker(node))
            if not len(own):
                continue
            rows += int(np.searchsorted(log.offsets, own.marks.max()))
            for some in _parts(own, since):
                found.setdefault(node, []).extend(_replaced(log, snapshot, some))
                found[node].extend(_missing(log, snapshot, some))
    return rows, [_least_excused(group, each) for each in found.values() if each]


def _parts(told: Announcements, since: int) -> tuple[Announcements, ...]:
    """Return all announcements, and those of epoch `since` or later. Empty parts are left out."""
    parts = (told, told.where(told.epochs >= since)) if since >= 0 else (told,)
    return tuple(each for each in parts if len(each))


def _least_excused(group: Group, dropped: list[Dropped]) -> Dropped:
    """Return the first loss without an excuse, if possible with all premises; else the first."""
    return min(dropped, key=lambda each: tuple(map(bool, _labels(group, each))))


def _replaced(log: ReplicaLog, snapshot: str, own: Announcements) -> Iterator[Dropped]:
    """Yield announced records of a leader's log that records of later epochs have replaced."""
    parts = runs(log)
    at = own.highest_before(np.maximum(parts.epochs, 0))
    over = np.flatnonzero((at >= 0) & (parts.firsts < own.marks[at]))
    if not len(over):
        return
    ends = np.searchsorted(log.offsets, np.minimum(parts.lasts[over] + 1, own.marks[at[over]]))
    counts = ends - np.searchsorted(log.offsets, parts.firsts[over])
    yield Dropped(
        node=log.node,
        first=int(parts.firsts[over[0]]),
        last=int(log.offsets[ends[-1] - 1]),
        count=int(counts.sum()),
        had=None,
        lacks=log,
        after=snapshot,
        announced=own[int(at[over[0]])],
    )


def _missing(log: ReplicaLog, snapshot: str, own: Announcements) -> Iterator[Dropped]:
    """Yield announced records beyond the end of their leader's final log."""
    highest = own[int(np.argmax(own.marks))]
    end = max(log.read_end, log.start)
    if snapshot == FINAL and end < highest.high_watermark:
        yield Dropped(
            node=log.node,
            first=end,
            last=highest.high_watermark - 1,
            count=highest.high_watermark - end,
            had=None,
            lacks=log,
            after=snapshot,
            announced=highest,
        )


def _broker(node: str) -> int:
    """Return a broker's id (2 for `n2`), or -2 if the name is not the name of a broker."""
    number = node.removeprefix("n")
    return int(number) if number.isdecimal() else -2


def _check(group: Group) -> Findings:
    told = announcements(group)
    compared, dropped = _by_copies(group, told)
    looked_at, owned = _by_own_word(group, told)
    told_twice = [
        own
        for own in owned
        if any(
            each.node == own.node
            and each.first <= own.last
            and own.first <= each.last
            and bool(_labels(group, each)[0]) <= bool(_labels(group, own)[0])
            for each in dropped
        )
    ]
    return findings(
        compared + looked_at,
        sorted(
            (*dropped, *(own for own in owned if own not in told_twice)),
            key=lambda each: (each.first, each.node, each.after),
        ),
        lambda each: _describe(group, each),
        lambda each: _labels(group, each),
    )


_SUFFERED = {
    Excuse.POWER.value: "had lost power",
    Excuse.WIPE.value: "had been wiped",
    Excuse.FLIP.value: "had a bit flipped",
    Excuse.UNCONFIRMED.value: "may have lost records through an unconfirmed fault",
}


def _by_disk(group: Group, lost: Dropped) -> list[str]:
    held_ns = lost.announced.asked_ns if lost.had is None else lost.had.asked_ns
    return excuses_of_disk(group, lost.node, (lost.first, lost.last), since_ns=held_ns)


def _labels(group: Group, dropped: Dropped) -> Labels:
    # Unclean elections up to that epoch were over when the record was committed.
    unclean = unclean_elections(group).took_after(dropped.first, dropped.announced.epoch)
    excuses = [Excuse.UNCLEAN.value] * unclean + _by_disk(group, dropped)
    if dropped.after != FINAL or dropped.lacks.at(dropped.last) is not None:
        return tuple(excuses), ()
    unread = not dropped.lacks.whole or dropped.node in group.facts.unreadable_nodes
    broken = [Premise.READABLE_LOGS.value] * unread
    moved = disturbed(group.facts, dropped.announced.asked_ns, NEVER, kind="reassignment")
    # A new replica on the old leader's node may not have caught up yet.
    broken += [Premise.RECOVERED.value] * (moved and not group.facts.recovered)
    return tuple(excuses), tuple(broken)


def _how(group: Group, dropped: Dropped) -> list[str]:
    """Return one phrase for each known cause that removed the records."""
    excuses = _by_disk(group, dropped)
    told = [f"{dropped.node} {_SUFFERED[each]}" for each in excuses if each in _SUFFERED]
    led = dropped.announced if f"n{dropped.announced.broker}" == dropped.node else None
    cuts = _cuts(group, dropped.node, dropped.first, led.epoch if led else NONE)
    return told + [cut.text(dropped.first) for cut in cuts]


def _cuts(group: Group, node: str, offset: int, led: int) -> list[Truncation]:
    """Return the recorded truncations of a replica that may have dropped committed records.

    Args:
        group: The run's rows of one partition.
        node: The replica's node.
        offset: The first dropped offset.
        led: The epoch in which the replica led and held the record; -1 if another replica led.
            Truncations before that epoch are left out. A truncation's log line names the newest
            epoch that the follower and its leader shared. If the leader's log has a newer epoch
            that is not above `led`, the truncation was before `led`.

    Returns:
        The truncations. If all are before `led`, the result has all of them.
    """
    own = [each for each in truncations_of(group, offset) if each.node == node]
    found = []
    for cut in own:
        told = _FOLLOWED.search(cut.reason)
        log = group.logs.get(FINAL, {}).get(f"n{told['leader']}") if told else None
        newer = log is not None and told is not None and (
            (log.epochs > int(told["epoch"])) & (log.epochs <= led)
        ).any()  # fmt: skip
        if not newer:
            found.append(cut)
    return found or own


def _describe(group: Group, dropped: Dropped) -> Anomaly:
    announced, node = dropped.announced, dropped.node
    how = _how(group, dropped)
    what = f"offset {dropped.first}"
    if dropped.count > 1:
        what = f"{dropped.count} offsets from {dropped.first} to {dropped.last}"
    when = "" if dropped.after in {FINAL, CRASH} else f" at the end of {dropped.after}"
    held = f"broker {announced.broker} was the leader and had it"
    had = f"as the leader, {node} had it"
    if dropped.had is not None:
        then = f"at the end of {dropped.had.snapshot}"
        had = f"{holds(group, dropped.had.log, dropped.first)} {then}, and {held}"
    return anomaly_at(
        group,
        NAME,
        sentence=f"{node} dropped {what} of {group.place}, which was committed: {had};"
        f" {announced.text}; now {holds(group, dropped.lacks, dropped.first)}{when}"
        f"{''.join(f'; {each}' for each in how)}",
        evidence={
            "node": node,
            "first_offset": dropped.first,
            "last_offset": dropped.last,
            "dropped": dropped.count,
            "before": dropped.had.snapshot if dropped.had else None,
            "after": dropped.after,
            **announced.evidence("announced"),
            "how": how,
        },
        offset=dropped.first,
    )


def _why(group: Group, found: Anomaly) -> str:
    node, first = str(found.evidence.get("node")), found.offset
    after = str(found.evidence.get("after"))
    at = log.at(first) if (log := group.logs.get(after, {}).get(node)) is not None else None
    told = [each for each in texts_in(found, "how") if "truncated" not in each]
    last, epoch = number_in(found, "last_offset"), number_in(found, "announced_epoch")
    own = f"n{number_in(found, 'announced_by')}" == node
    cuts = _cuts(group, node, first, epoch if own else NONE)
    if found.evidence.get("before") is None:
        cuts = not_earlier(group, cuts, number_in(found, "announced_asked_ns"))
    cut_how = ", or ".join(cut_text(each) for each in cuts)
    # After a lower truncation, the log grew again. Another cause may have dropped more.
    sure = any(each.from_offset == first for each in cuts)
    cut_how += ", which may have dropped them" * (not sure)
    kept = [each for each in holders(group, first, last + 1, epoch) if each != node]
    if back := goes_back(group, log, first):
        return Proved(back)
    if log is not None and at is not None:
        later = int(log.epochs[at])
        told.append(f"{leader_text(group, later)} wrote other records there")
        if cuts and leader_of(group, later) != node:
            told[-1] = f"{told[-1]}, and {cut_how}"
        by, since_ns = (number_in(found, f"announced_{each}") for each in ("by", "observed_ns"))
        short = began_short(group, later, last + 1, (by, epoch, since_ns))
        told[-1] += short * (0 <= epoch < later)
    elif cuts and not told:
        told.append(cut_how)
        if log is not None and len(log.epochs) and not (log.epochs >= 0).any():
            told[-1] += ", as followers did before records had leader epochs (KIP-101)"
    elif not told and after == FINAL:
        still = stood_still(group, node, first)
        stood = f"{node}'s log end offset was {first}" if still else ""
        when = f" from {seconds(still[0])} to {seconds(still[1])}" if still else ""
        told += filter(None, [fate(group, node, first) or f"{stood}{when}"])
        told += _above_the_end(group, node, log.read_end if log is not None else first)
    if kept:
        told.append(f"{verb(kept, 'holds', 'hold')} all of them")
    if told:
        words = "; ".join(told)
        return Proved(words) if not cuts or (sure and len(cuts) == 1) else words
    return (
        f"no truncation of {node}'s log was recorded at these offsets, and no fault hit its disk"
        " after it had the records: the reason for the loss is unknown"
    )


def _above_the_end(group: Group, node: str, end: int) -> list[str]:
    """Return a phrase if an epoch in a node's checkpoint starts above the end of the log.

    A truncation always removes such an epoch.
    """
    above = [line for line in checkpoints(group).get(node, ()) if line[1] > end]
    return [
        f"its checkpoint still has epoch {epoch} from offset {start} on, although a truncation"
        " removes such an entry"
        for epoch, start in above[-1:]
    ]


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="committed record was dropped by a replica",
        many="committed records were dropped by replicas",
        means="A replica dropped a record from its log that a leader had announced as committed.",
        promise="Records that were announced as committed are never truncated.",
        explains={
            **OF_A_LOST_END,
            "log-divergence": (
                "a replica that dropped the record and got another one differs from a replica"
                " that kept it"
            ),
            "incomplete-leader": "a replica that dropped the record leads without it",
            "log-end-regression": (
                "for a while the log of the replica that dropped the record was shorter"
            ),
            "epoch-mismatch": "the record was read, and another record was written in its place",
            "high-watermark-regression": LACKING,
        },
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("leadership", "replica_records", "replica_states", "truncations"),
    sees=frozenset({Sight.REPLICA_LOGS, Sight.LEADER_EPOCHS, Sight.HIGH_WATERMARKS}),
    check=_check,
    premises=(),
    applies=announces,
    promise=Promise.STORED,
    compares="records of replicas, compared with the records that were announced as committed",
    chapter=Chapter.REPLICAS,
    looks_for="each copy of a replica's log, compared with the next copy; and each log, compared"
    " with what its own broker had announced as a leader",
    waits="log-end-regression finds this as soon as a broker reports the shorter log",
    excuses=TAKES_RECORDS,
)
