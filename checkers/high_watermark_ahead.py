"""high-watermark-ahead: a replica's high watermark is higher than the leader's high watermark.

Definition: a broker reported the high watermark h of its replica. A leader that was asked later, in
the same epoch or a later one, announced less than h. The check also compares files after a clean
stop of both brokers: a replica's checkpoint has a high watermark above the end of the last leader's
log.

Why it proves something: a follower's high watermark is never above the leader's high watermark. So
if a replica reports h, all records below h are committed. The leader and all later leaders have
these records, and announce at least h (KIP-101, KIP-207). A follower that is ahead lets nearby
readers (KIP-392) read records that may disappear. Such a follower also announces its high watermark
when it becomes the leader.

What would not prove it: a replaced leader may not know that it was replaced, and then its high
watermark is low. So a high watermark is compared only with leaders of the same or a later epoch. No
answer of a broker names the epoch of its high watermark. But in KRaft, a broker knows an epoch
before its replicas follow the new leader. So the epoch of a high watermark is at most the epoch in
the next metadata answer of the same broker process. If that answer is missing, or if the cluster
uses ZooKeeper, only leaders of the run's last epoch count. A follower that lags has a low high
watermark, never a high one. A checkpoint is not compared if another final log has records of a
later epoch than the last leader's log.

The anomaly is allowed if an unclean election may have begun after the replica's high watermark was
true, but not after the leader's epoch (`followed_epochs.py`). A reported high watermark that is too
high may also come from a disk loss on all replicas that began before the leader's answer. A
checkpoint that is too high may not. The check does not apply to scenarios, to Kafka before 2.2, or
to message formats before 0.11.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.acknowledger import LOOK_NS, Acked, cut_at
from checkers.announcements import (
    Announcement,
    Announcements,
    announcements,
    announces,
    first_highest,
    latest,
)
from checkers.columns import NEVER, NONE, Ints, equal, ints, present, select, take, texts
from checkers.disk_losses import all_lost, lost_on_disks
from checkers.epoch_starts import epoch_starts
from checkers.excuses import TAKES_RECORDS, strength
from checkers.facts import FINAL, RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, known, number_in, seconds
from checkers.followed_epochs import ceilings, floors, rising
from checkers.group import Group
from checkers.protocol import (
    Chapter,
    Checker,
    Excuse,
    Findings,
    Labels,
    Promise,
    Proved,
    Waits,
)
from checkers.replica_reasons import holders, leader_text, verb
from checkers.replica_reasons import told_ns as first_told_ns
from checkers.unclean_elections import unclean_elections
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Evidence, Words

NAME = "high-watermark-ahead"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of the last leader's log after the stop."""

    node: str
    high_watermark: int
    epoch: int

    @property
    def text(self) -> str:
        """The log's end as a phrase for a report."""
        return f"the final log of the last leader {self.node} ends at {self.high_watermark}"

    def evidence(self, word: str) -> Evidence:
        """Return the log's end as evidence. All keys begin with `word`."""
        return {f"{word}_log_of": self.node, f"{word}_log_end": self.high_watermark}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A replica with a high watermark above the leader's high watermark.

    Attributes:
        node: The replica's node.
        mark, told_ns: The high watermark, and the time of the report. The time is -1 if the high
            watermark comes from files after the stop.
        later: The lower high watermark that a leader reported later, or the end of its final log.
        floor: Unclean elections up to this epoch do not explain the high watermark; -1 if unknown.
        count: The number of reports in which the replica's high watermark was too high.
    """

    node: str
    mark: int
    told_ns: int
    later: Announcement | LogEnd
    floor: int
    count: int = 1


def _told_marks(group: Group) -> pa.Table:
    """Return the high watermarks that brokers reported for their own replicas, by time."""
    states = group.table("replica_states")
    told = equal(states, "high_watermark_source", "fetch") & present(states, "observed_ns")
    mine = select(states, told & present(states, "high_watermark"))
    return take(mine, np.argsort(ints(mine, "observed_ns"), kind="stable"))


def _lowest_since(told: Announcements, since_ns: Ints) -> Ints:
    """Return, for each time, the index of the lowest later announcement, or -1."""
    order = np.argsort(told.asked_ns, kind="stable")
    begin = np.searchsorted(told.asked_ns[order], since_ns, side="left")
    backwards = order[::-1]
    return latest(backwards[first_highest(-told.marks[backwards])], len(order) - begin)


def _parts(group: Group, told: Announcements) -> Iterator[Announcements]:
    """Yield all answers, and those before each unclean election and each disk loss."""
    yield told
    for each in unclean_elections(group).found:
        yield told.where(told.epochs < each.epoch)
    for loss in group.facts.disk_losses:
        if loss.concerns(group.topic, group.partition):
            yield told.where(told.observed_ns < loss.began_ns)


def _of_node(
    group: Group, told: Announcements, marks: pa.Table, node: str
) -> tuple[int, list[Ahead]]:
    """Count the high watermarks of a broker that were compared; find the one to report, if any."""
    high, told_ns, lives = (
        ints(marks, name) for name in ("high_watermark", "observed_ns", "incarnation")
    )
    highest, lowest = (each(group, node, told_ns, lives) for each in (ceilings, floors))
    compared, ahead = 0, list[Ahead]()
    for part in _parts(group, told):
        witness = _witnesses(part, told_ns, highest)
        wrong = np.flatnonzero((witness >= 0) & (np.append(part.marks, NONE)[witness] < high))
        compared = max(compared, int((witness >= 0).sum()))
        # A disk loss may explain the first such report, and not the last one.
        ends = [_firsts(np.stack((lowest, witness)), each) for each in (wrong, wrong[::-1])]
        ahead += [
            Ahead(
                node=node, mark=int(high[at]), told_ns=int(told_ns[at]),
                later=part[int(witness[at])], floor=int(lowest[at]), count=len(wrong),
            )
            for at in np.unique(ends).tolist()
        ]  # fmt: skip
    return compared, sorted(ahead, key=lambda each: strength(_labels(group, each)[0]))[:1]


def _firsts(columns: Ints, order: Ints) -> Ints:
    """Return, for each distinct column, its first index in the given order."""
    return order[np.unique(columns[:, order], axis=1, return_index=True)[1]]


def _witnesses(told: Announcements, told_ns: Ints, ceilings: Ints) -> Ints:
    """Return, for each high watermark, the index of the lowest later announcement, or -1."""
    witness = np.full(len(told_ns), NONE)
    for epoch in np.unique(ceilings).tolist():
        at, late = np.flatnonzero(ceilings == epoch), np.flatnonzero(told.epochs >= epoch)
        lowest = _lowest_since(told.where(told.epochs >= epoch), told_ns[at])
        witness[at] = np.append(late, NONE)[lowest]
    return witness


def _stopped(group: Group) -> tuple[int, list[Ahead]]:
    """Count the checkpoints of stopped brokers; find the checkpoints that are too high."""
    states = group.table("replica_states")
    final = select(states, equal(states, "snapshot", FINAL) & present(states, "high_watermark"))
    log, proving = group.final_log, group.facts.proving_nodes
    if log is None or log.node not in proving:
        return 0, []
    newest = max(int(each.epochs.max(initial=NONE)) for each in group.logs[FINAL].values())
    if newest > int(log.epochs.max(initial=NONE)):
        return 0, []  # Other brokers led during the stop, and wrote a transaction's marker.
    pairs = zip(texts(final, "node"), ints(final, "high_watermark").tolist(), strict=True)
    marks = [(node, mark) for node, mark in pairs if node in proving]
    epoch = group.leader.epoch if group.leader else NONE
    later = LogEnd(node=log.node, high_watermark=log.end, epoch=max(epoch, newest))
    mine = {node: each.epochs for node, each in group.logs[FINAL].items()}
    return len(marks), [
        Ahead(
            node=node, mark=mark, told_ns=NONE, later=later,
            floor=int(mine[node].max(initial=NONE)),
        )
        for node, mark in marks
        if mark > log.end
    ]  # fmt: skip


def _check(group: Group) -> Findings:
    told, marks = announcements(group), _told_marks(group)
    looks = [_stopped(group)]
    if len(told):
        for node in sorted(set(texts(marks, "node"))):
            mine = select(marks, equal(marks, "node", node))
            looks.append(_of_node(group, told, mine, node))
    found = findings(
        sum(rows for rows, _ in looks),
        sorted(
            (each for _, found in looks for each in found),
            key=lambda each: (each.later.high_watermark, each.node, each.told_ns),
        ),
        lambda each: _describe(group, each),
        lambda each: _labels(group, each),
    )
    why = (
        "no leader was asked after another broker, so a high watermark above the leader's could"
        " not be detected"
    )
    return could_not_show(found, why)


def _labels(group: Group, ahead: Ahead) -> Labels:
    low, until = ahead.later.high_watermark, rising(group, ahead.later.epoch)
    unclean = unclean_elections(group).took_after(low, ahead.floor, until=until)
    excuses = [Excuse.UNCLEAN.value] if unclean else []
    missed_ns = ahead.later.until_ns if isinstance(ahead.later, Announcement) else NEVER
    lost = [
        lost_on_disks(group, offset, ahead.told_ns, missed_ns=missed_ns)
        for offset in (low, ahead.mark - 1)
    ]
    return (*excuses, *all_lost(lost)), ()


def _describe(group: Group, ahead: Ahead) -> Anomaly:
    when = f"reported at {seconds(ahead.told_ns)}" if ahead.told_ns >= 0 else "after the stop"
    more = f" ({ahead.count} of its reports are too high)" if ahead.count > 1 else ""
    return anomaly_at(
        group,
        NAME,
        sentence=f"{ahead.node}'s high watermark of {group.place} is {ahead.mark} ({when}){more},"
        f" and later {ahead.later.text}",
        evidence={
            "node": ahead.node,
            "high_watermark": ahead.mark,
            "told_ns": known(ahead.told_ns),
            "count": ahead.count,
            **ahead.later.evidence("later"),
        },
        offset=ahead.later.high_watermark,
    )


def _applies(facts: RunFacts) -> bool:
    # A scenario's steps truncate replicas on purpose; committed-truncation reports that.
    # Older formats truncate to a high watermark from seconds before (KIP-101, KIP-279).
    return facts.plan.scenario is None and announces(facts) and facts.plan.keeps_producer_ids


def _why(group: Group, found: Anomaly) -> str:
    node, mark = str(found.evidence.get("node")), number_in(found, "high_watermark")
    told_at = number_in(found, "told_ns")
    end = _end_then(group, node, told_at, mark)
    before = announcements(group)
    before = before.where((before.observed_ns >= 0) & (before.observed_ns <= told_at))
    reached = before.where(before.marks >= mark)
    if 0 <= end < mark and not len(reached):
        ended = (
            f"ended at {end}" if told_at < 0 else (f"was not beyond {end} at the next observation")
        )
        told = [f"{node}'s own log {ended}, so its high watermark is wrong"]
        if len(before):
            last = before[int(np.argmax(before.observed_ns))]
            told.append(
                f"n{last.broker}, leader of epoch {last.epoch}, had announced"
                f" {last.high_watermark} at {seconds(last.observed_ns)}"
            )
        told += _told_before(group, node, told_at)
        return Proved("; ".join(told) + (_by_file(group, node, end) if told_at < 0 else ""))
    unknown = group.facts.forgets or group.facts.compacted
    if (end < 0 and not len(reached)) or unknown:
        return f"the run's record does not show how far {node}'s own log reached"
    return _of_the_others(group, found, end, reached)


def _told_before(group: Group, node: str, told_at: int) -> list[str]:
    """Return a clause if another broker had already reported a high watermark that was too high."""
    told, marks = announcements(group), _told_marks(group)
    found = [
        each
        for other in sorted(set(texts(marks, "node")) - {node})
        for each in _of_node(group, told, select(marks, equal(marks, "node", other)), other)[1]
        if 0 <= each.told_ns < told_at
    ]
    first = min(found, key=lambda each: each.told_ns, default=None)
    if first is None:
        return []
    return [
        (
            f"{first.node} had also reported a high watermark that was too high, {first.mark}, at"
            f" {seconds(first.told_ns)}"
        )
    ]


def _of_the_others(group: Group, found: Anomaly, end: int, reached: Announcements) -> str:
    """Explain, from leaders and final logs, whether records below a high watermark were committed.

    Args:
        group: The run's rows of one partition.
        found: The anomaly.
        end: The end of the replica's own log, -1 if unknown.
        reached: The earlier announcements that were at least as high.
    """
    node, mark = str(found.evidence.get("node")), number_in(found, "high_watermark")
    told_at = number_in(found, "told_ns")
    low, later = number_in(found, "later_high_watermark"), number_in(found, "later_by")
    epoch = number_in(found, "later_epoch")
    # Records that were committed before an epoch have lower epochs.
    earlier = told_at < first_told_ns(group, epoch)
    kept = holders(group, low, mark, epoch - earlier) if low >= 0 else ()
    if f"n{later}" in kept:
        return (
            f"{verb(kept, 'holds', 'hold')} all records below {mark} at the end, so nothing was"
            f" lost: {node} reported them as committed too early, or n{later} announced a high"
            " watermark that was too low"
        )
    starts = [each.offset for each in group.view(epoch_starts) if each.epoch == epoch]
    if earlier and starts and starts[0] < mark:
        begun = leader_text(group, epoch).rstrip(",")
        return (
            f"{begun}, began its epoch at offset {starts[0]} without records that {node} had"
            f" reported as committed: {node} reported too much, or n{later} lacked them"
        )
    if len(reached):
        first = reached[int(np.argmin(reached.observed_ns))]
        return (
            f"n{first.broker}, leader of epoch {first.epoch}, had announced"
            f" {first.high_watermark} at {seconds(first.observed_ns)}: {node} reported no more"
            " than that, and a lower high watermark was announced later"
        )
    if low >= 0:
        return f"the run's record does not show whether all records below {mark} were committed"
    return (
        f"{node}'s own log had reached {end}, so the leader's log lost its end, or never had"
        " these records"
    )


def _by_file(group: Group, node: str, end: int) -> str:
    """Return a clause if a broker's checkpoint is wrong, but its last report is right; else ""."""
    marks = _told_marks(group)
    mine = select(marks, equal(marks, "node", node))[-1:]
    last = int(ints(mine, "high_watermark").max(initial=NONE))
    if not 0 <= last <= end:
        return ""
    at = seconds(int(ints(mine, "observed_ns")[0]))
    return (
        f"; its last report was {last}, at {at}: only the high watermark in its checkpoint"
        " file is wrong"
    )


def _end_then(group: Group, node: str, told_at: int, mark: int) -> int:
    """Return a replica's log end at the time of a report.

    A time of -1 means after the stop. A broker is asked for its log end first, and then for its
    high watermark. So the log may have grown in between. The next observation shows whether the log
    grew. If the log may have been truncated before that observation, the result is -1.
    """
    if told_at < 0:
        log = group.logs.get(FINAL, {}).get(node)
        return log.read_end if log is not None and log.whole else NONE
    states = group.table("replica_states")
    mine = equal(states, "node", node) & present(states, "log_end_offset")
    seen = select(states, mine & (ints(states, "observed_ns") >= told_at)).sort_by("observed_ns")[
        :2
    ]
    times, ends, lives = (
        ints(seen, name) for name in ("observed_ns", "log_end_offset", "incarnation")
    )
    if not len(ends) or times[0] != told_at:
        return NONE
    there = Acked(value=NONE, offset=mark - 1, sent_ns=told_at - LOOK_NS, acked_ns=NONE)
    grew = len(ends) > 1 and lives[0] == lives[1] and cut_at(group, there, node) is None
    known = ends[0] >= mark or grew
    return int(ends.max()) if known else NONE


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="replica had a higher high watermark than its leader",
        many="replicas had higher high watermarks than their leaders",
        means="A replica's high watermark was above one that a leader announced later, or above the"
        " end of the last leader's log.",
        promise="No replica has a higher high watermark than its leader.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("leadership", "replica_records", "replica_states", "truncations"),
    sees=frozenset({Sight.LEADER_EPOCHS, Sight.HIGH_WATERMARKS}),
    check=_check,
    premises=(),
    applies=_applies,
    promise=Promise.LOG,
    compares="high watermarks of replicas, compared with those that their leader announced later",
    chapter=Chapter.REPLICAS,
    looks_for="each high watermark that a broker reported for its own replica, compared with"
    " those that leaders of the same or a later epoch announced afterwards. Each"
    " checkpoint after a clean stop, compared with the end of the last leader's log."
    " Not in scenarios",
    waits=Waits.BEFORE,
    excuses=TAKES_RECORDS,
)
