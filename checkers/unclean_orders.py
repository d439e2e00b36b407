"""Find faults that requested an unclean election. A loss by such an election breaks no promise.

A plan may leave `unclean.leader.election.enable` off, and use a fault to request an unclean
election for one partition. The metadata log shows whether the election happened
(`unclean_elections`). This module returns only the partition and the time of the request. If the
fault observed the election, the module also returns its leader, its epoch, the epoch before, and
the time. An unconfirmed request may have been carried out. A fault that was skipped, or refused
before it began, requested nothing.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from checkers.columns import equal, ints, select, texts
from checkers.disk_losses import was_begun
from checkers.facts import UncleanOrder

KIND = "unclean-election"
_TARGET = re.compile(r"[a-z-]+\((?P<topic>[^(),]+),(?P<partition>\d{1,9})\)")
_BROKEN = (ValueError, TypeError, RecursionError)

Place = tuple[str, int]


def unclean_orders(faults: pa.Table) -> tuple[UncleanOrder, ...]:
    """Return the unclean elections that faults requested, from the rows' effect, spec or target."""
    rows = select(faults, equal(faults, "kind", KIND) & was_begun(faults))
    times = (ints(rows, name).tolist() for name in ("requested_ns", "confirmed_ns"))
    found = zip(texts(rows, "spec"), texts(rows, "effect"), *times, strict=True)
    return tuple(order for each in found if (order := _order(*each)) is not None)


def _order(spec: str, effect: str, began_ns: int, seen_ns: int) -> UncleanOrder | None:
    seen, told = _object(effect), _object(spec)
    place = _place(seen.get("place")) or _place(told.get("place")) or _of_target(told.get("target"))
    if place is None:
        return None
    order = UncleanOrder(topic=place[0], partition=place[1], began_ns=began_ns)
    match seen:
        case {
            "before": {"leader_epoch": int(before)},
            "after": {"leader_epoch": int(after), "leader": str(leader)},
        }:
            return replace(order, after_epoch=before, epoch=after, leader=leader, seen_ns=seen_ns)
        case _:
            return order


def _object(text: str) -> Mapping[str, object]:
    try:
        told = json.loads(text)
    except _BROKEN:
        return {}
    return told if isinstance(told, dict) else {}


def _place(told: object) -> Place | None:
    match told:
        case [str(topic), int(partition)]:
            return topic, partition
        case _:
            return None


def _of_target(target: object) -> Place | None:
    match = _TARGET.fullmatch(str(target).replace(" ", ""))
    return (match["topic"], int(match["partition"])) if match else None
