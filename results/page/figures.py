"""Counts of a run: offered and missed operations, and operations for each outcome."""

from collections import defaultdict
from dataclasses import dataclass

import pyarrow as pa

from results.record.terms import Outcome
from results.tables import RunTables


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Counts of a run.

    Attributes:
        offered, missed: How many operations the plan's rate scheduled, and how many of these did
            not start because no process was free. None if the plan has no rate.
        begun: Share of offered operations that were not missed, from 0 to 1; None without a rate.
        calm_begun: The same share, but only of operations in seconds without a fault.
        operations: For each kind of operation: (`f`, count for each outcome in `outcomes`, sum).
        outcomes: ok, fail, info, and any other recorded outcome.
    """

    offered: int | None
    missed: int | None
    begun: float | None
    calm_begun: float | None
    operations: tuple[tuple[str, tuple[int, ...], int], ...]
    outcomes: tuple[str, ...]

    @property
    def total(self) -> int:
        """Number of all operations."""
        return sum(each[2] for each in self.operations)


def figures(tables: RunTables) -> Figures:
    """Return the counts from a run's statistics; zeros and None if there are no statistics."""
    arrivals = tables.statistics("offered")
    offered, missed = _sum(arrivals, "offered"), _sum(arrivals, "missed")
    calm_offered, calm_missed = _sum(arrivals, "calm_offered"), _sum(arrivals, "calm_missed")
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in tables.statistics("rates").to_pylist():
        counts[str(row["f"])][str(row["outcome"])] += row["count"] or 0
    seen = {outcome for by_outcome in counts.values() for outcome in by_outcome}
    outcomes = (*Outcome, *sorted(seen - set(Outcome)))
    return Figures(
        offered=offered or None,
        missed=missed if offered else None,
        begun=_share(offered, missed),
        calm_begun=_share(calm_offered, calm_missed),
        operations=tuple(
            (f, tuple(by[each] for each in outcomes), sum(by.values()))
            for f, by in sorted(counts.items())
        ),
        outcomes=tuple(str(each) for each in outcomes),
    )


def _sum(table: pa.Table, name: str) -> int:
    return sum(each or 0 for each in table[name].to_pylist())


def _share(offered: int, missed: int) -> float | None:
    return (offered - missed) / offered if offered else None
