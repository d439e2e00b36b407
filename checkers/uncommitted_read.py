"""uncommitted-read: a reader received a record that was not committed.

Definition: a poll returned a record. Two answers of leaders announced a high watermark at or below
the record's offset, and both were requested after the poll. One is the first of all such answers.
The other is the first such answer from the newest epoch in which the poll may have been served, or
from a later epoch. Both may be the same answer. Without such answers, the poll is not checked.

Why it proves something: readers get only records below the leader's high watermark. The high
watermark never goes back, even if another broker leads. So each leader after the poll announces a
high watermark above the offset that was read.

What would not prove it:

- An answer of an old leader that was cut off and does not know the new leader. Such an answer alone
  proves nothing if any source shows a newer epoch. The sources are ListOffsets, Metadata and
  ZooKeeper. Their reports count until `SEEN_WITHIN_NS` after the answer was requested. A leader
  that serves readers is asked several times a second. If the machine hangs and no broker is asked,
  no source can show a new leader.
- A high watermark that went back later. `high-watermark-regression` reports this anomaly.

The anomaly is allowed after an unclean election, or after a loss on the disks of all replicas. Both
must have begun before the answer.
"""

from collections import Counter
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
from checkers.columns import NEVER, NONE, Ints, equal, ints, present, runs_of, select, take
from checkers.dropped import known_span, lost_in_span
from checkers.excuses import TAKES_RECORDS, strength
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
"""The maximum time from a leader's first answer to readers until an observer sees this leader's
epoch."""
_TIMED = (Source.LIST_OFFSETS, Source.METADATA, Source.ZOOKEEPER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncommitted:
    """A record that was read before it was committed.

    Attributes:
        op_id, process: The op and the process of the first poll that received the value.
        value: The value. -1 if the record does not contain a value.
        completed_ns: When that poll ended.
        answer: The leader's announcement after the poll.
        is_first: Whether `answer` is the first announcement of any leader after the poll.
        readers: How often polls received a record at this offset too early.
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
    """Return, for each time, the newest leader epoch that was observed by then, or -1."""
    rows = group.table("leadership")
    seen = select(rows, equal(rows, "source", *_TIMED) & present(rows, "observed_ns"))
    order = np.argsort(ints(seen, "observed_ns"), kind="stable")
    newest = np.maximum.accumulate(ints(seen, "leader_epoch")[order])
    by_then = np.searchsorted(ints(seen, "observed_ns")[order], times_ns, side="right")
    return latest(newest, by_then)


def _first_answers(told: Announcements, epochs: Ints, ended_ns: Ints) -> Ints:
    """For each poll, return the index of the first later answer in the given or a later epoch."""
    found = np.empty(len(epochs), dtype=np.int64)
    for epoch in np.unique(epochs).tolist():
        counts = np.flatnonzero(told.epochs >= epoch)
        counts = counts[np.argsort(told.asked_ns[counts], kind="stable")]
        mine = epochs == epoch
        after = np.searchsorted(told.asked_ns[counts], ended_ns[mine], side="right")
        found[mine] = np.append(counts, NONE)[after]
    return found


def _uncommitted(
    group: Group, polls: pa.Table, told: Announcements, *, first_told: Ints, answers: Ints
) -> list[Uncommitted]:
    """Return one finding for each offset: for the value that is explained least, its first poll.

    After an unclean election or a disk loss, another record may be at the offset.

    Args:
        group: The run's rows of one partition.
        polls: The suspected polls.
        told: All announcements.
        first_told: For each poll, the index of the first later announcement of any leader.
        answers: For each poll, the index of the first later announcement that the definition
            allows.
    """
    offsets, ended_ns = ints(polls, "offset"), ints(polls, "complete_ns")
    early = np.flatnonzero((answers >= 0) & (told.marks[answers] <= offsets))
    op_ids, processes, values = (ints(polls, name) for name in ("op_id", "process", "value"))
    early = early[np.lexsort((ended_ns[early], values[early], offsets[early]))]
    readers = Counter(offsets[early].tolist())
    found: dict[int, list[Uncommitted]] = {}
    for row in early[runs_of(offsets[early], values[early])[:-1]].tolist():
        read = Uncommitted(
            offset=int(offsets[row]),
            op_id=int(op_ids[row]),
            process=int(processes[row]),
            value=int(values[row]),
            completed_ns=int(ended_ns[row]),
            answer=told[int(answers[row])],
            is_first=bool(answers[row] == first_told[row]),
            readers=readers[int(offsets[row])],
        )
        found.setdefault(read.offset, []).append(read)

    def explained(read: Uncommitted) -> tuple[int, int]:
        return strength(_labels(group, read)[0]), read.completed_ns

    return [min(reads, key=explained) for reads in found.values()]


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
        _uncommitted(group, suspects, told, first_told=first[doubtful], answers=answers),
        lambda read: _describe(group, read),
        lambda read: _labels(group, read),
    )


def _labels(group: Group, read: Uncommitted) -> Labels:
    missed_ns = read.answer.until_ns
    unclean = took_value_at(group, read.offset, [read.value], missed_ns=missed_ns)
    excuses = [Excuse.UNCLEAN.value] if unclean else []
    if group.facts.disk_losses:
        # Clients fetch records before their polls return them, so an earlier time may be known.
        span = known_span(group, read.offset, read.value)
        excuses += lost_in_span(group, read.offset, *span, missed_ns=missed_ns)
    return tuple(excuses), ()


def _describe(group: Group, read: Uncommitted) -> Anomaly:
    what = "a record" if read.value < 0 else group.facts.name_of(read.value)
    leader = "leader" if read.is_first else f"leader of epoch {read.answer.epoch}"
    return anomaly_at(
        group,
        NAME,
        sentence=f"op {read.op_id} (process {read.process}) read {what} at offset {read.offset}"
        f" of {group.place} at {seconds(read.completed_ns)}, which was not committed: in"
        f" the first answer of a {leader} after the read, {read.answer.text}",
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
    """Explain which broker served the record too early, or announced too low a high watermark."""
    value, offset, mine = number_in(found, "value"), found.offset, _vouched(group, found)
    announcer = (number_in(found, "announced_by"), number_in(found, "announced_epoch"))
    it = f"n{announcer[0]}, leader of epoch {announcer[1]},"
    reads = {number_in(found, "op_id"): number_in(found, "completed_ns")}
    led = servers(group, value, reads)
    had = [each for each in led if (each.broker, each.epoch) != announcer]
    if had and (instead := _written_instead(group, found)):
        acked = f"; the record had been acknowledged at {seconds(mine.acked_ns)}" if mine else ""
        return (
            f"{in_words(had)} served the record{_beyond_own(group, found, had)}{acked}; {it} led"
            f" without the record, and wrote {instead} there"
        )
    if mine and mine.acked_ns < number_in(found, "announced_asked_ns"):
        by = answerer(group, mine.sent_ns, mine.acked_ns)
        acked = f"{by} had acknowledged it (acks=all) at {seconds(mine.acked_ns)}"
        if by != it:
            return (
                f"{acked}: the acknowledgement and the read came too early, or {it} announced a"
                " high watermark that was too low"
            )
        mark = number_in(found, "announced_high_watermark")
        alone = {(each.broker, each.epoch) for each in led} == {announcer}
        kept_back = _kept_back(group, found, mine, did="acknowledged" + " and served" * alone)
        return f"{acked}, and announced the high watermark {mark} until {kept_back}"
    sends = sent(group, value)
    gone = final_logs(group) and value >= 0 and not nodes_at(group, offset, value)
    if gone and not (sends and sends.acked):
        return (
            f"{in_words(led)} served the record above the high watermark: the record was never"
            " acknowledged, and no log holds it there at the end"
        )
    return (
        f"{in_words(led)} served the record above the high watermark, or {it} announced a high"
        " watermark that was too low"
    )


def _beyond_own(group: Group, found: Anomaly, served: Sequence[Acknowledger]) -> str:
    """Return a phrase if the broker that served a record later reported the record as uncommitted.

    A broker's high watermark does not go back within one incarnation. After a restart the high
    watermark may be lower, so only reports of one incarnation count.
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
    return (
        f" beyond its own high watermark, which it still reported as {mark} at {seconds(last_ns)}"
    )


def _vouched(group: Group, found: Anomaly) -> Sent | None:
    """Return a record's send if the acknowledgement means that the whole ISR has the record.

    Sends with acks=1 and sends in transactions do not count.
    """
    mine = sent(group, number_in(found, "value"))
    if mine is None or not mine.acked or mine.weak or mine.in_txn or mine.acked_ns < 0:
        return None
    return mine if mine.offset == found.offset else None


def _written_instead(group: Group, found: Anomaly) -> str:
    """If the announcing leader's log has a different record at that offset, name this record."""
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
    """Return a phrase: how long the high watermark stayed too low, and where logs in the ISR ended.

    A record is committed once all members of the ISR have it. Then the high watermark must advance.

    Args:
        group: The run's rows of one partition.
        found: The anomaly of the early read.
        mine: The send of the record.
        did: A verb that says what the leader certainly did with the record.
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
            f"{when}, although {verb(nodes, 'had a log end offset', 'had log end offsets')} above"
            f" it by {seconds(max(reached_ns))}, so the whole ISR had the record:"
            " nothing held the high watermark back, but it did not advance"
        )
    mark = number_in(found, "announced_high_watermark")
    ends = [_end_by(group, f"n{each}", mine.sent_ns, asked_ns) for each in followers]
    if followers and min(end for end, _ in ends) > mark:
        nodes, by_ns = [f"n{each}" for each in followers], max(seen for _, seen in ends)
        return (
            f"{when}, although {verb(nodes, 'had a log end offset', 'had log end offsets')} of"
            f" {min(ends)[0]} or higher by {seconds(by_ns)}, so the whole ISR had reached it: the"
            " high watermark did not advance"
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
                f"{when}; the log end offset of {node}, in the ISR, was still {short[0][1]} at"
                f" {seconds(short[0][0])}: the record was not committed before {node} also had it"
            )
    return f"{when}: it {did} an uncommitted record, or its high watermark did not advance"


def _isr_meanwhile(
    group: Group, leader: Acknowledger, from_ns: int, until_ns: int
) -> frozenset[int]:
    """Return the ISR that a leader reported before, during and after a time span.

    The result is empty if the leader reported no ISR, or several different ISRs.
    """
    told = reported_isrs(group, leader, range(leader.epoch, leader.epoch + 1))
    before = max((seen for _, seen, _ in told if seen <= from_ns), default=NONE)
    after = min((asked for asked, _, _ in told if asked >= until_ns), default=NONE)
    isrs = {frozenset(isr) for asked, seen, isr in told if seen >= before and asked <= after}
    return isrs.pop() if min(before, after) >= 0 and len(isrs) == 1 else frozenset()


def _reached_ns(group: Group, record: Acked, node: str) -> int:
    """Return the first time after a send at which a log ended beyond the record; or `NEVER`."""
    after = [at_ns for at_ns, end in looks_at(group, node)
             if at_ns > record.sent_ns and end > record.offset]  # fmt: skip
    return after[0] if after and reached(group, record, node, after[0]) else NEVER


def _end_by(group: Group, node: str, from_ns: int, until_ns: int) -> tuple[int, int]:
    """Return the last end of a growing log before a time, and the time of that report; or -1."""
    seen = [each for each in looks_at(group, node) if each[0] < until_ns]
    grew = len(seen) > 1 and seen[-2][1] < seen[-1][1] and seen[-1][0] >= from_ns - LOOK_NS
    return (seen[-1][1], seen[-1][0]) if grew else (NONE, NONE)


def _last_low(group: Group, found: Anomaly) -> tuple[int, int]:
    """Return (asked, answered) of the leader's last answer in which an offset was uncommitted.

    Answers after the leader's first higher announcement are ignored.
    """
    told, first_ns = announcements(group), number_in(found, "announced_asked_ns")
    low = told.marks <= number_in(found, "offset")
    same = told.brokers == number_in(found, "announced_by")
    same &= (told.epochs == number_in(found, "announced_epoch")) & (told.asked_ns >= first_ns)
    enough_ns = int(told.asked_ns[same & ~low].min(initial=NEVER))
    last = np.flatnonzero(same & low & (told.asked_ns < enough_ns))[-1]  # Ordered by time.
    return int(told.asked_ns[last]), int(told.observed_ns[last])


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="record was read before it was committed",
        many="records were read before they were committed",
        means="A reader got an offset that was at or above the high watermark.",
        promise="Readers get only committed records.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("leadership", "polls", "sends", "assignments", "replica_records", "replica_states"),
    sees=frozenset({Sight.LEADER_EPOCHS, Sight.HIGH_WATERMARKS}),
    check=_check,
    premises=(),
    applies=announces,
    promise=Promise.LOG,
    compares="polled records, compared with the high watermarks that leaders announced afterwards",
    chapter=Chapter.REPLICAS,
    looks_for=(
        "each polled record, compared with the high watermarks that leaders announced after"
        " its poll"
    ),
    waits=Waits.LATER,
    excuses=TAKES_RECORDS,
)
