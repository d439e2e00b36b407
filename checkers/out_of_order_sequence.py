"""out-of-order-sequence: a log in which an idempotent producer's sequence numbers do not go on.

Definition: in a replica's final log, two neighbouring records of one producer id and producer epoch
whose sequence numbers do not follow one another, with no offset missing between them.

Why it proves something: a leader appends a batch of an idempotent producer only if its first
sequence is one more than the last that it has of that producer and epoch, and refuses any other
with OUT_OF_ORDER_SEQUENCE_NUMBER or DUPLICATE_SEQUENCE_NUMBER (KIP-98). It rebuilds what it knows
from the log itself, so that losing the end of a log breaks no sequence. A number that is left out
is a record that was dropped from the middle, or a batch that was let past; one that comes again was
written twice. It shows of records without an acknowledgement, too.

What would not prove it: producers without idempotence, which have no sequences; a new producer
epoch, which begins at 0; a compacted log, from which the cleaner takes records; a broker whose plan
sets when it forgets producers, for then it takes any number of one that it does not know; offsets
that could not be read. After the highest number 0 follows. A copy that keeps what it should have
cut off, and goes on with what its leader wrote, has numbers of two histories: no leader stored them
so. So a copy does not count if another one has the later record behind other ones, unless it is
that of the leader which wrote it, and no disk lost it since. That the copies differ is
`log-divergence`, where they must agree; before Kafka 2.0 followers could keep such records
(KIP-101, KIP-279). If all copies that are left kept what a leader wrote anew in its epoch,
`checkers/reused_epochs.py` excuses them.
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
"""Behind the highest sequence number comes 0 (KIP-98)."""
_FORGETS = {"producer.id.expiration.ms", "transactional.id.expiration.ms"}
"""How long brokers know a producer that writes nothing: days, if a plan does not say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """Two neighbouring records of a producer.

    Attributes:
        offset, before_offset: Of the later one, and of the one before it.
        sequence, before: Their sequence numbers.
        producer, producer_epoch: Whose.
        leader_epoch: In which the later one was written.
        nodes: Whose final logs have it so.
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
    """Return the places of neighbouring records of a producer, with all between them in the log."""
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
        "no producer wrote two records in one epoch, so a broken sequence could not show",
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
    """Tell whether another copy has the later record behind other ones than these copies."""
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
    """Tell whether a fault may have taken an offset from a node, which then has a copy of it."""
    return any(
        node in each.nodes
        and each.concerns(group.topic, group.partition)
        and each.first_taken <= offset
        for each in group.facts.disk_losses
    )


def _number(log: ReplicaLog, index: int) -> tuple[int, ...]:
    """Return what tells a record from others, and its producer's number."""
    columns = (log.epochs, log.hashes, log.producer_ids, log.producer_epochs, log.sequences)
    return tuple(int(each[index]) for each in columns)


def _held(log: ReplicaLog, low: int, high: int) -> list[list[int]]:
    """Return what a copy has from one offset to another, as `log-divergence` compares it."""
    these = slice(*np.searchsorted(log.offsets, [low, high]).tolist())
    return [each[these].tolist() for each in (log.offsets, log.epochs, log.hashes, log.controls)]


def _labels(group: Group, jump: Jump) -> Labels:
    """Return what excuses that two histories of one epoch meet between the two records."""
    log = group.logs[FINAL][jump.nodes[0]]
    between = slice(*np.searchsorted(log.offsets, [jump.before_offset, jump.offset]).tolist())
    places = zip(log.epochs[between].tolist(), log.offsets[between].tolist(), strict=True)
    return max(reuse(group, epoch, offset, offset) for epoch, offset in places)


def _describe(group: Group, jump: Jump) -> Anomaly:
    return anomaly_at(
        group,
        NAME,
        sentence=f"in the log of {listed(jump.nodes)}, {group.place} has sequence {jump.sequence}"
        f" of producer {jump.producer} (epoch {jump.producer_epoch}) at offset {jump.offset}, next"
        f" after its sequence {jump.before} at {jump.before_offset}",
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
    others = [name for name, log in logs.items() if name not in nodes and log.end > found.offset]
    if others:
        return (
            f"{verb(others, 'has', 'have')} it otherwise, so the copy of {listed(nodes)} is wrong"
        )
    leader = leader_text(group, number_in(found, "leader_epoch"))
    stored = [at for log in logs.values() for at in _places(log, producer, sequence)]
    earlier = min((at for at in stored if at < found.offset), default=NONE)
    if earlier >= 0:
        return (
            f"{leader} had sequence {sequence} at offset {earlier}, and took it again as a new one"
        )
    if sequence <= before:
        return f"{leader} took a number below one that its log has"
    return f"{leader} stored it though its log lacks {_missing(before, sequence)} before it"


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
        means="A log has what does not follow on the last record of an idempotent producer.",
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
    looks_for="the sequence numbers of an idempotent producer along each final log: each is one"
    " more than the one before it in the same producer epoch",
    waits=Waits.STOPPED,
    excuses=frozenset({Excuse.REUSED}),
    follows={"duplicate": "a retry that was stored twice has the same sequence number twice"},
)
