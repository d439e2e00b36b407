"""Count the transitions in a group's rows, in two tables that are the same in both engines.

A succession is a pair of consecutive transitions in one thread of one place, at most ten seconds
apart. Threads separate independent areas: for example, refused requests of clients do not come
between an election and its effect. Each voter and each group has a separate thread. Transitions
with equal times are ordered by name. Two successive transitions with the same name are not a pair.
A transition without a time is counted, but is not part of a succession. Such a transition may have
happened between the two transitions of a succession.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from checkers.columns import Ints, schema_of
from checkers.group import Group
from checkers.layout import RUN
from checkers.transitions import (
    coordinators,
    elections,
    epochs,
    groups,
    isrs,
    producers,
    quorum,
    recoveries,
    refusals,
    servers,
    shares,
    transactions,
    truncations,
)
from checkers.transitions.events import Events, Places
from results.record.clock import NS_PER_S
from results.record.transitions import area_of

APART_NS = 10 * NS_PER_S
"""The maximum time between two transitions of a succession."""
_THREADS: Mapping[str, str] = {
    "refused": "clients", "group": "groups", "share": "shares", "quorum": "quorum",
    "coordinator": "coordinators", "transaction": "coordinators",
}  # fmt: skip
"""The thread of each area. All other areas share the thread of a partition's replicas."""
_PLACE: dict[str, pa.DataType] = {
    "topic": pa.string(), "topic_id": pa.string(), "partition": pa.int32(),
}  # fmt: skip
SCHEMAS: dict[str, pa.Schema] = {
    "transitions": schema_of(
        **_PLACE, transition=pa.string(), count=pa.int64(), first_ns=pa.int64()
    ),
    "successions": schema_of(**_PLACE, before=pa.string(), after=pa.string(), count=pa.int64()),
}
"""The columns of both tables. `first_ns` is null if all times of the transition are unknown."""
_OF_PARTITIONS = (
    elections, isrs, truncations, epochs, recoveries, producers, refusals, groups, shares,
)  # fmt: skip
_OF_RUNS = (quorum, coordinators, transactions, servers)


def reached(group: Group) -> dict[str, pa.Table]:
    """Return the tables of `SCHEMAS` for a group: a partition, or the run.

    A run's group covers the quorum, coordinating partitions, and transitions without a place.
    """
    found = _of_run(group) if group.partition < 0 else [_of_partition(group)]
    return {
        "transitions": pa.Table.from_pylist(
            [row for events in found for row in _counted(events)], schema=SCHEMAS["transitions"]
        ),
        "successions": pa.Table.from_pylist(
            [row for events in found for row in _paired(events)], schema=SCHEMAS["successions"]
        ),
    }


def _of_partition(group: Group) -> Events:
    events = Events((group.topic, group.topic_id, group.partition))
    for area in (truncations,) if group.of_quorum else _OF_PARTITIONS:
        area.find(group, events)
    return events


def _of_run(group: Group) -> Iterable[Events]:
    places = Places()
    for area in _OF_RUNS:
        area.find(group, places)
    refusals.find_of_run(group, places.at(""))
    return places.found()


def _counted(events: Events) -> Iterable[dict[str, object]]:
    told: dict[str, list[Ints]] = {}
    for name, _, times in events.items():
        told.setdefault(name, []).append(times)
    for name, parts in told.items():
        times = np.concatenate(parts)
        known = times[times >= 0]
        first_ns = int(known.min()) if len(known) else None
        yield {**_place(events), "transition": name, "count": len(times), "first_ns": first_ns}


def _paired(events: Events) -> Iterable[dict[str, object]]:
    """Yield the successions of a place, sorted by name; none for the run itself.

    The counts of all threads of the place are added.
    """
    threads: dict[tuple[str, str], dict[str, Ints]] = {}
    for name, of, times in events.items() if events.place != RUN else ():
        if len(known := times[times >= 0]):
            threads.setdefault((_THREADS.get(area_of(name), ""), of), {})[name] = known
    counts = Counter[tuple[str, str]]()
    for told in threads.values():
        counts.update(_pairs(told))
    for before, after in sorted(counts):
        count = counts[before, after]
        yield {**_place(events), "before": before, "after": after, "count": count}


def _pairs(told: Mapping[str, Ints]) -> dict[tuple[str, str], int]:
    """Count, for each pair of transitions, how often one directly follows the other in a thread.

    Each pair is encoded as one number, so that numpy can count the pairs without a loop.
    """
    names = [*told]
    codes = np.repeat(np.arange(len(names)), [len(times) for times in told.values()])
    times = np.concatenate([*told.values()])
    order = np.lexsort((codes, times))
    codes, times = codes[order], times[order]
    follows = (codes[1:] != codes[:-1]) & (times[1:] - times[:-1] <= APART_NS)
    pairs = codes[:-1][follows] * len(names) + codes[1:][follows]
    counted = zip(*(each.tolist() for each in np.unique(pairs, return_counts=True)), strict=True)
    return {(names[pair // len(names)], names[pair % len(names)]): count for pair, count in counted}


def _place(events: Events) -> dict[str, object]:
    return dict(zip(_PLACE, events.place, strict=True))
