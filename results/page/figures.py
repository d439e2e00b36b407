"""What was offered, what was missed, and how operations ended."""

from collections import defaultdict
from dataclasses import dataclass

from results.record.terms import Outcome
from results.tables import RunTables


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Counts of a run.

    Attributes:
        offered, missed: Operations that the plan's rate asked for, and those of them that found no
            free process; None where there was no rate to hold.
        held: The share that was not missed, from 0 to 1; None likewise.
        operations: (f, count by outcome in the order of `outcomes`, sum).
        outcomes: ok, fail, info, and whatever else was recorded.
    """

    offered: int | None
    missed: int | None
    held: float | None
    operations: tuple[tuple[str, tuple[int, ...], int], ...]
    outcomes: tuple[str, ...]

    @property
    def total(self) -> int:
        """All operations."""
        return sum(each[2] for each in self.operations)


def figures(tables: RunTables) -> Figures:
    """Sum up the statistics of a run; zeros and None where there are none."""
    arrivals = tables.statistics("offered")
    offered = sum(each or 0 for each in arrivals["offered"].to_pylist())
    missed = sum(each or 0 for each in arrivals["missed"].to_pylist())
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in tables.statistics("rates").to_pylist():
        counts[str(row["f"])][str(row["outcome"])] += row["count"] or 0
    seen = {outcome for by_outcome in counts.values() for outcome in by_outcome}
    outcomes = (*Outcome, *sorted(seen - set(Outcome)))
    return Figures(
        offered=offered or None,
        missed=missed if offered else None,
        held=(offered - missed) / offered if offered else None,
        operations=tuple(
            (f, tuple(by[each] for each in outcomes), sum(by.values()))
            for f, by in sorted(counts.items())
        ),
        outcomes=tuple(str(each) for each in outcomes),
    )
