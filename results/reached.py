"""What a run reached of the protocol's behaviour: transitions, and pairs of them in succession.

The judgement works it out of the record and stores it with the other statistics. A run that was
judged before that was done, or not at all, has none: `logquake check` makes it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

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
    pairs = (tables.statistics("successions")[name].to_pylist() for name in ("before", "after"))
    return Reached(
        transitions=frozenset(_known(tables.statistics("transitions")["transition"].to_pylist())),
        successions=frozenset(
            pair
            for pair in zip(*pairs, strict=True)
            if pair[0] in TRANSITIONS and pair[1] in TRANSITIONS
        ),
    )


def transitions_of(tables: RunTables) -> list[Transition]:
    """Return the transitions of a run over all places, in the order of the catalogue."""
    counts: dict[str, int] = {}
    firsts: dict[str, int] = {}
    for row in tables.statistics("transitions").to_pylist():
        name, first_ns = row["transition"], row["first_ns"]
        if name not in TRANSITIONS:
            continue
        counts[name] = counts.get(name, 0) + (row["count"] or 0)
        if first_ns is not None:
            firsts[name] = min(first_ns, firsts.get(name, first_ns))
    return [
        Transition(name=name, sentence=said, count=counts[name], first_ns=firsts.get(name))
        for name, said in TRANSITIONS.items()
        if name in counts
    ]


def _known(names: Iterable[str | None]) -> Iterable[str]:
    return (name for name in names if name is not None and name in TRANSITIONS)
