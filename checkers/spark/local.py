"""The engine without Spark: the same functions one after another, in this process."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

from checkers.compaction import Found, Step, Steps, compact, sweep_left, take
from checkers.engine import in_turn
from checkers.examine import Piece, damaged
from checkers.facts import RunFacts
from checkers.groups import examine_places, reader_of
from checkers.layout import DamagedError
from checkers.spark.nodes import read_node, replica_bytes

T = TypeVar("T")
R = TypeVar("R")


def _in_turn(steps: Steps) -> Iterator[tuple[Step, Found]]:
    return ((step, take(step, read_node, replica_bytes)) for step in steps)


class LocalEngine:
    """An `Engine` for machines without Java, and for small runs."""

    name = "local"
    here = True

    def __enter__(self) -> Self:
        """Return the engine. Nothing needs to be started."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Do nothing, because nothing needs to be stopped."""

    def compact(self, roots: Sequence[Path]) -> None:
        """Make the tables of runs (ingest), one step after another."""
        try:
            compact(roots, _in_turn)
        except BaseException:
            for root in roots:
                sweep_left(root)
            raise

    def spread(self, do: Callable[[T], R], shares: Sequence[T]) -> list[R]:
        """Run a function on each share, one after another."""
        return in_turn(do, shares)

    def examine(self, runs: Mapping[Path, RunFacts]) -> Iterator[Piece]:
        """Yield the results for each group of the runs."""
        for root, facts in runs.items():
            reader = reader_of(root, facts)
            try:
                places = sorted(reader.rows())
            except DamagedError as hurt:
                yield from damaged(facts, hurt.names)
            else:
                yield from examine_places(facts, reader, *places)
