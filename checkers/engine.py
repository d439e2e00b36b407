"""The interface of an engine, which runs the checks with Spark or in this process."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from checkers.errors import EngineError
from checkers.examine import Piece
from checkers.facts import RunFacts

__all__ = ["Engine", "EngineError", "Spread", "in_turn"]
T = TypeVar("T")
R = TypeVar("R")


class Spread(Protocol):
    """A function that runs a task for each share of the work, in parallel if possible."""

    def __call__(self, do: Callable[[T], R], shares: Sequence[T]) -> list[R]:
        """Return the results of the task, in the order of the shares."""


def in_turn(do: Callable[[T], R], shares: Sequence[T]) -> list[R]:
    """Run a task for each share, one after the other: the `Spread` of a single process."""
    return [do(share) for share in shares]


class Engine(Protocol):
    """An engine, which does the tasks of the checks with Spark or in this process.

    Attributes:
        name: The engine's name for users.
        here: Whether the engine's tasks can read the files of this machine.
    """

    name: str
    here: bool

    def compact(self, roots: Sequence[Path]) -> None:
        """Build the tables of runs from their streams and logs."""

    def examine(self, runs: Mapping[Path, RunFacts]) -> Iterable[Piece]:
        """Return the results of each group of the runs, in any order."""

    def spread(self, do: Callable[[T], R], shares: Sequence[T]) -> list[R]:
        """Run a task for each share of the work, on the files of this machine; see `Spread`."""
