"""Find records that brokers lost by power losses, wipes and flipped bits.

Kafka lets the kernel decide when data is flushed, and relies on replicas that do not fail together.
There are four reasons why a replica may lose a record. Its node lost power before a flush. Its disk
was wiped. Its disk claimed a flush that never happened. A bit was flipped in the record's batch, or
in an earlier batch. The contract allows the loss of a record that every replica lost in such a way.
If one replica that may have held the record was not hit, the loss is not excused. The loss is also
not excused if one replica was back in a full ISR before the last replica was hit. The answers of a
single broker must show that return.

A fault may have removed every record that was acknowledged before the broker could answer again. If
a busy client recorded the acknowledgement later than that, the fault does not excuse the loss.

Two cases are uncertain. An uncertain case excuses nothing. But an anomaly that such a case would
explain cannot be trusted:

- A fault began and was never confirmed, because the fault failed halfway or the harness died. Until
  its heal, such a fault may have removed any record from its nodes.
- A fault hit every member of the ISR that a broker last reported, but not every replica. Such a
  fault may have removed the only copies. This case covers only newer records: these records became
  known after that broker last reported an ISR with a member that was not hit. An older acknowledged
  record is on that member's disk. If such a record is lost, the election is to blame (KIP-966), not
  the disk.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.columns import NEVER, Ints, Mask, equal, ints, present, select, texts
from checkers.facts import CRASH, FINAL, DiskLoss
from checkers.group import Group, once
from checkers.protocol import DISK_DOUBTS, Excuse
from checkers.told_isrs import Told, isr_returns, told_isrs
from results.record.terms import UNMEASURED

_BROKEN = (ValueError, TypeError, KeyError, OverflowError, RecursionError)
_NS_PER_S = 1_000_000_000
TOLD_LATE_NS = 2 * _NS_PER_S
"""The maximum delay until a broker that reaches the controllers reports a change."""
_STARTS_NS = 400_000_000
"""The minimum time from the start of a JVM to the broker's first answer. Usually, seconds pass.

A busy client may record an answer of the old process up to this long after the new JVM's start.
"""
LYING = "lost-flushes"
"""The family of faults in which a disk claims a flush, but loses the data when power is lost."""

Json = Mapping[str, object]
Span = tuple[str, int, int, int, str]
"""A lost range: topic, partition, log end after the fault, log end before it, node.

If the node is "", it may be any target of the fault.
"""


def disk_losses(faults: pa.Table) -> tuple[DiskLoss, ...]:
    """Return the records that faults removed, or may have removed, from disks."""
    found: list[DiskLoss] = list(_unconfirmed(faults))
    for excuse in _SPANS:
        hit = select(faults, _costs(faults, excuse) & present(faults, "confirmed_ns"))
        rows = zip(
            texts(hit, "effect"), texts(hit, "heal_effect"), hit["targets"].to_pylist(),
            ints(hit, "requested_ns").tolist(), ints(hit, "confirmed_ns").tolist(),
            ints(hit, "healed_ns").tolist(), strict=True,
        )  # fmt: skip
        for effect, heal_effect, targets, requested_ns, confirmed_ns, healed_ns in rows:
            until_ns = _down_until_ns(excuse, effect, confirmed_ns)
            if excuse is not Excuse.FLIP:
                until_ns = max(until_ns, heal_begun_ns(heal_effect, healed_ns))
            times = _Times(until_ns=until_ns, began_ns=requested_ns, healed_ns=healed_ns)
            found += _losses(excuse, effect, frozenset(targets or ()), times)
    return tuple(found)


def _costs(faults: pa.Table, excuse: Excuse) -> Mask:
    """Return a mask of the faults that an excuse covers. A lost flush counts as a power loss."""
    named = equal(faults, "kind", excuse.value)
    return named | is_of_family(faults, LYING) if excuse is Excuse.POWER else named


def is_of_family(faults: pa.Table, family: str) -> Mask:
    """Return a mask of the faults of a family. `family` is the name that the plan uses."""
    told = [json_object(spec).get("family") == family for spec in texts(faults, "spec")]
    return np.array(told, dtype=np.bool_)


def took_nothing(spec: Json, effect: Json) -> bool:
    """Return whether a fault of the family lost-flushes certainly truncated no log.

    Only rows with `incarnations` can prove this. Older rows look the same if the fault lost flushes
    on some nodes, but not on all.
    """
    return effect.get("without_effect") == UNMEASURED and "incarnations" in spec


def was_begun(faults: pa.Table) -> Mask:
    """Return a mask of the faults that may have affected their targets, confirmed or not.

    Newer rows have a field `begun`. In older rows, a fault that was left out has no targets. If a
    fault was refused before it began, an older row says so, and has no heal.
    """
    rows = zip(
        faults["targets"].to_pylist(), texts(faults, "spec"), texts(faults, "effect"),
        present(faults, "healed_ns").tolist(), strict=True,
    )  # fmt: skip
    return np.array([_was_begun(*row) for row in rows], dtype=np.bool_)


def _was_begun(targets: list[str] | None, spec: str, effect: str, healed: bool) -> bool:  # noqa: FBT001 - of a row
    told, done = json_object(spec), json_object(effect)
    begun = told.get("begun")
    if isinstance(begun, bool):
        return begun
    refused = "without_effect" in done and not healed and not told.get("not_healed")
    return bool(targets) and not refused


def json_object(text: str) -> Json:
    """Return the JSON object in a table cell, or an empty one if the cell holds none."""
    try:
        told = json.loads(text)
    except _BROKEN:
        return {}
    return told if isinstance(told, dict) else {}


def _unconfirmed(faults: pa.Table) -> Iterator[DiskLoss]:
    """Yield, for each unconfirmed fault, a loss that covers all offsets."""
    told = zip(texts(faults, "spec"), texts(faults, "effect"), strict=True)
    looked = [took_nothing(json_object(spec), json_object(effect)) for spec, effect in told]
    lying = is_of_family(faults, LYING) & ~np.array(looked, dtype=np.bool_)
    ours = equal(faults, "kind", *(excuse.value for excuse in _SPANS)) | lying
    rows = select(faults, ours & ~present(faults, "confirmed_ns") & was_begun(faults))
    columns = (ints(rows, name).tolist() for name in ("requested_ns", "healed_ns"))
    for targets, began_ns, healed_ns in zip(rows["targets"].to_pylist(), *columns, strict=True):
        yield DiskLoss(
            nodes=frozenset(targets or ()),
            topic="",
            partition=-1,
            end_after=0,
            end_before=NEVER,
            until_ns=healed_ns if healed_ns >= 0 else NEVER,
            began_ns=began_ns,
            healed_ns=healed_ns,
            excuse=Excuse.UNCONFIRMED.value,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """The times of one fault, with the same names as in `DiskLoss`."""

    until_ns: int
    began_ns: int
    healed_ns: int


def _down_until_ns(excuse: Excuse, effect: str, confirmed_ns: int) -> int:
    """Return the last time at which the fault's brokers were certainly down; -1 if unknown.

    With a flipped bit, the brokers already run again when the fault is confirmed.
    """
    if excuse is not Excuse.FLIP:
        return confirmed_ns
    try:
        return confirmed_ns - round(float(json.loads(effect)["ran_s"]) * _NS_PER_S)
    except _BROKEN:
        return -1


def heal_begun_ns(heal_effect: str, healed_ns: int) -> int:
    """Return the time at which a fault's heal began to restart brokers; -1 if unknown."""
    try:
        return healed_ns - round(float(json.loads(heal_effect)["took_s"]) * _NS_PER_S)
    except _BROKEN:
        return -1


def _losses(
    excuse: Excuse, effect: str, nodes: frozenset[str], times: _Times
) -> Iterator[DiskLoss]:
    """Yield a loss for each partition. An effect that cannot be parsed excuses nothing."""
    ends: dict[tuple[str, int], list[tuple[int, int, str]]] = {}
    try:
        for topic, partition, after, before, node in _SPANS[excuse](json.loads(effect)):
            ends.setdefault((topic, partition), []).append((after, before, node))
    except _BROKEN:
        return
    for (topic, partition), spans in ends.items():
        named = frozenset(node for *_, node in spans)
        ends_after = sorted(after for after, *_ in spans)
        yield DiskLoss(
            nodes=nodes if "" in named else named,
            topic=topic,
            partition=partition,
            replicas=len(spans),
            end_after=ends_after[-1],
            least_after=ends_after[0] if ends_after[0] < ends_after[-1] else None,
            end_before=max(before for _, before, _ in spans),
            until_ns=times.until_ns,
            began_ns=times.began_ns,
            healed_ns=times.healed_ns,
            excuse=excuse.value,
        )


def _spans(rows: str, after: str, before: str) -> Callable[[Json], list[Span]]:
    def read(effect: Json) -> list[Span]:
        listed = effect[rows]
        if not isinstance(listed, list):
            raise TypeError(f"{rows} is not a list")
        return [
            (
                str(each["topic"]),
                int(each["partition"]),
                int(each[after]),
                int(each[before]),
                str(each.get("node", "")),
            )
            for each in listed
        ]

    return read


_SPANS: Mapping[Excuse, Callable[[Json], list[Span]]] = {
    Excuse.POWER: _spans("replicas", "log_end_after", "log_end_before"),
    Excuse.WIPE: _spans("replicas", "log_start", "log_end"),
    # A broker that finds the damaged batch truncates its log there, with all records
    # behind it. One replica of each node has such a batch; the node's others stay whole.
    Excuse.FLIP: _spans("flips", "base_offset", "log_end"),
}
"""For each kind of fault, a function that reads the lost offsets from the fault's effect.

Each kind has the same name as its excuse.
"""


def lost_on_disks(
    group: Group, offset: int, known_ns: int, *, missed_ns: int = NEVER
) -> tuple[str, ...]:
    """Return the excuses of the faults that removed an offset from every replica of a partition.

    Args:
        group: The run's rows of one partition.
        offset: The record's offset, -1 if unknown.
        known_ns: When the record was known to be in the log (its acknowledgement). If it is -1
            (unknown), nothing is excused.
        missed_ns: When the record was missing. Losses that began later do not count.

    Returns:
        The excuses of these faults, or the reasons why the loss is uncertain (`DISK_DOUBTS`). The
        result is empty if some replica must have kept the record.
    """
    took = [
        loss
        for loss in group.facts.disk_losses
        if loss.concerns(group.topic, group.partition)
        and 0 <= known_ns <= _told_until_ns(group, loss)
        and loss.began_ns <= missed_ns
        and (offset < 0 or loss.end_after <= offset)
    ]
    if not took:
        return ()
    replicas, blind = replicas_of(group), not group.shows_logs
    # If replicas' places are unknown, any set of nodes of that size may be all replicas.
    plan = group.facts.plan
    all_of, least = (group.members, plan.least_insync) if blind else (None, None)
    sure = [loss for loss in took if loss.excuse != Excuse.UNCONFIRMED]
    if offset < 0:  # Without an offset, it is unknown whether the record was lost too.
        hit = _hit_together(group, took, offset, replicas, count=least)
        return (Excuse.LAST_COPIES.value,) if hit else ()
    if excuses := _hit_together(group, sure, offset, replicas, count=all_of):
        return excuses
    if _hit_together(group, took, offset, replicas, count=all_of):
        return (Excuse.UNCONFIRMED.value,)
    # More nodes than replicas: one log was not read, or a replica was moved.
    least = group.members if len(replicas) > group.members and not blind else least
    last_ones = _hit_the_isr(group, took, offset, known_ns=known_ns)
    last_ones |= least is not None and bool(
        _hit_together(group, took, offset, replicas, count=least)
    )
    return (Excuse.LAST_COPIES.value,) if last_ones else ()


def resets(group: Group) -> list[DiskLoss]:
    """Return the losses that hit all replicas of a partition at once.

    Every later report comes from a log that the loss had cut. After a loss on some replicas, the
    others may still report what they had before.
    """
    replicas = frozenset(replicas_of(group))
    return [
        loss
        for loss in group.facts.disk_losses
        if loss.concerns(group.topic, group.partition) and replicas <= loss.nodes
    ]


@once
def first_known_ns(group: Group, offset: int, value: int | None = None) -> int:
    """Return the time at which an offset was first known to hold a record; -1 if it never was.

    The time comes from an acknowledgement or from a read, whichever is earlier. A reader may also
    get a record that was not acknowledged. If `value` is given, only records with that value count.
    """
    sends, polls = group.table("sends"), group.table("polls")
    acked = select(sends, equal(sends, "acked", True))  # noqa: FBT003 - a value
    here = [select(each, ints(each, "offset") == offset) for each in (acked, polls)]
    if value is not None:
        here = [select(each, ints(each, "value") == value) for each in here]
    times = [at for each in here for at in ints(each, "complete_ns")]
    return int(min((at for at in times if at >= 0), default=-1))


def _told_until_ns(group: Group, loss: DiskLoss) -> int:
    """Return the time up to which every answer comes from the process that ran before a loss.

    A restarted broker acknowledges nothing for a short time.
    """
    slow = not group.facts.plan.is_reference and loss.excuse != Excuse.UNCONFIRMED
    return loss.until_ns + _STARTS_NS if slow and loss.until_ns >= 0 else loss.until_ns


def replicas_of(group: Group) -> Collection[str]:
    """Return the nodes that have a replica of the partition, or all brokers' nodes if unknown.

    A fault that recreates a topic also chooses the nodes of the new replicas.
    """
    if remade := group.remade:
        return remade.replicas[group.partition]
    replicas = set(group.logs.get(FINAL) or group.logs.get(CRASH, {}))
    if len(replicas) >= group.members:
        return replicas
    return {f"n{broker}" for broker in group.facts.brokers}


def _hit_together(
    group: Group,
    took: Sequence[DiskLoss],
    offset: int,
    replicas: Collection[str],
    *,
    count: int | None = None,
) -> tuple[str, ...]:
    """Return the excuses of losses by which all given replicas lacked the record at the same time.

    Args:
        group: The run's rows of one partition.
        took: The losses.
        offset: The record's offset.
        replicas: The nodes that may have a replica.
        count: The number of these nodes that had a replica. None means all nodes.
    """
    least = len(replicas) if count is None else count
    for last in took:
        at_once = [(loss, _lacking(group, loss, last.began_ns) & set(replicas)) for loss in took]
        hit = {node for _, nodes in at_once for node in nodes}
        if len(hit) >= least and any(nodes and offset < loss.end_before for loss, nodes in at_once):
            return tuple(sorted({loss.excuse for loss, nodes in at_once if nodes}))
    return ()


def _hit_the_isr(
    group: Group, took: Sequence[DiskLoss], offset: int, *, known_ns: int = NEVER
) -> bool:
    """Return whether losses hit all members of an ISR, which may have had the only copies."""
    hit = frozenset(node for loss in took for node in loss.nodes)
    return any(
        known_ns > wider_ns - TOLD_LATE_NS and _hit_together(group, took, offset, isr)
        for last in took
        for isr, wider_ns in _isrs(group, last, hit).items()
    )


def _isrs(group: Group, loss: DiskLoss, hit: frozenset[str]) -> dict[frozenset[str], int]:
    """Return the last ISRs that brokers reported before a fault began, with times.

    Returns:
        For each ISR, a time. Before the broker reported this ISR, it may have reported a different
        ISR, with a member that was not hit. The time is the time of the last report of such a
        different ISR; -1 if there was no such report. If several brokers reported the ISR, the
        earliest time counts, because a broker may learn of a change late.
    """
    answers: dict[tuple[str, str, int], list[Told]] = {}
    for each in told_isrs(group):
        if each.seen_ns <= loss.began_ns:
            answers.setdefault(each.by, []).append(each)
    wider: dict[frozenset[str], list[int]] = {}
    for told in answers.values():
        isr = told[-1].nodes
        spared = [each.asked_ns for each in told if each.nodes - isr - hit]
        wider.setdefault(isr, []).extend(spared[-1:])
    return {isr: min(times, default=-1) for isr, times in wider.items() if isr}


def all_lost(each: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the excuses for several losses together.

    If one loss has no excuse, the result is empty. If one loss is uncertain, the result has only
    the doubts.

    Args:
        each: The results of `lost_on_disks`.
    """
    told = {excuse for excuses in each for excuse in excuses}
    if not each or not all(each):
        return ()
    return tuple(sorted(told & set(DISK_DOUBTS) or told))


def last_copies_went(group: Group, offset: int, *, missed_ns: int = NEVER) -> bool:
    """Return whether a fault that began by a time may have removed the only copies of an offset."""
    took = [
        loss
        for loss in group.facts.disk_losses
        if loss.concerns(group.topic, group.partition)
        and loss.first_taken <= offset
        and loss.began_ns <= missed_ns
    ]
    return _hit_the_isr(group, took, offset)


def _lacking(group: Group, loss: DiskLoss, at_ns: int) -> set[str]:
    """Return the nodes that a loss had hit, and that were not yet in a full ISR again at a time."""
    if loss.began_ns > at_ns:
        return set()
    again = {
        back.node
        for back in isr_returns(group)
        if back.left_ns >= loss.began_ns
        and back.asked_ns >= loss.until_ns
        and 0 <= loss.healed_ns < at_ns
        and back.seen_ns < at_ns
    }
    return set(loss.nodes - again)


def taken_from(
    group: Group, node: str, offsets: Ints, *, since_ns: int, missed_ns: int = NEVER
) -> dict[str, Mask]:
    """Return, for each excuse, a mask of the offsets that a fault removed from a disk.

    Args:
        group: The run's rows of one partition.
        node: The replica's node.
        offsets: The offsets.
        since_ns: A time at which the replica had the records. Earlier losses do not count.
        missed_ns: When the records were missing. Losses that began later do not count.
    """
    gone: dict[str, Mask] = {}
    for loss in group.facts.disk_losses:
        here = loss.concerns(group.topic, group.partition) and node in loss.nodes
        here &= loss.until_ns >= since_ns and loss.began_ns <= missed_ns
        mask = here & (offsets >= loss.first_taken) & (offsets < loss.end_before)
        gone[loss.excuse] = gone.get(loss.excuse, np.zeros(len(offsets), dtype=np.bool_)) | mask
    return gone


def excuses_of_disk(
    group: Group, node: str, ends: tuple[int, int], *, since_ns: int, missed_ns: int = NEVER
) -> list[str]:
    """Return the disk excuses, or the doubts, for a range of offsets that a replica dropped.

    Args:
        group: The run's rows of one partition.
        node: The replica's node.
        ends: The first and the last offset.
        since_ns: A time at which the replica still had the records.
        missed_ns: When the replica lacked the records. Losses that began later do not count.
    """
    offsets = np.array(ends, dtype=np.int64)
    taken = taken_from(group, node, offsets, since_ns=since_ns, missed_ns=missed_ns)
    # One fault may have removed the end, and a later fault the rest.
    sure = [gone for excuse, gone in taken.items() if excuse != Excuse.UNCONFIRMED]
    if _all_of(sure):
        taken.pop(Excuse.UNCONFIRMED.value, None)
    elif _all_of(taken.values()):
        return [Excuse.UNCONFIRMED.value]
    else:
        went = last_copies_went(group, ends[0], missed_ns=missed_ns)
        return [Excuse.LAST_COPIES.value] if went else []
    return sorted(excuse for excuse, gone in taken.items() if gone.any())


def _all_of(taken: Iterable[Mask]) -> bool:
    return bool(np.logical_or.reduce([*taken, np.zeros(2, dtype=np.bool_)]).all())
