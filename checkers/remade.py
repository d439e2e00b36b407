"""lost-write, for a topic that a fault deleted and created again: an acknowledged record is lost.

Definition: the record belongs to the last incarnation of the topic, and was acknowledged with
acks=all. The record is missing from the final log of the last leader, or from the final log of
another member of the last ISR (`under-replicated`). The last leader is the leader of the highest
leader epoch in brokers' metadata. If brokers disagree about this leader, the latest response
counts. The last ISR is the ISR in the last leader's last report. The leader must have been asked
for this report two seconds or more after the fault was healed. All acknowledgements came earlier.

Why it proves something: an acknowledgement means that every in-sync replica has the record. This
also holds for a topic whose name was used before. A broker may return with the log of the deleted
topic. The broker must not serve that log as a log of the new topic, and must not join the ISR with
that log. When the broker deletes the old log, it must not delete the new log. A node whose logs
were read may have no log of the topic. Such a node lacks all records of the topic.

What would not prove it:

- A record of a deleted incarnation, which is lost on purpose.
- A record that was not acknowledged, for example a record above the high watermark.
- A follower outside of the ISR.
- A log that could not be read to its end.
- A record that a power loss or disk faults removed from every replica.
- For a follower: a record that a disk lost after the ISR report, or a bit that was flipped since
  the topic was created.
- A run whose brokers were not stopped.

Clients never read such a topic, so reads are not judged.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from checkers import lost_write, under_replicated
from checkers.client_reasons import hold
from checkers.columns import NONE, equal, ints, present, select
from checkers.disk_losses import TOLD_LATE_NS, lost_on_disks
from checkers.facts import FINAL, RemadeTopic
from checkers.findings import anomaly_at, findings, texts_in
from checkers.group import Group, ReplicaLog
from checkers.protocol import Findings, Labels, Premise, Scope, Waits
from checkers.replica_reasons import listed
from results.record.terms import Source
from results.record.verdict import Anomaly


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """An acknowledged record that is missing from logs that must have it.

    Attributes:
        logs: The logs without the record.
    """

    offset: int
    value: int
    logs: tuple[ReplicaLog, ...]


def _reported(group: Group) -> pa.Table:
    """Return the row of `leadership` that names the last leader; no row if no leader is known."""
    rows = group.table("leadership")
    named = select(rows, equal(rows, "source", Source.METADATA) & (ints(rows, "leader") >= 0))
    return _last(named)


def _last(rows: pa.Table) -> pa.Table:
    """Return the latest row of the highest leader epoch."""
    order = np.lexsort((ints(rows, "observed_ns"), ints(rows, "leader_epoch")))
    return rows.take(order[-1:])


def _leader(group: Group) -> str:
    """Return the node of the last leader; "" if no broker reported a leader."""
    return "".join(f"n{leader}" for leader in ints(_reported(group), "leader").tolist())


def _log(group: Group, node: str) -> ReplicaLog | None:
    """Return a node's final log of the partition, or None if the log's content is unknown.

    If the node has no log of the partition, but other logs of the node were read, the result is an
    empty log.
    """
    log = group.logs.get(FINAL, {}).get(node)
    was_read = node in group.facts.collected_nodes - group.facts.unreadable_nodes
    if log is None and was_read and group.facts.snapshot == FINAL:
        none = group.table("replica_records").slice(0, 0)
        return ReplicaLog(node=node, start=0, end=0, whole=True, records=none)
    return log


def _acked(group: Group, topic: RemadeTopic) -> list[tuple[int, int]]:
    """Return the offset and the value of each acknowledged record of the partition."""
    return sorted(each[1:] for each in topic.acked if each[0] == group.partition)


def _check(group: Group) -> Findings:
    topic = group.remade
    if topic is None or not group.shows_logs:
        return Findings(rows=0)
    acked, leader = _acked(group, topic), _leader(group)
    log = _log(group, leader)
    if log is None or not acked:
        return Findings(rows=0, gaps=_gaps(group, topic, leader, acked=bool(acked)))
    lost = [Lack(offset=at, value=value, logs=(log,)) for at, value in acked if not log.has(value)]
    return findings(
        len(acked),
        lost,
        lambda each: _describe(group, leader, each),
        lambda each: (lost_on_disks(group, each.offset, topic.made_ns), _unsound(group, each)),
    )


def _gaps(group: Group, topic: RemadeTopic, leader: str, *, acked: bool) -> tuple[str, ...]:
    if group.facts.snapshot != FINAL:
        return ()  # Another gap reports the missing final snapshot.
    if not acked:
        if not topic.confirmed:  # Without any record, no record can be lost.
            return ()
        return (f"no record of the last incarnation of {group.place} was acknowledged",)
    if not leader:
        return (
            (
                f"no broker reported a leader of {group.place}, so the log to compare with is"
                " unknown"
            ),
        )
    return (f"the log of {group.place} on {leader}, its last leader, is missing",)


def _unsound(group: Group, lack: Lack) -> tuple[str, ...]:
    """Return the broken premise if one of the logs could not be read to its end."""
    unreadable = group.facts.unreadable_nodes
    sound = all(log.whole and log.node not in unreadable for log in lack.logs)
    return () if sound else (Premise.READABLE_LOGS.value,)


def _describe(group: Group, leader: str, lack: Lack) -> Anomaly:
    found_on = _nodes_with(group, lack.value)
    there = f", but is in the log of {', '.join(found_on)}" if found_on else ""
    return anomaly_at(
        group,
        lost_write.NAME,
        sentence=f"{_subject(group, lack)}, is missing from the log of the last leader"
        f" {leader}{there}",
        evidence={
            "value": lack.value,
            "offset": lack.offset,
            "topic_id": group.topic_id,
            "final_leader": leader,
            "missing_from_leaders_log": True,
            "found_on": found_on,
        },
        offset=lack.offset,
    )


def _subject(group: Group, lack: Lack) -> str:
    return (
        f"value {lack.value}, acknowledged at offset {lack.offset} of {group.place} (topic id"
        f" {group.topic_id}, which a fault recreated)"
    )


def _nodes_with(group: Group, value: int) -> list[str]:
    logs = sorted(group.logs.get(FINAL, {}).items())
    return [node for node, log in logs if log.has(value)]


def _why(group: Group, found: Anomaly) -> str:
    """Return a phrase that names the logs with the record, or states that no log has it."""
    logs, leader = group.logs.get(FINAL, {}), _leader(group)
    if nodes := texts_in(found, "found_on"):
        return f"{hold(nodes)} it, but the last leader's log does not"
    lack = [f"{hold(sorted(logs), 'lack')} it"] if logs else []
    return " and ".join([*lack, *([] if leader in logs else [f"{leader} has no log of the topic"])])


def _last_isr(group: Group, topic: RemadeTopic) -> tuple[list[str], int]:
    """Return the last reported ISR and the report's time; no ISR if the report came too early.

    A broker may report a changed ISR up to two seconds late. Only the leader's own report counts,
    because another broker may be cut off from the controllers.
    """
    leader, rows = _leader(group), group.table("leadership")
    own = equal(rows, "source", Source.METADATA) & equal(rows, "observer", leader)
    own &= present(rows, "isr") & (ints(rows, "leader_epoch") == _epoch(group))
    last = _last(select(rows, own))
    late = select(last, ints(last, "asked_ns") >= topic.healed_ns + TOLD_LATE_NS)
    isr = [f"n{broker}" for isr in late["isr"].to_pylist() for broker in isr or ()]
    return isr, int(ints(late, "asked_ns").max(initial=NONE))


def _epoch(group: Group) -> int:
    return int(ints(_reported(group), "leader_epoch").max(initial=-1))


def _check_copies(group: Group) -> Findings:
    topic = group.remade
    if topic is None or not group.shows_logs:
        return Findings(rows=0)
    led = _log(group, _leader(group))
    if led is None:
        return Findings(rows=0)  # `_check` reports the reason.
    acked = [each for each in _acked(group, topic) if led.has(each[1])]
    isr, told_ns = _last_isr(group, topic)
    if not isr:
        late = f"2 s or more after the heal, {led.node} did not report the ISR of {group.place}"
        return Findings(rows=0, gaps=(late,))
    others = {node: _log(group, node) for node in sorted(isr) if node != led.node}
    logs = [log for log in others.values() if log]
    lacks = [
        Lack(offset=at, value=value, logs=tuple(short))
        for at, value in acked
        if (short := [log for log in logs if not log.holds(np.array([at]), np.array([value]))[0]])
    ]
    return findings(
        len(acked) * bool(logs),
        lacks,
        lambda each: _describe_copies(group, led.node, each),
        lambda each: _labels_of_copies(group, each, topic.made_ns, whole_ns=told_ns),
        gaps=tuple(
            f"the log of {group.place} on {node}, which is in the ISR, is missing"
            for node, log in others.items()
            if not log
        ),
    )


def _labels_of_copies(group: Group, lack: Lack, made_ns: int, *, whole_ns: int) -> Labels:
    """Return the reasons why the logs may lack the record, and the broken premises.

    Args:
        group: The run's rows of one partition.
        lack: The record.
        made_ns: When the topic was created.
        whole_ns: When the ISR was reported. By then, the ISR's members had fetched all records.
    """
    excused = [
        under_replicated.taken(
            group, log.node, lack.offset, since_ns=whole_ns - TOLD_LATE_NS, flips_since_ns=made_ns
        )
        for log in lack.logs
    ]
    excuses = {each for some in excused for each in some} if all(excused) else set()
    return tuple(sorted(excuses)), _unsound(group, lack)


def _describe_copies(group: Group, leader: str, lack: Lack) -> Anomaly:
    lacking = [log.node for log in lack.logs]
    logs = "the log" if len(lacking) == 1 else "the logs"
    were = "was" if len(lacking) == 1 else "were"
    return anomaly_at(
        group,
        under_replicated.NAME,
        sentence=f"{_subject(group, lack)}, is in the log of the last leader {leader}, but not at"
        f" that offset in {logs} of {listed(lacking)}, which {were} in sync according to"
        " the leader's last report",
        evidence={
            "value": lack.value,
            "offset": lack.offset,
            "topic_id": group.topic_id,
            "final_leader": leader,
            "lacking": lacking,
            "found_on": _nodes_with(group, lack.value),
        },
        offset=lack.offset,
    )


def _why_copies(group: Group, found: Anomaly) -> str:
    """Return a phrase that says where each log without the record ended."""
    logs = group.logs.get(FINAL, {})
    ends = [
        f"{node}'s log of the new topic ended at {logs[node].end}"
        if node in logs
        else f"{node} had no log of the new topic"
        for node in texts_in(found, "lacking")
    ]
    return (
        f"a fault recreated {group.topic} (topic id {group.topic_id}) while a broker was down;"
        f" when the brokers had stopped, {' and '.join(ends)}"
    )


CHECKER = replace(
    lost_write.CHECKER,
    why=_why,
    scope=Scope.REMADE,
    check=_check,
    tables=("leadership", "replica_records", "replica_states"),
    applies=lambda facts: bool(facts.remade),
    compares="acknowledged records of a recreated topic, searched for in the last leader's log",
    looks_for="the same for a topic that a fault recreated: an acknowledged record of its last"
    " incarnation that is not in the last leader's log",
    meanwhile=None,
    waits=Waits.STOPPED,
)
COPIES_CHECKER = replace(
    under_replicated.CHECKER,
    why=_why_copies,
    scope=Scope.REMADE,
    check=_check_copies,
    tables=CHECKER.tables,
    applies=CHECKER.applies,
    compares="acknowledged records of a recreated topic, searched for in the logs of the last ISR",
    looks_for="the same for a topic that a fault recreated: an acknowledged record that the last"
    " leader has, and that another member of the last ISR lacks",
)
