"""incomplete-leader: a leader began its epoch without records that earlier leaders had committed.

Definition: the start offset of an epoch is below the highest high watermark that leaders of earlier
epochs announced. The start offset is the smallest offset that the records give, or the checkpoints
after a clean stop.

Why it proves something: a leader announces a high watermark when every in-sync replica holds all
records below it. Only an in-sync replica may become the leader. A leader's epoch starts at the end
that the leader's log had at the election. So a start below an announced high watermark shows a
leader that lacked committed records, even if no client read them.

What would not prove it: an old leader may not know that it was replaced, so it may still answer.
But the old leader's high watermark cannot pass the start of the new leader's epoch. The checkpoint
of a killed broker does not count. If the log's beginning was deleted, the known start may be too
high. Then the check may miss an anomaly, but it never reports a false anomaly. The check needs
Kafka 2.2 or later (`announcements`). The anomaly is allowed after an unclean election. It is also
allowed if power losses, wipes or flipped bits removed the records from all replicas, before the
epoch was reported. With ZooKeeper, an epoch may continue after such a loss, so later losses count.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from checkers.acknowledger import KNOWN_NS, looks_at, read_whole
from checkers.announcements import Announcement, Announcements, announcements, announces
from checkers.columns import NEVER, equal, ints, select
from checkers.controllers_log import elected
from checkers.disk_losses import all_lost, lost_on_disks, resets
from checkers.epoch_starts import EpochStart, epoch_starts, goes_back
from checkers.excuses import TAKES_RECORDS
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, number_in, seconds
from checkers.group import LEADER_SOURCES, Group
from checkers.protocol import Chapter, Checker, Excuse, Findings, Labels, Promise, Proved, Waits
from checkers.replica_reasons import (
    begun_by_ns,
    calm_until,
    had_not_got,
    listed,
    not_yet_ns,
    told_ns,
)
from checkers.symptoms import LACKING, OF_A_LOST_END
from checkers.unclean_elections import unclean_elections
from checkers.witnesses import truncations_of
from results.record.declared import Sight
from results.record.terms import AnomalyClass, Source
from results.record.verdict import Anomaly, Words

NAME = "incomplete-leader"
_PERHAPS = ", perhaps with other records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """An epoch that started at an offset which is too low.

    Attributes:
        start: The epoch's start, and its source.
        before: The highest high watermark that earlier epochs announced.
    """

    start: EpochStart
    before: Announcement


def _check(group: Group) -> Findings:
    starts, told = epoch_starts(group), announcements(group)
    if not starts or not len(told):
        return Findings(rows=0)
    highest = told.highest_before(np.array([start.epoch for start in starts], dtype=np.int64))
    pairs = [
        _unexcused(group, told, Incomplete(start=start, before=told[at]))
        for start, at in zip(starts, highest.tolist(), strict=True)
        if at >= 0
    ]
    found = findings(
        len(pairs),
        sorted(
            (pair for pair in pairs if pair.start.offset < pair.before.high_watermark),
            key=lambda pair: (pair.start.offset, pair.start.epoch),
        ),
        lambda pair: _describe(group, pair),
        lambda pair: _labels(group, pair),
    )
    return could_not_show(
        found,
        "no leader began an epoch after another leader had announced a high watermark, so a"
        " leader without all committed records could not be detected",
    )


def _unexcused(group: Group, told: Announcements, pair: Incomplete) -> Incomplete:
    """Return the pair, or one without an excuse: with an announcement after a loss of records.

    An unclean election, or a disk loss on all replicas, explains that a leader lacks what was
    announced before. But the leader must have what was announced since then.
    """
    earlier = told.where(told.epochs < pair.start.epoch)
    since = unclean_elections(group).over_from(pair.start.epoch)
    parts = [earlier.where(earlier.epochs >= since)]
    parts += [earlier.where(earlier.asked_ns > loss.until_ns) for loss in resets(group)]
    highest = [part[int(np.argmax(part.marks))] for part in parts if len(part)]
    pairs = [replace(pair, before=each) for each in highest]
    wrong = [each for each in pairs if each.start.offset < each.before.high_watermark]
    return min([pair, *wrong], key=lambda each: bool(_labels(group, each)[0]))


def _labels(group: Group, pair: Incomplete) -> Labels:
    unclean = unclean_elections(group).between(pair.before.epoch, pair.start.epoch)
    excuses = [Excuse.UNCLEAN.value] if unclean else []
    missing = (pair.start.offset, pair.before.high_watermark - 1)
    times = {"known_ns": pair.before.observed_ns, "missed_ns": begun_by_ns(group, pair.start.epoch)}
    lost = [lost_on_disks(group, offset, **times) for offset in missing]
    return (*excuses, *all_lost(lost)), ()


def _leader_of(group: Group, epoch: int) -> int | None:
    """Return the leader of an epoch from the best source; None if no source names it."""
    rows = group.table("leadership")
    led = select(rows, (ints(rows, "leader_epoch") == epoch) & (ints(rows, "leader") >= 0))
    for source in (*LEADER_SOURCES, Source.METADATA_LOG, Source.METADATA):
        named = ints(select(led, equal(led, "source", source)), "leader")
        if len(named):
            return int(named[0])
    return None


def _describe(group: Group, pair: Incomplete) -> Anomaly:
    start, before = pair.start, pair.before
    leader = _leader_of(group, start.epoch)
    who = "the leader" if leader is None else f"broker {leader}, the leader"
    last = before.high_watermark - 1
    lacked = f"offset {start.offset}"
    if last > start.offset:
        lacked = f"offsets {start.offset} to {last}"
    began = f"{who} of {group.place} in epoch {start.epoch}, began without {lacked}, which had"
    log = group.logs.get(start.snapshot, {}).get(start.node) if start.by_records else None
    if goes_back(group, log, start.offset):
        began = f"{group.place} has a record of epoch {start.epoch} below what had"
    return anomaly_at(
        group,
        NAME,
        sentence=f"{began} been committed: {before.text}, and {start.text}",
        evidence={
            "epoch": start.epoch,
            "leader": leader,
            "start_offset": start.offset,
            "start_of": start.node,
            "snapshot": start.snapshot,
            "start_is": "record" if start.by_records else "checkpoint",
            **before.evidence("announced"),
        },
        offset=start.offset,
    )


def _applies(facts: RunFacts) -> bool:
    # Message formats before 0.11 have no epochs, in records or in checkpoints.
    return announces(facts) and facts.plan.keeps_producer_ids


def _why(group: Group, found: Anomaly) -> str:
    leader, epoch = number_in(found, "leader"), number_in(found, "epoch")
    if back := _goes_back(group, found):
        return Proved(back)
    if leader < 0:
        return (
            "the run's record does not show which broker began that epoch, so the reason is unknown"
        )
    node, begun, told = f"n{leader}", elected(group, epoch), list[str]()
    if begun is not None and begun.unclean:
        ordered = any(
            (each.topic, each.partition) == (group.topic, group.partition)
            and each.known
            and each.may_be(epoch)
            for each in group.facts.unclean_orders
        )
        told.append(f"{node} was elected uncleanly{', as ordered by a fault of the run' * ordered}")
    elif begun is not None:
        calm = ", before any fault" if calm_until(group, told_ns(group, epoch)) else ""
        told.append(f"the controllers elected {node} cleanly{calm} (ISR {list(begun.isr)})")
    told += _held_before(group, found, node, not_yet_ns(group, node, epoch))
    return Proved("; ".join(told)) if told else (
        "the run's record shows neither how that leader was elected, nor which records it had"
        " before"
    )  # fmt: skip


def _goes_back(group: Group, found: Anomaly) -> str:
    """Return a sentence if the epoch of an epoch's first record may be wrong; otherwise ""."""
    if found.evidence.get("start_is") != "record":
        return ""
    logs = group.logs.get(str(found.evidence.get("snapshot")), {})
    return goes_back(group, logs.get(str(found.evidence.get("start_of"))), found.offset)


def _held_before(group: Group, found: Anomaly, node: str, until_ns: int) -> list[str]:
    """Return which brokers had the missing records, and what happened to the leader's own copy."""
    mark, epoch = number_in(found, "announced_high_watermark"), number_in(found, "epoch")
    since_ns, first_ns = number_in(found, "announced_observed_ns"), told_ns(group, epoch)
    told, looks = list[str](), looks_at(group, node)
    before = [each for each in looks if each[0] <= until_ns]
    had = [each for each in before if each[1] >= mark][-1:]
    fell = [
        (one, two) for one, two in pairwise(looks)
        if one[1] >= mark > two[1] and one[0] >= since_ns >= 0 and one[0] <= first_ns
    ][-1:]  # fmt: skip
    same = any(_same(group, found, node, at) for at, _ in [*(one for one, _ in fell), *had][:1])
    if node == f"n{number_in(found, 'announced_by')}" and not same:
        told.append("it had announced these records itself, so it once had them")
    elif fell:
        (was_ns, was), (is_ns, now) = fell[0]
        told.append(
            f"its log end offset was {was} at {seconds(was_ns)}, but {now} at"
            f" {seconds(is_ns)}{': it had them and dropped them' if same else _PERHAPS}"
        )
    elif had:
        so = ", so it had them" if same else _PERHAPS
        told.append(f"its log end offset had been {had[0][1]} at {seconds(had[0][0])}{so}")
    elif not_got := had_not_got(
        group, node, mark, since_ns=since_ns, by=number_in(found, "announced_by"),
        epoch=number_in(found, "announced_epoch"),
    ):  # fmt: skip
        told.append(not_got)
    elif before and before[-1] == [each for each in looks if each[0] < first_ns][-1]:
        told.append(
            f"its last known log end offset was {before[-1][1]}, at {seconds(before[-1][0])}"
        )
    elif ended := [each for each in looks if each[0] < since_ns]:
        told.append(
            f"its log end offset was {ended[-1][1]} at {seconds(ended[-1][0])}, before these"
            " records were announced, and no later observation shows whether it got them"
        )
    elif looks:
        told.append("no observation of its log in that time shows whether it had them")
    return [*told, *_others_with(group, found, node, until_ns)]


def _others_with(group: Group, found: Anomaly, leader: str, until_ns: int) -> list[str]:
    """Name the logs that had the missing records, and the logs that only reached these offsets."""
    mark, had, far = number_in(found, "announced_high_watermark"), list[str](), list[str]()
    for node in (f"n{each}" for each in group.facts.brokers):
        reached = [at for at, end in looks_at(group, node) if at <= until_ns and end >= mark]
        if node != leader and reached:
            same = any(_same(group, found, node, at) for at in reached)
            (had if same else far).append(node)
    told = [f"{listed(had)} had them"] if had else []
    logs = f"the log{'s' * (len(far) > 1)} of {listed(far)} had reached that offset"
    return [*told, f"{logs}{_PERHAPS}"] if far else told


def _same(group: Group, found: Anomaly, node: str, at_ns: int) -> bool:
    """Return whether a log that reached the announced high watermark had the announced records.

    A broker that led before, or followed another leader before, may have other records at the end
    of its log. These records stay there until the broker follows the later leader. A broker that
    follows the later leader knows the later epoch, and has truncated these other records. The
    broker's log does not show the time of that truncation. But if a log grows while its broker
    knows the epoch, the broker is copying that leader's records. The announced records were also
    there if the broker's files were read, and show no truncation that may have come later. In epoch
    0, there is no earlier leader.
    """
    epoch, mark = number_in(found, "announced_epoch"), number_in(found, "announced_high_watermark")
    if any(
        epoch < each.epoch < number_in(found, "epoch") and each.offset < mark
        for each in group.view(epoch_starts)
    ):
        return False  # Leaders in between may have written other records at these offsets.
    if node == f"n{number_in(found, 'announced_by')}":
        return at_ns >= number_in(found, "announced_observed_ns") >= 0
    rows = group.table("leadership")
    knew = equal(rows, "observer", node) & (ints(rows, "leader_epoch") >= epoch)
    times = ints(select(rows, knew), "observed_ns")
    knew_ns = int(times[times >= 0].min(initial=NEVER))
    if epoch > 0 and knew_ns > at_ns:
        return False
    since = [end for seen, end in looks_at(group, node) if knew_ns + KNOWN_NS < seen <= at_ns]
    return (
        epoch == 0
        or any(one < two for one, two in pairwise(since))
        or (
            read_whole(group, node)
            and not any(
                each.node == node and not 0 <= each.observed_ns <= at_ns
                for each in truncations_of(group, mark - 1)
            )
        )
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="leader was elected without all committed records",
        many="leaders were elected without all committed records",
        means=(
            "A new leader's log ended below the high watermark that earlier leaders had announced."
        ),
        promise="A new leader has all records that were committed before it.",
        explains={**OF_A_LOST_END, "high-watermark-regression": LACKING},
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("leadership", "replica_records", "replica_states", "truncations"),
    sees=frozenset({Sight.REPLICA_LOGS, Sight.LEADER_EPOCHS, Sight.HIGH_WATERMARKS}),
    check=_check,
    premises=(),
    applies=_applies,
    promise=Promise.LEADERS,
    compares="starts of leader epochs, compared with what earlier leaders announced",
    chapter=Chapter.REPLICAS,
    looks_for="the smallest known start of each epoch, compared with the highest high watermark"
    " that leaders of earlier epochs announced",
    waits=Waits.STOPPED,
    excuses=TAKES_RECORDS,
)
