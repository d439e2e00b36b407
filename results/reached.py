"""Read the protocol transitions that a run reached, and the pairs of successive transitions.

The judge computes transitions from the record and stores them with the other statistics. If a run
was not judged, or was judged by an older Logquake, it has no transitions. `logquake check` adds the
transitions.
"""

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from results.record.paths import RunPaths
from results.record.transitions import TRANSITIONS
from results.tables import RunTables

Succession = tuple[str, str]
"""Two transitions in the same place, such as a partition, at most ten seconds apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The transitions that a run reached.

    Attributes:
        transitions: Names in `results.record.transitions.TRANSITIONS`.
        successions: Pairs of successive transitions.
    """

    transitions: frozenset[str] = field(default_factory=frozenset)
    successions: frozenset[Succession] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A transition that a run reached, summed over all places.

    Attributes:
        name: Name in `TRANSITIONS`.
        sentence: The meaning of the transition, as a sentence.
        count: How often it happened.
        first_ns: Time of the first occurrence in nanoseconds since the run's start; None if
            unknown.
    """

    name: str
    sentence: str
    count: int
    first_ns: int | None


def reached(paths: RunPaths) -> Reached:
    """Return the transitions that a run reached; empty if its statistics are missing or damaged."""
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
    """Return a run's transitions in the catalogue's order; each count is a sum over all places."""
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
    """Return the rows in which all transition names are known."""
    for name in names:
        table = table.filter(pc.is_in(table[name], value_set=pa.array(list(TRANSITIONS))))
    return table
