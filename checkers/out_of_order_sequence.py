"""out-of-order-sequence: a log has a gap or a repeat in an idempotent producer's sequence numbers.

Definition: two neighbouring records of one producer id and producer epoch, in a replica's final
log, do not have consecutive sequence numbers. No offset is missing between the two records.

Why it proves something: a leader checks each batch of an idempotent producer before it appends the
batch. The batch's first sequence number must be one more than the last stored sequence number of
the same producer and epoch. The leader appends no other batch. It acknowledges a copy of a recent
batch again, and refuses the others with OUT_OF_ORDER_SEQUENCE_NUMBER or DUPLICATE_SEQUENCE_NUMBER
(KIP-98). A leader rebuilds the last stored numbers from the log, so the sequence is unbroken even
in a log that lost its end. A skipped number means that a record was dropped from the middle, or
that the leader accepted a wrong batch. A repeated number means that a record was written twice. The
check also covers records without an acknowledgement.

What would not prove it:

- Producers without idempotence, which have no sequence numbers.
- A new producer epoch, which begins at 0, and the highest number, after which 0 follows.
- A compacted log, because the cleaner removes records.
- A plan that sets when brokers forget producers. A broker accepts any number from an unknown
  producer.
- Offsets that could not be read.

A replica may keep records that it should have truncated, and then append its leader's records. Then
the sequence numbers in that replica's log come from two logs, and no leader stored these records in
this order. So a copy does not count if another copy has different records before the later record.
Exception: the copy of the leader that wrote the later record counts, unless a disk fault may have
removed that offset from this leader. Where such copies must agree, `log-divergence` reports the
difference. Before Kafka 2.0, followers could keep such records (KIP-101, KIP-279). If a leader may
have written some of the offsets twice in one epoch, the anomaly is allowed
(`checkers/reused_epochs.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from checkers.columns import NONE, Ints
from checkers.facts import FINAL, RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, number_in, texts_in
from checkers.group import Group, ReplicaLog
from checkers.protocol import Chapter, Checker, Excuse, Findings, Labels, Promise, Waits
from checkers.replica_reasons import leader_of, leader_text, listed, verb
from checkers.reused_epochs import reuse
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "out-of-order-sequence"
_NUMBERS = 1 << 31
"""How many sequence numbers there are. After the highest number, 0 follows (KIP-98)."""
_FORGETS = {"producer.id.expiration.ms", "transactional.id.expiration.ms"}
"""The settings for how long brokers remember an idle producer. The defaults are several days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """Two neighbouring records of a producer whose sequence numbers are not consecutive.

    Attributes:
        offset, before_offset: The offsets of the later and of the earlier record.
        sequence, before: The sequence numbers of the later and of the earlier record.
        producer, producer_epoch: The producer id and epoch of both records.
        leader_epoch: The leader epoch of the later record.
        nodes: The nodes whose final logs hold both records with these numbers.
    """

    offset: int
    before_offset: int
    sequence: int
    before: int
    producer: int
    producer_epoch: int
    leader_epoch: int
    nodes: tuple[str, ...]


def _pairs(log: ReplicaLog) -> tuple[Ints, Ints]:
    """Return the row numbers of each two neighbouring records of a producer and producer epoch.

    The log must hold every offset between two such records.
    """
    ids, epochs, offsets = log.producer_ids, log.producer_epochs, log.offsets
    mine = np.flatnonzero((ids >= 0) & (log.sequences >= 0))
    mine = mine[np.lexsort((mine, epochs[mine], ids[mine]))]
    one, two = mine[:-1], mine[1:]
    same = (ids[one] == ids[two]) & (epochs[one] == epochs[two])
    same &= offsets[two] - offsets[one] == two - one
    return one[same], two[same]


def _check(group: Group) -> Findings:
    rows, found = 0, dict[tuple[int, ...], list[str]]()
    for log in group.logs.get(FINAL, {}).values():
        one, two = _pairs(log)
        rows += len(one)
        for jump in _jumps(log, one, two):
            found.setdefault(jump, []).append(log.node)
    jumps = [
        Jump(
            offset=jump[0], before_offset=jump[1], sequence=jump[2], before=jump[3],
            producer=jump[4], producer_epoch=jump[5], leader_epoch=jump[6], nodes=tuple(nodes),
        )
        for jump, nodes in sorted(found.items())
    ]  # fmt: skip
    jumps = [each for each in jumps if not _of_two_histories(group, each)]
    return could_not_show(
        findings(
            rows, jumps, lambda each: _describe(group, each), lambda each: _labels(group, each)
        ),
        "no producer wrote two records in one epoch, so a broken sequence could not be detected",
        given=bool(group.logs.get(FINAL)) and bool(group.table("sends").num_rows),
    )


def _jumps(log: ReplicaLog, one: Ints, two: Ints) -> Iterator[tuple[int, ...]]:
    numbers = log.sequences
    wrong = (numbers[one] + 1) % _NUMBERS != numbers[two]
    columns = (log.offsets, numbers)
    for before, after in zip(one[wrong].tolist(), two[wrong].tolist(), strict=True):
        places = [int(each[at]) for each in columns for at in (after, before)]
        whose = (log.producer_ids, log.producer_epochs, log.epochs)
        yield (*places, *(int(each[after]) for each in whose))


def _of_two_histories(group: Group, jump: Jump) -> bool:
    """Return whether another replica's copy has different records before the later record."""
    logs = group.logs[FINAL]
    leader = leader_of(group, jump.leader_epoch)
    if leader in jump.nodes and not _was_copied_back(group, leader, jump.offset):
        return False
    mine = logs[jump.nodes[0]]
    later, between = mine.at(jump.offset), _held(mine, jump.before_offset, jump.offset)
    assert later is not None, "it was found there"
    return any(
        (theirs := log.at(jump.offset)) is not None
        and log.start <= jump.before_offset
        and _number(log, theirs) == _number(mine, later)
        and _held(log, jump.before_offset, jump.offset) != between
        for node, log in logs.items()
        if node not in jump.nodes
    )


def _was_copied_back(group: Group, node: str, offset: int) -> bool:
    """Return whether a disk fault may have removed an offset that the node then fetched again."""
    return any(
        node in each.nodes
        and each.concerns(group.topic, group.partition)
        and each.first_taken <= offset
        for each in group.facts.disk_losses
    )


def _number(log: ReplicaLog, index: int) -> tuple[int, ...]:
    """Return the fields that identify a record: epoch, hash, producer id and epoch, sequence."""
    columns = (log.epochs, log.hashes, log.producer_ids, log.producer_epochs, log.sequences)
    return tuple(int(each[index]) for each in columns)


def _numbers_at(log: ReplicaLog, offset: int) -> tuple[int, ...] | None:
    """Return the fields that identify the record at an offset; None if the log has no record."""
    index = log.at(offset)
    return None if index is None else _number(log, index)


def _held(log: ReplicaLog, low: int, high: int) -> list[list[int]]:
    """Return the columns that `log-divergence` compares, for the records between two offsets."""
    these = slice(*np.searchsorted(log.offsets, [low, high]).tolist())
    return [each[these].tolist() for each in (log.offsets, log.epochs, log.hashes, log.controls)]


def _labels(group: Group, jump: Jump) -> Labels:
    """Return why a jump is allowed, if it is: a leader may have reused offsets of its epoch."""
    log = group.logs[FINAL][jump.nodes[0]]
    between = slice(*np.searchsorted(log.offsets, [jump.before_offset, jump.offset]).tolist())
    places = zip(log.epochs[between].tolist(), log.offsets[between].tolist(), strict=True)
    return max(reuse(group, epoch, offset, offset) for epoch, offset in places)


def _describe(group: Group, jump: Jump) -> Anomaly:
    return anomaly_at(
        group,
        NAME,
        sentence=f"in the log of {listed(jump.nodes)}, {group.place} has sequence {jump.sequence}"
        f" of producer {jump.producer} (epoch {jump.producer_epoch}) at offset"
        f" {jump.offset}, directly after its sequence {jump.before} at offset"
        f" {jump.before_offset}",
        evidence={
            "sequence": jump.sequence,
            "sequence_before": jump.before,
            "before_offset": jump.before_offset,
            "producer_id": jump.producer,
            "producer_epoch": jump.producer_epoch,
            "leader_epoch": jump.leader_epoch,
            "nodes": [*jump.nodes],
        },
        offset=jump.offset,
    )


def _applies(facts: RunFacts) -> bool:
    plan = facts.plan
    forgets = any(_FORGETS & each.keys() for each in plan.settings)
    return facts.idempotent and plan.keeps_producer_ids and not facts.compacted and not forgets


def _why(group: Group, found: Anomaly) -> str:
    producer = (number_in(found, "producer_id"), number_in(found, "producer_epoch"))
    sequence, before = number_in(found, "sequence"), number_in(found, "sequence_before")
    nodes, logs = texts_in(found, "nodes"), group.logs.get(FINAL, {})
    there = {name: _numbers_at(log, found.offset) for name, log in logs.items()}
    mine = {numbers for name, numbers in there.items() if name in nodes}
    epochs = {numbers[0] for numbers in mine if numbers}
    others = [  # An older record proves nothing: its replica may have missed a truncation.
        name
        for name, numbers in there.items()
        if name not in nodes and numbers and numbers[0] in epochs and numbers not in mine
    ]
    if others:
        return (
            f"{verb(others, 'has', 'have')} a different record there, so the copy of"
            f" {listed(nodes)} is wrong"
        )
    leader = leader_text(group, number_in(found, "leader_epoch"))
    stored = [at for log in logs.values() for at in _places(log, producer, sequence)]
    earlier = min((at for at in stored if at < found.offset), default=NONE)
    if earlier >= 0:
        return (
            f"{leader} had sequence {sequence} at offset {earlier}, and accepted it again as a"
            " new record"
        )
    if sequence <= before:
        return f"{leader} accepted a sequence below one that its log already has"
    return (
        f"{leader} stored the record although its log lacks {_missing(before, sequence)} before it"
    )


def _missing(before: int, sequence: int) -> str:
    first, last = before + 1, sequence - 1
    return f"sequence {first}" if first == last else f"sequences {first} to {last}"


def _places(log: ReplicaLog, producer: tuple[int, int], sequence: int) -> list[int]:
    same = (log.producer_ids == producer[0]) & (log.producer_epochs == producer[1])
    places: list[int] = log.offsets[same & (log.sequences == sequence)].tolist()
    return places


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="record was stored out of its producer's sequence",
        many="records were stored out of their producers' sequences",
        means=(
            "A log has a record that does not follow the last record of its idempotent producer."
        ),
        promise="An idempotent producer's records are stored in sequence, each once.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "replica_records", "replica_states", "leadership"),
    sees=frozenset({Sight.REPLICA_LOGS}),
    check=_check,
    premises=(),
    applies=_applies,
    promise=Promise.ONCE,
    compares="neighbouring records of idempotent producers",
    chapter=Chapter.REPLICAS,
    looks_for="the sequence numbers of an idempotent producer along each final log: each must be"
    " one more than the previous one in the same producer epoch",
    waits=Waits.STOPPED,
    excuses=frozenset({Excuse.REUSED}),
    follows={"duplicate": "a retry that was stored twice has the same sequence number twice"},
)
