"""What power losses took: Kafka acknowledges what no disk has yet, so it may lose that.

Kafka leaves flushing to the kernel, and relies on replicas that do not fail together. A record that
every replica held in memory only, when every replica lost power, was never promised; the contract
allows its loss. If one replica that may have held it did not lose power, nothing is excused.
"""

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from checkers.columns import Ints, Mask, equal, ints, present, select, texts
from checkers.facts import FINAL, PowerCut
from checkers.group import Group

KIND = "power-loss"
_BROKEN = (ValueError, TypeError, KeyError)


def power_cuts(faults: pa.Table) -> tuple[PowerCut, ...]:
    """Return what the confirmed power losses among faults took, by their effects."""
    hit = select(faults, equal(faults, "kind", KIND) & present(faults, "confirmed_ns"))
    rows = zip(
        texts(hit, "effect"), hit["targets"].to_pylist(), ints(hit, "confirmed_ns").tolist(),
        strict=True,
    )  # fmt: skip
    return tuple(cut for row in rows for cut in _cuts(*row))


def _cuts(effect: str, targets: list[str] | None, confirmed_ns: int) -> Iterator[PowerCut]:
    """Yield a cut for each partition; an effect that cannot be read excuses nothing."""
    try:
        ends: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for cut in json.loads(effect)["replicas"]:
            place = (str(cut["topic"]), int(cut["partition"]))
            span = (int(cut["log_end_after"]), int(cut["log_end_before"]))
            ends.setdefault(place, []).append(span)
    except _BROKEN:
        return
    for (topic, partition), spans in ends.items():
        yield PowerCut(
            nodes=frozenset(targets or ()),
            topic=topic,
            partition=partition,
            end_after=max(after for after, _ in spans),
            end_before=max(before for _, before in spans),
            confirmed_ns=confirmed_ns,
        )


def lost_to_power(group: Group, offset: int, acked_ns: int) -> bool:
    """Tell if every replica of a partition lost power, and with it an offset acknowledged before.

    Args:
        group: The partition.
        offset: Of the record, -1 if unknown.
        acked_ns: When it was acknowledged, -1 if unknown.
    """
    cuts = [
        cut
        for cut in group.facts.power_cuts
        if (cut.topic, cut.partition) == (group.topic, group.partition)
        and 0 <= acked_ns <= cut.confirmed_ns
        and cut.end_after <= offset
    ]
    replicas = set(group.logs.get(FINAL, {}))
    hit = {node for cut in cuts for node in cut.nodes}
    all_hit = len(replicas) >= group.facts.plan.replication and replicas <= hit
    return all_hit and any(offset < cut.end_before for cut in cuts)


def cut_by_power(group: Group, node: str, offsets: Ints) -> Mask:
    """Tell which offsets of a replica were cut off when its node lost power.

    Args:
        group: The partition.
        node: Whose replica.
        offsets: Which.
    """
    gone = np.zeros(len(offsets), dtype=np.bool_)
    for cut in group.facts.power_cuts:
        here = (cut.topic, cut.partition) == (group.topic, group.partition) and node in cut.nodes
        gone |= here & (offsets >= cut.end_after) & (offsets < cut.end_before)
    return gone
