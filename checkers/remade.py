"""lost-write, of a topic that a fault made again: an acknowledged record of its last life is gone.

Definition: a record of the last incarnation of such a topic that was acknowledged with acks=all and
is missing from the final log of its last leader: whom the brokers' metadata named last, in the
highest leader epoch.

Why it proves something: an acknowledgement says that every in-sync replica has the record, whatever
its topic's name was used for before. A broker that comes back with the log of a deleted topic must
neither serve it as the new one nor have the new one's log removed with it.

What would not prove it: a record of a deleted incarnation, which is gone by order and not looked
for; one that nobody acknowledged; a log that could not be read to its end; what every replica lost
with its power or its disk; a run whose replicas were not stopped behind a recovery. Clients never
read such a topic, so what readers are given of it is not judged.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from checkers import lost_write
from checkers.client_reasons import hold
from checkers.columns import equal, ints, select
from checkers.disk_losses import lost_on_disks
from checkers.facts import FINAL
from checkers.findings import anomaly_at, findings, texts_in
from checkers.group import Group, ReplicaLog
from checkers.protocol import Findings, Labels, Premise, Scope, Waits
from results.record.terms import Source
from results.record.verdict import Anomaly

NAME = lost_write.NAME


def _leader(group: Group) -> str:
    """Return whom brokers named last as the leader, in the highest epoch; empty: nobody."""
    rows = group.table("leadership")
    told = select(rows, equal(rows, "source", Source.METADATA) & (ints(rows, "leader") >= 0))
    if not told.num_rows:
        return ""
    last = int(np.lexsort((ints(told, "observed_ns"), ints(told, "leader_epoch")))[-1])
    return f"n{int(ints(told, 'leader')[last])}"


def _check(group: Group) -> Findings:
    topic = group.remade
    if topic is None or not group.shows_logs:
        return Findings(rows=0)
    acked = sorted(each[1:] for each in topic.acked if each[0] == group.partition)
    leader = _leader(group)
    log = group.logs.get(FINAL, {}).get(leader)
    if log is None:
        return Findings(rows=0, gaps=_gaps(group, leader))
    lost = [each for each in acked if not log.has(each[1])]
    return findings(
        len(acked),
        lost,
        lambda each: _describe(group, leader, each),
        lambda each: _labels(group, log, each[0], topic.begun_ns),
    )


def _gaps(group: Group, leader: str) -> tuple[str, ...]:
    if group.facts.snapshot != FINAL:
        return ()  # That a run has no final snapshot at all is told once.
    if not leader:
        return (f"nobody was named as the leader of {group.place}, so there is no log to judge by",)
    return (f"the log of {group.place} on {leader}, its last leader, is not there",)


def _labels(group: Group, log: ReplicaLog, offset: int, known_ns: int) -> Labels:
    sound = log.whole and log.node not in group.facts.unreadable_nodes
    broken = () if sound else (Premise.READABLE_LOGS.value,)
    return lost_on_disks(group, offset, known_ns), broken


def _describe(group: Group, leader: str, lost: tuple[int, int]) -> Anomaly:
    offset, value = lost
    logs: Sequence[ReplicaLog] = [log for _, log in sorted(group.logs.get(FINAL, {}).items())]
    found_on = [log.node for log in logs if log.has(value)]
    there = f", but is in that of {', '.join(found_on)}" if found_on else ""
    return anomaly_at(
        group,
        NAME,
        sentence=f"value {value}, acknowledged at offset {offset} of {group.place} (topic id"
        f" {group.topic_id}, which a fault made again), is missing from the log of the last leader"
        f" {leader}{there}",
        evidence={
            "value": value,
            "offset": offset,
            "topic_id": group.topic_id,
            "final_leader": leader,
            "missing_from_leaders_log": True,
            "found_on": found_on,
        },
        offset=offset,
    )


def _why(group: Group, found: Anomaly) -> str:
    """Return whose logs have the record, or that none has."""
    logs = group.logs.get(FINAL, {})
    if nodes := texts_in(found, "found_on"):
        return f"{hold(nodes)} it, and its leader's does not"
    return f"{hold(sorted(logs), 'lack')} it" if logs else "no log of it was read"


CHECKER = replace(
    lost_write.CHECKER,
    why=_why,
    scope=Scope.REMADE,
    check=_check,
    tables=("leadership", "replica_records", "replica_states"),
    applies=lambda facts: bool(facts.remade),
    compares="acknowledged records of a topic made again, looked for in the last leader's log",
    looks_for="the same, of a topic that a fault made again: an acknowledged record of its last"
    " incarnation that is not in the last leader's log",
    meanwhile=None,
    waits=Waits.STOPPED,
)
