"""corrupt-record: a record of this run differs from what its writer sent.

Definition: a reader got, or a final log holds, a record whose value was sent to this partition. But
that record differs from the sent record in the payload, key, headers or timestamp.

Why it proves something: key, headers and payload follow from the value and the timestamp in the
payload (`results.record.contents`), so every byte is known. The producer computes the batch's
checksum before it sends the batch. Brokers, followers, readers and Logquake's segment reader verify
that checksum. This check ignores batches with a wrong checksum. So if a record differs although its
checksum is right, there are three possible causes. A broker computed a new checksum. Or the
producer's library changed the record before it computed the checksum. Or the reader's library
changed the record after it had verified the checksum.

What would not prove it: a value that was not sent to the partition is a `phantom`. A timestamp that
the broker sets (`LogAppendTime`) does not count. Headers do not count in a message format without
headers. Records of old runs, before messages had such contents, do not count. A fault that flips a
bit excuses nothing, because after the fault the checksum is wrong. But a log cleaner copies records
without verifying their checksum, and computes a new checksum. So in a compacted topic, damage is
allowed in the flipped batch and in all later batches. Damage that a reader got before the fault
began is not allowed.
"""

from dataclasses import dataclass

import numpy as np

from checkers.client_reasons import LIBRARY, hold, leader_of, log_with, nodes_at, server
from checkers.columns import NEVER, NONE, ints
from checkers.facts import CRASH, FINAL, RunFacts
from checkers.findings import anomaly_at, findings, known, number_in, seconds, texts_in
from checkers.group import Group, ReplicaLog
from checkers.phantom import sent_here
from checkers.protocol import Chapter, Checker, Excuse, Findings, Labels, Promise, Proof
from checkers.reads import others, reads_of
from results.record.contents import HEADERS, KEY, PAYLOAD, TIME
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "corrupt-record"
_WORDS = {PAYLOAD: "payload", KEY: "key", HEADERS: "headers", TIME: "time stamp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrupt:
    """A record that differs from the sent record.

    Attributes:
        offset, value: The record's offset and value.
        damage: The parts that differ in any copy, as bits.
        op_id, read_ns: The first poll, by op id, that returned the damaged record, and the end of
            that poll; -1 if no poll returned it.
        polls: The number of polled records with this offset and value that are damaged.
        nodes: The nodes whose logs hold the damaged record.
    """

    offset: int
    value: int
    damage: int
    op_id: int = -1
    read_ns: int = -1
    polls: int = 0
    nodes: tuple[str, ...] = ()

    @property
    def parts(self) -> list[str]:
        """The names of the parts that differ."""
        return [word for bit, word in _WORDS.items() if self.damage & bit]


def damaged_parts(log: ReplicaLog, offset: int) -> list[str]:
    """Return the names of the parts of a log's record that differ from the sent record."""
    at = log.at(offset)
    damage = int(ints(log.records, "damage")[at]) if at is not None else 0
    return [word for bit, word in _WORDS.items() if damage > 0 and damage & bit]


def _read(group: Group) -> tuple[int, list[Corrupt]]:
    """Return the number of polled records that were compared, and the damaged records."""
    polls = group.table("polls")
    bits, values = ints(polls, "damage"), ints(polls, "value")
    rows = np.flatnonzero((bits > 0) & sent_here(group, values))
    columns = [ints(polls, name)[rows] for name in ("offset", "value", "op_id", "complete_ns")]
    found = [
        Corrupt(offset=offset, value=value, damage=damage, op_id=op_id, read_ns=read_ns, polls=1)
        for offset, value, op_id, read_ns, damage in zip(
            *(column.tolist() for column in columns), bits[rows].tolist(), strict=True
        )
    ]
    return int((bits >= 0).sum()), found


def _stored(group: Group, log: ReplicaLog) -> tuple[int, list[Corrupt]]:
    """Return the number of records of a final log that were compared, and the damaged records."""
    bits, values = ints(log.records, "damage"), log.values
    rows = np.flatnonzero((bits > 0) & sent_here(group, values))
    found = [
        Corrupt(offset=offset, value=value, damage=damage, nodes=(log.node,))
        for offset, value, damage in zip(
            *(column[rows].tolist() for column in (log.offsets, values, bits)), strict=True
        )
    ]
    return int((bits >= 0).sum()), found


def _merged(one: Corrupt, other: Corrupt) -> Corrupt:
    """Merge two findings about one record.

    The result has the poll of the first finding, or otherwise the poll of the second.
    """
    by = one if one.polls else other
    return Corrupt(
        offset=one.offset,
        value=one.value,
        damage=one.damage | other.damage,
        op_id=by.op_id,
        read_ns=by.read_ns,
        polls=one.polls + other.polls,
        nodes=(*one.nodes, *other.nodes),
    )


def _check(group: Group) -> Findings:
    logs = group.logs.get(FINAL) or group.logs.get(CRASH, {})
    looks = [_read(group), *(_stored(group, log) for _, log in sorted(logs.items()))]
    found: dict[tuple[int, int], Corrupt] = {}
    for each in (each for _, some in looks for each in some):
        place = (each.offset, each.value)
        found[place] = _merged(found[place], each) if place in found else each
    return findings(
        sum(rows for rows, _ in looks),
        [found[place] for place in sorted(found)],
        lambda each: _describe(group, each),
        lambda each: _labels(group, each),
    )


def _labels(group: Group, found: Corrupt) -> Labels:
    copied = group.facts.compacted and any(
        loss.excuse == Excuse.FLIP
        and loss.began_ns <= _first_read_ns(group, found)
        and loss.concerns(group.topic, group.partition)
        and loss.end_after <= found.offset < loss.end_before
        for loss in group.facts.disk_losses
    )
    return ((Excuse.FLIP.value,) if copied else ()), ()


def _first_read_ns(group: Group, found: Corrupt) -> int:
    """Return when a poll first returned the damaged record; the largest integer if unknown."""
    polls = group.table("polls")
    times_ns = ints(polls, "complete_ns")
    mine = (ints(polls, "offset") == found.offset) & (ints(polls, "value") == found.value)
    mine &= (ints(polls, "damage") > 0) & (times_ns >= 0)
    return int(times_ns[mine].min(initial=NEVER))


def _describe(group: Group, found: Corrupt) -> Anomaly:
    parts = " and ".join(found.parts)
    told = []
    if found.polls:
        more = f" ({found.polls} polled records in all)" if found.polls > 1 else ""
        told.append(f"op {found.op_id} read the changed record at {seconds(found.read_ns)}{more}")
    if found.nodes:
        logs = f"logs of {', '.join(found.nodes)} hold" if found.nodes[1:] else (
            f"log of {found.nodes[0]} holds"
        )  # fmt: skip
        told.append(f"the {logs} the changed record")
    return anomaly_at(
        group,
        NAME,
        sentence=f"{group.facts.name_of(found.value)} at offset {found.offset} of {group.place}"
        f" does not have the {parts} that its writer sent: {', and '.join(told)}",
        evidence={
            "value": found.value,
            "differs": found.parts,
            "op_id": known(found.op_id),
            "read_ns": known(found.read_ns),
            "polls": found.polls,
            "logs_of": list(found.nodes),
        },
        offset=found.offset,
    )


def _applies(facts: RunFacts) -> bool:
    return facts.contents_known


def _why(group: Group, found: Anomaly) -> str:
    """Explain, from the logs and the reads, which broker or client changed a record."""
    nodes, offset, value = texts_in(found, "logs_of"), found.offset, number_in(found, "value")
    intact = [node for node in nodes_at(group, offset, value) if node not in nodes]
    whole = f"; {hold(intact)} it intact" if intact else ""
    if Excuse.FLIP in found.excuses:
        return (
            "a fault flipped a bit of that log, and a log cleaner copies a record with a new"
            " checksum"
        )
    if not nodes:
        return _changed_when_served(group, found, intact)
    there = log_with(group, offset, value)
    leader = leader_of(group, int(there[0].epochs[there[1]]) if there else NONE)
    if len(nodes) > 1:
        seen = _read_intact(group, offset, value)
        so = f"{hold(nodes)} the changed record with a correct checksum{whole}{seen}"
        if intact or seen:
            return (
                f"{so}: it was changed on one of these nodes, or on its way to that node, and"
                " then copied from that node"
            )
        if not any(leader.startswith(f"{node},") for node in nodes):
            return (
                f"{so}: it was changed before replication, or on one replica and then copied"
                " from that replica"
            )
        return (
            f"{so}: it was changed before replication, by {leader} or by {LIBRARY} before the"
            " library computed the batch's checksum"
        )
    led = leader.startswith(f"{nodes[0]},")
    role = (", which led" if led else ", a follower") + " when the record was written,"
    other = "" if led else ", or on its way to this node"
    return (
        f"the copy of {nodes[0]}{role if leader.startswith('n') else ''} was changed on this"
        f" node{other}, and has a correct checksum{whole}"
    )


def _read_intact(group: Group, offset: int, value: int) -> str:
    """Return a clause about the reads that got the record intact, with their number; else ""."""
    polls = group.table("polls")
    here = (ints(polls, "offset") == offset) & (ints(polls, "value") == value)
    count = int((here & (ints(polls, "damage") == 0)).sum())
    many = "one read" if count == 1 else f"{count} reads"
    return f", and {many} returned it intact" if count else ""


def _changed_when_served(group: Group, found: Anomaly, intact: list[str]) -> str:
    """Explain which broker or client changed a record that is not damaged in any log."""
    offset, value = found.offset, number_in(found, "value")
    reads, count = reads_of(group, offset, [value]), number_in(found, "polls")
    first = number_in(found, "op_id")
    damaged = {first: reads.get(first, NONE)} if count == 1 else reads
    who = server(group, value, damaged)
    if not intact:
        return (
            "no log that was read holds the changed record: it was changed on its way to the reader"
        )
    if count == 1 and reads.keys() - {number_in(found, "op_id")}:
        other = others(reads, number_in(found, "op_id"), what="it intact")
        return f"{hold(intact)} it intact, and {other}: {who} or the client of that read changed it"
    if count == len(reads) > 1:
        return (
            f"{hold(intact)} it intact, and each of its {count} reads got the changed record:"
            f" {who} or the library that all readers use changed it"
        )
    return f"{hold(intact)} it intact: {who} or the client changed it"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="record differs from the sent message",
        many="records differ from the sent messages",
        means=(
            "The payload, key, headers or timestamp of a message changed in transit or in a log."
        ),
        promise="A record is stored and read exactly as it was sent, byte by byte.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("polls", "sends", "assignments", "leadership", "replica_records", "replica_states"),
    check=_check,
    premises=(),
    applies=_applies,
    promise=Promise.LOG,
    compares="polled records and copies, compared with what was sent",
    chapter=Chapter.CLIENTS,
    looks_for="a polled record, or a copy in a final log, with a value that was sent to this"
    " partition, but with a different payload, key, headers or timestamp",
    meanwhile=Proof.COPIED,
    excuses=frozenset({Excuse.FLIP}),
)
