"""uncommitted-read: a reader was given a record that was not committed.

Definition: a value was polled at an offset, and the first answer asked for after the poll had
ended that announces a high watermark announces one at or below that offset; so does the first one
of the newest epoch in which the poll can have been served, or of a later one. Without such answers
it is not checked.

Why it proves something: readers get what lies below the leader's high watermark, and it never goes
back, not even when another broker leads. So whoever leads after the poll announces more than the
offset that was read.

What would not prove it: an old leader that was cut off, and answers without knowing that another
serves readers by now. It alone proves nothing if a newer epoch was seen by anybody (in ListOffsets,
Metadata, or ZooKeeper) until `SEEN_WITHIN_NS` after the poll and after the answer was asked for: a
leader that serves readers is asked several times a second, and so are all others that hear of it;
while nobody asks at all, as on a machine that stands still, nobody can see it. Nor does a high
watermark that went back later on: that is `high-watermark-regression`. After an unclean election,
and after a power loss of all replicas, it is allowed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.acknowledger import LOOK_NS, Acked, Acknowledger, looks_at
from checkers.announcements import (
    Announcement,
    Announcements,
    announcements,
    announces,
    latest,
)
from checkers.changes import NEVER_NS
from checkers.client_reasons import (
    Sent,
    answerer,
    final_logs,
    in_words,
    nodes_at,
    record_at,
    sent,
    servers,
)
from checkers.columns import NONE, Ints, equal, ints, present, select, take
from checkers.disk_losses import lost_on_disks
from checkers.excuses import TAKES_RECORDS
from checkers.findings import anomaly_at, findings, known, number_in, seconds
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Excuse, Findings, Labels, Promise, Waits
from checkers.replica_reasons import verb
from checkers.successors import reached, reported_isrs
from checkers.unclean_elections import took_value_at
from results.record.declared import Sight
from results.record.terms import AnomalyClass, Source
from results.record.verdict import Anomaly, Words

NAME = "uncommitted-read"
SEEN_WITHIN_NS = 10_000_000_000
"""No leader serves readers for so long without anybody's seeing its epoch."""
_TIMED = (Source.LIST_OFFSETS, Source.METADATA, Source.ZOOKEEPER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncommitted:
    """A value that was read too early.

    Attributes:
        op_id, process: Of the poll that was the first to get it.
        value: -1 if the payload holds none.
        completed_ns: When that poll had ended.
        answer: What a leader announced afterwards.
        is_first: Whether no leader was asked before that one, after the poll.
        readers: How many polls got it before they could.
    """

    offset: int
    op_id: int
    process: int
    value: int
    completed_ns: int
    answer: Announcement
    is_first: bool
    readers: int


def _newest_epochs(group: Group, times_ns: Ints) -> Ints:
    """Return for each time the newest epoch that anybody had seen by then, -1 if none."""
    rows = group.table("leadership")
    seen = select(rows, equal(rows, "source", *_TIMED) & present(rows, "observed_ns"))
    order = np.argsort(ints(seen, "observed_ns"), kind="stable")
    newest = np.maximum.accumulate(ints(seen, "leader_epoch")[order])
    by_then = np.searchsorted(ints(seen, "observed_ns")[order], times_ns, side="right")
    return latest(newest, by_then)


def _first_answers(told: Announcements, epochs: Ints, ended_ns: Ints) -> Ints:
    """Return for each poll the index of the first answer after it, of its epoch or a later one."""
    found = np.empty(len(epochs), dtype=np.int64)
    for epoch in np.unique(epochs).tolist():
        counts = np.flatnonzero(told.epochs >= epoch)
        counts = counts[np.argsort(told.asked_ns[counts], kind="stable")]
        mine = epochs == epoch
        after = np.searchsorted(told.asked_ns[counts], ended_ns[mine], side="right")
        found[mine] = np.append(counts, NONE)[after]
    return found


def _uncommitted(
    polls: pa.Table, told: Announcements, first_told: Ints, answers: Ints
) -> list[Uncommitted]:
    """Return one for each offset, with the poll that ended first; answers are by poll."""
    offsets, ended_ns = ints(polls, "offset"), ints(polls, "complete_ns")
    early = np.flatnonzero((answers >= 0) & (told.marks[answers] <= offsets))
    early = early[np.lexsort((ended_ns[early], offsets[early]))]
    _, first, readers = np.unique(offsets[early], return_index=True, return_counts=True)
    rows = take(polls, early[first])
    columns = {name: ints(rows, name).tolist() for name in ("offset", "op_id", "process", "value")}
    return [
        Uncommitted(
            offset=columns["offset"][at],
            op_id=columns["op_id"][at],
            process=columns["process"][at],
            value=columns["value"][at],
            completed_ns=int(ended_ns[early[first[at]]]),
            answer=told[int(answers[early[first[at]]])],
            is_first=bool(answers[early[first[at]]] == first_told[early[first[at]]]),
            readers=int(readers[at]),
        )
        for at in range(len(first))
    ]


def _check(group: Group) -> Findings:
    told, polls = announcements(group), group.table("polls")
    polls = select(polls, present(polls, "complete_ns"))
    if not len(told):
        return Findings(rows=0)
    ended_ns, offsets = ints(polls, "complete_ns"), ints(polls, "offset")
    first = _first_answers(told, np.zeros(len(offsets), dtype=np.int64), ended_ns)
    doubtful = np.flatnonzero((first >= 0) & (told.marks[first] <= offsets))
    suspects = take(polls, doubtful)
    asked_ns = told.asked_ns[first[doubtful]]  # Later than the poll's end.
    newest = _newest_epochs(group, asked_ns + SEEN_WITHIN_NS)
    newest = np.maximum(newest, ints(suspects, "leader_epoch"))
    answers = _first_answers(told, newest, ended_ns[doubtful])
    return findings(
        int((first >= 0).sum() - (answers < 0).sum()),
        _uncommitted(suspects, told, first[doubtful], answers),
        lambda read: _describe(group, read),
        lambda read: _labels(group, read),
    )


def _labels(group: Group, read: Uncommitted) -> Labels:
    unclean = took_value_at(group, read.offset, [read.value])
    excuses = [Excuse.UNCLEAN.value] if unclean else []
    if group.facts.disk_losses:
        excuses += lost_on_disks(group, read.offset, _known_ns(group, read))
    return tuple(excuses), ()


def _known_ns(group: Group, read: Uncommitted) -> int:
    """Return when a record was first known to be written: clients read ahead of their polls."""
    sends = group.table("sends")
    here = equal(sends, "acked", True) & (ints(sends, "offset") == read.offset)  # noqa: FBT003 - a value
    mine = select(sends, here & (ints(sends, "value") == read.value))
    return int(min([*ints(mine, "complete_ns").tolist(), read.completed_ns]))


def _describe(group: Group, read: Uncommitted) -> Anomaly:
    what = "a record" if read.value < 0 else group.facts.name_of(read.value)
    leader = "leader" if read.is_first else f"leader of epoch {read.answer.epoch}"
    return anomaly_at(
        group,
        NAME,
        sentence=f"op {read.op_id} (process {read.process}) read {what} at offset {read.offset} of"
        f" {group.place} at {seconds(read.completed_ns)}, which was not committed: the first"
        f" {leader} to be asked after that, {read.answer.text}",
        evidence={
            "value": known(read.value),
            "offset": read.offset,
            "op_id": read.op_id,
            "process": read.process,
            "completed_ns": read.completed_ns,
            "polls": read.readers,
            **read.answer.evidence("announced"),
        },
        offset=read.offset,
    )


def _why(group: Group, found: Anomaly) -> str:
    """Return who served it, or announced too little, from the acknowledgement and the logs."""
    value, offset, mine = number_in(found, "value"), found.offset, _vouched(group, found)
    announcer = (number_in(found, "announced_by"), number_in(found, "announced_epoch"))
    it = f"n{announcer[0]}, leader of epoch {announcer[1]},"
    reads = {number_in(found, "op_id"): number_in(found, "completed_ns")}
    led = servers(group, value, reads)
    had = [each for each in led if (each.broker, each.epoch) != announcer]
    if had and (instead := _written_instead(group, found)):
        acked = f"; it had been acknowledged at {seconds(mine.acked_ns)}" if mine else ""
        return (
            f"{in_words(had)} served it{_beyond_own(group, found, had)}{acked}; {it} led without"
            f" it, and wrote {instead} there"
        )
    if mine and mine.acked_ns < number_in(found, "announced_asked_ns"):
        by = answerer(group, mine.sent_ns, mine.acked_ns)
        acked = f"{by} had acknowledged it (acks=all) at {seconds(mine.acked_ns)}"
        if by != it:
            return f"{acked}: that and the read came too early, or {it} announced too little"
        mark = number_in(found, "announced_high_watermark")
        alone = {(each.broker, each.epoch) for each in led} == {announcer}
        kept_back = _kept_back(group, found, mine, did="acknowledged" + " and served" * alone)
        return f"{acked}, and announced {mark} until {kept_back}"
    sends = sent(group, value)
    gone = final_logs(group) and value >= 0 and not nodes_at(group, offset, value)
    if gone and not (sends and sends.acked):
        return (
            f"{in_words(led)} served it above the high watermark: it was never acknowledged, and no"
            " log holds it there at the end"
        )
    return f"{in_words(led)} served it above the high watermark, or {it} announced too little"


def _beyond_own(group: Group, found: Anomaly, served: Sequence[Acknowledger]) -> str:
    """Say so if who served a record told afterwards that it was not committed: no mark goes back.

    Within one life of its process, that is: who starts anew may have an older one.
    """
    if len(served) != 1:
        return ""
    rows, offset = group.table("leadership"), number_in(found, "offset")
    own = equal(rows, "source", Source.LIST_OFFSETS) & equal(rows, "observer", served[0].node)
    told = select(rows, own & equal(rows, "leader_epoch", served[0].epoch))
    marks, lives = ints(told, "high_watermark"), ints(told, "incarnation")
    later = ints(told, "asked_ns") >= number_in(found, "completed_ns")
    low = np.flatnonzero(later & (marks >= 0) & (marks <= offset))
    if not len(low) or len(set(lives.tolist())) != 1:
        return ""
    seen_ns = ints(told, "observed_ns")[low]
    mark, last_ns = int(marks[low[seen_ns.argmax()]]), int(seen_ns.max())
    return f" beyond its own high watermark, which it told as {mark} still at {seconds(last_ns)}"


def _vouched(group: Group, found: Anomaly) -> Sent | None:
    """Return the plain send of a value if all replicas were to have it when it was acknowledged."""
    mine = sent(group, number_in(found, "value"))
    if mine is None or not mine.acked or mine.weak or mine.in_txn or mine.acked_ns < 0:
        return None
    return mine if mine.offset == found.offset else None


def _written_instead(group: Group, found: Anomaly) -> str:
    """Return what the announcing leader itself wrote at that offset instead; empty if nothing."""
    node, offset = f"n{number_in(found, 'announced_by')}", number_in(found, "offset")
    log = next((each for each in final_logs(group) if each.node == node), None)
    at = log.at(offset) if log is not None else None
    if log is None or at is None or int(log.epochs[at]) != number_in(found, "announced_epoch"):
        return ""
    value = int(log.values[at])
    if value == number_in(found, "value"):
        return ""
    return group.facts.name_of(value) if value >= 0 else "another record"


def _kept_back(group: Group, found: Anomaly, mine: Sent, *, did: str) -> str:
    """Return until when a leader announced too little, and what the logs of its ISR say of that.

    A record is committed once all in the ISR have it: then nothing keeps the high watermark back.

    Args:
        group: The partition.
        found: What was read too early.
        mine: Its send.
        did: What the leader is known to have done with it.
    """
    asked_ns, until_ns = _last_low(group, found)
    leader = Acknowledger(
        broker=number_in(found, "announced_by"), epoch=number_in(found, "announced_epoch")
    )
    record = record_at(group, number_in(found, "value"), mine.offset)
    followers = sorted(_isr_meanwhile(group, leader, mine.acked_ns, until_ns) - {leader.broker})
    reached_ns = [_reached_ns(group, record, f"n{each}") for each in followers]
    when = seconds(until_ns)
    if followers and max(reached_ns) < asked_ns:
        nodes = [f"n{each}" for each in followers]
        return (
            f"{when}, though {verb(nodes, 'was', 'were')} seen to end behind it by"
            f" {seconds(max(reached_ns))}, with it the whole ISR: nothing kept its high watermark"
            " back, and it stood still"
        )
    mark = number_in(found, "announced_high_watermark")
    ends = [_end_by(group, f"n{each}", mine.sent_ns, asked_ns) for each in followers]
    if followers and min(end for end, _ in ends) > mark:
        nodes, by_ns = [f"n{each}" for each in followers], max(seen for _, seen in ends)
        return (
            f"{when}, though {verb(nodes, 'was', 'were')} seen to end at {min(ends)[0]} or behind"
            f" it by {seconds(by_ns)}, with it the whole ISR: its high watermark stood still"
        )
    read_ns = number_in(found, "completed_ns")
    for node in (f"n{each}" for each in followers):
        short = [
            each
            for each in looks_at(group, node)
            if read_ns + LOOK_NS <= each[0] <= until_ns and each[1] <= mine.offset
        ]
        if short:
            return (
                f"{when}; {node}, in the ISR, still ended at {short[0][1]} at"
                f" {seconds(short[0][0])}: it was not committed before {node} had it, too"
            )
    return f"{when}: it {did} what was not committed, or its high watermark stood still"


def _isr_meanwhile(
    group: Group, leader: Acknowledger, from_ns: int, until_ns: int
) -> frozenset[int]:
    """Return the ISR that a leader told before a time, in between, and after another one.

    Empty: it told several, or none.
    """
    told = reported_isrs(group, leader, range(leader.epoch, leader.epoch + 1))
    before = max((seen for _, seen, _ in told if seen <= from_ns), default=NONE)
    after = min((asked for asked, _, _ in told if asked >= until_ns), default=NONE)
    isrs = {frozenset(isr) for asked, seen, isr in told if seen >= before and asked <= after}
    return isrs.pop() if min(before, after) >= 0 and len(isrs) == 1 else frozenset()


def _reached_ns(group: Group, record: Acked, node: str) -> int:
    """Return when a log was first seen to reach beyond a record after its send; late: never."""
    after = [at_ns for at_ns, end in looks_at(group, node)
             if at_ns > record.sent_ns and end > record.offset]  # fmt: skip
    return after[0] if after and reached(group, record, node, after[0]) else NEVER_NS


def _end_by(group: Group, node: str, from_ns: int, until_ns: int) -> tuple[int, int]:
    """Return where a log that grew was seen to end last before a time, and when; -1: not known."""
    seen = [each for each in looks_at(group, node) if each[0] < until_ns]
    grew = len(seen) > 1 and seen[-2][1] < seen[-1][1] and seen[-1][0] >= from_ns - LOOK_NS
    return (seen[-1][1], seen[-1][0]) if grew else (NONE, NONE)


def _last_low(group: Group, found: Anomaly) -> tuple[int, int]:
    """Return when a leader was asked last that announced an offset as not committed, and told it.

    That is before it announced more.
    """
    told, first_ns = announcements(group), number_in(found, "announced_asked_ns")
    low = told.marks <= number_in(found, "offset")
    same = told.brokers == number_in(found, "announced_by")
    same &= (told.epochs == number_in(found, "announced_epoch")) & (told.asked_ns >= first_ns)
    enough_ns = int(told.asked_ns[same & ~low].min(initial=NEVER_NS))
    last = np.flatnonzero(same & low & (told.asked_ns < enough_ns))[-1]  # By time, in an epoch.
    return int(told.asked_ns[last]), int(told.observed_ns[last])


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="record was read before it was committed",
        many="records were read before they were committed",
        means="A reader got an offset that lay at or above the high watermark.",
        promise="Readers get only what is committed.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("leadership", "polls", "sends", "assignments", "replica_records", "replica_states"),
    sees=frozenset({Sight.LEADER_EPOCHS, Sight.HIGH_WATERMARKS}),
    check=_check,
    premises=(),
    applies=announces,
    promise=Promise.LOG,
    compares="polled records, compared with what leaders announced afterwards",
    chapter=Chapter.REPLICAS,
    looks_for="each polled record, and what leaders announced after its poll",
    waits=Waits.LATER,
    excuses=TAKES_RECORDS,
)
