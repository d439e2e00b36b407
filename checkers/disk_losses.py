"""What power losses, wipes and flipped bits took: nobody promised that disks and memory last.

Kafka leaves flushing to the kernel and relies on replicas that do not fail together. A record that
every replica held in memory only when it lost power, or on a disk that was emptied, or behind a bit
that was flipped, was never promised; the contract allows its loss. If one replica that may have
held it was spared, nothing is excused. Nor is anything if they were hit one after the other, and
what one had lost it had fetched again before the last was hit: it left the ISR, and the ISR was
full again, as one broker told in this order.

What was there when the fault came was acknowledged before the broker ran again. An acknowledgement
that a busy client saw later than that is not believed to be one of those.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.columns import Ints, Mask, equal, ints, present, select, texts
from checkers.facts import FINAL, DiskLoss
from checkers.group import Group
from checkers.protocol import Excuse

_BROKEN = (ValueError, TypeError, KeyError, OverflowError, RecursionError)
_NS_PER_S = 1_000_000_000

Json = Mapping[str, object]
Span = tuple[str, int, int, int]
"""Topic, partition, end of what is left, end of what was there."""


def disk_losses(faults: pa.Table) -> tuple[DiskLoss, ...]:
    """Return what the confirmed faults that take records took, by their effects."""
    found: list[DiskLoss] = []
    for excuse in _SPANS:
        hit = select(faults, equal(faults, "kind", excuse.value) & present(faults, "confirmed_ns"))
        rows = zip(
            texts(hit, "effect"), texts(hit, "heal_effect"), hit["targets"].to_pylist(),
            ints(hit, "requested_ns").tolist(), ints(hit, "confirmed_ns").tolist(),
            ints(hit, "healed_ns").tolist(), strict=True,
        )  # fmt: skip
        for effect, heal_effect, targets, requested_ns, confirmed_ns, healed_ns in rows:
            until_ns = _down_until_ns(excuse, effect, confirmed_ns)
            if excuse is not Excuse.FLIP:
                until_ns = max(until_ns, _heal_begun_ns(heal_effect, healed_ns))
            times = _Times(until_ns=until_ns, began_ns=requested_ns, healed_ns=healed_ns)
            found += _losses(excuse, effect, frozenset(targets or ()), times)
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """Of a fault, as `DiskLoss` has them."""

    until_ns: int
    began_ns: int
    healed_ns: int


def _down_until_ns(excuse: Excuse, effect: str, confirmed_ns: int) -> int:
    """Return when brokers were certainly down; with a flipped bit they run when it is confirmed."""
    if excuse is not Excuse.FLIP:
        return confirmed_ns
    try:
        return confirmed_ns - round(float(json.loads(effect)["ran_s"]) * _NS_PER_S)
    except _BROKEN:
        return -1


def _heal_begun_ns(heal_effect: str, healed_ns: int) -> int:
    """Return when the brokers of a fault were started again; -1 if nobody knows."""
    try:
        return healed_ns - round(float(json.loads(heal_effect)["took_s"]) * _NS_PER_S)
    except _BROKEN:
        return -1


def _losses(
    excuse: Excuse, effect: str, nodes: frozenset[str], times: _Times
) -> Iterator[DiskLoss]:
    """Yield a loss for each partition; an effect that cannot be read excuses nothing."""
    ends: dict[tuple[str, int], list[tuple[int, int]]] = {}
    try:
        for topic, partition, after, before in _SPANS[excuse](json.loads(effect)):
            ends.setdefault((topic, partition), []).append((after, before))
    except _BROKEN:
        return
    for (topic, partition), spans in ends.items():
        yield DiskLoss(
            nodes=nodes,
            topic=topic,
            partition=partition,
            end_after=max(after for after, _ in spans),
            end_before=max(before for _, before in spans),
            until_ns=times.until_ns,
            began_ns=times.began_ns,
            healed_ns=times.healed_ns,
            excuse=excuse.value,
        )


def _spans(rows: str, after: str, before: str) -> Callable[[Json], list[Span]]:
    def read(effect: Json) -> list[Span]:
        listed = effect[rows]
        if not isinstance(listed, list):
            raise TypeError(f"{rows} are no list")
        return [
            (str(each["topic"]), int(each["partition"]), int(each[after]), int(each[before]))
            for each in listed
        ]

    return read


_SPANS: Mapping[Excuse, Callable[[Json], list[Span]]] = {
    Excuse.POWER: _spans("replicas", "log_end_after", "log_end_before"),
    Excuse.WIPE: _spans("replicas", "log_start", "log_end"),
    # A broker that finds the batch cuts its log there, and all behind it goes as well.
    Excuse.FLIP: _spans("flips", "base_offset", "log_end"),
}
"""How the effect of each kind tells what of a log it took; the kinds are called as the excuses."""


def lost_on_disks(group: Group, offset: int, known_ns: int) -> tuple[str, ...]:
    """Return the faults by which every replica of a partition lost an offset that it had.

    Args:
        group: The partition.
        offset: Of the record, -1 if unknown.
        known_ns: When it was known to stand there: its acknowledgement; -1 if unknown.

    Returns:
        Their excuses; none if a replica may have kept it.
    """
    took = [
        loss
        for loss in group.facts.disk_losses
        if (loss.topic, loss.partition) == (group.topic, group.partition)
        and 0 <= known_ns <= loss.until_ns
        and loss.end_after <= offset
    ]
    replicas = set(group.logs.get(FINAL, {}))
    if len(replicas) < group.facts.plan.replication:
        return ()
    for last in took:
        at_once = [(loss, _lacking(group, loss, last.began_ns) & replicas) for loss in took]
        hit = {node for _, nodes in at_once for node in nodes}
        if replicas <= hit and any(nodes and offset < loss.end_before for loss, nodes in at_once):
            return tuple(sorted({loss.excuse for loss, nodes in at_once if nodes}))
    return ()


def _lacking(group: Group, loss: DiskLoss, at_ns: int) -> set[str]:
    """Return the nodes of a loss that had been hit, and were not known to be whole, at a time."""
    if loss.began_ns > at_ns:
        return set()
    again = {
        back.node
        for back in group.isr_returns
        if back.left_ns >= loss.began_ns
        and back.asked_ns >= loss.until_ns
        and 0 <= loss.healed_ns < at_ns
        and back.seen_ns < at_ns
    }
    return set(loss.nodes - again)


def taken_from(group: Group, node: str, offsets: Ints, *, since_ns: int) -> dict[str, Mask]:
    """Tell which offsets of a replica a fault of its disk took, by the fault's excuse.

    Args:
        group: The partition.
        node: Whose replica.
        offsets: Which.
        since_ns: What had been taken before had come back by then: the replica had it.
    """
    gone: dict[str, Mask] = {}
    for loss in group.facts.disk_losses:
        here = (loss.topic, loss.partition) == (group.topic, group.partition) and node in loss.nodes
        here &= loss.until_ns >= since_ns
        mask = here & (offsets >= loss.end_after) & (offsets < loss.end_before)
        gone[loss.excuse] = gone.get(loss.excuse, np.zeros(len(offsets), dtype=np.bool_)) | mask
    return gone
