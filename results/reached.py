"""What a run reached of the protocol's behaviour: transitions, and pairs of them in succession.

The judgement works it out of the record and stores it with the other statistics. A run that was
judged before that was done, or not at all, has none: `logquake check` makes it.
"""

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from results.record.paths import RunPaths
from results.record.transitions import TRANSITIONS
from results.tables import RunTables

Succession = tuple[str, str]
"""Two transitions of one place; the second followed the first within ten seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What a run reached.

    Attributes:
        transitions: Names in `results.record.transitions.TRANSITIONS`.
        successions: Pairs of these.
    """

    transitions: frozenset[str] = field(default_factory=frozenset)
    successions: frozenset[Succession] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A transition of a run, over all places.

    Attributes:
        name: In `TRANSITIONS`.
        sentence: What it is.
        count: How often it happened.
        first_ns: When it happened first, in nanoseconds since the run's start; None: at no known
            time.
    """

    name: str
    sentence: str
    count: int
    first_ns: int | None


def reached(paths: RunPaths) -> Reached:
    """Return what a run reached; nothing if it has no such statistics, or they are damaged."""
    tables = RunTables(paths)
    pairs = _listed(tables.statistics("successions"), "before", "after")
    pairs = pairs.group_by(["before", "after"], use_threads=False).aggregate([])
    return Reached(
        transitions=frozenset(each.name for each in transitions_of(tables)),
        successions=frozenset(
            zip(*(pairs[name].to_pylist() for name in ("before", "after")), strict=True)
        ),
    )


def transitions_of(tables: RunTables) -> list[Transition]:
    """Return the transitions of a run over all places, in the order of the catalogue."""
    listed = _listed(tables.statistics("transitions"), "transition")
    sums = listed.group_by("transition", use_threads=False).aggregate(
        [("count", "sum"), ("first_ns", "min")]
    )
    rows = {row["transition"]: row for row in sums.to_pylist()}
    return [
        Transition(
            name=name,
            sentence=said,
            count=rows[name]["count_sum"] or 0,
            first_ns=rows[name]["first_ns_min"],
        )
        for name, said in TRANSITIONS.items()
        if name in rows
    ]


def _listed(table: pa.Table, *names: str) -> pa.Table:
    """Return the rows whose names are all in the catalogue."""
    for name in names:
        table = table.filter(pc.is_in(table[name], value_set=pa.array(list(TRANSITIONS))))
    return table
