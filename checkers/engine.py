"""What an engine of the pipeline does."""

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
    """Has a piece of work done for each of some shares, by several at once if it can."""

    def __call__(self, do: Callable[[T], R], shares: Sequence[T]) -> list[R]:
        """Return what the work gives for each share, in their order."""


def in_turn(do: Callable[[T], R], shares: Sequence[T]) -> list[R]:
    """Do a piece of work for each share, one after the other: a `Spread` of this process."""
    return [do(share) for share in shares]


class Engine(Protocol):
    """Does the work of the pipeline, somewhere.

    Attributes:
        name: As users call it.
        here: Whether its tasks see the files of this machine.
    """

    name: str
    here: bool

    def compact(self, roots: Sequence[Path]) -> None:
        """Work out the tables of runs from what they left."""

    def examine(self, runs: Mapping[Path, RunFacts]) -> Iterable[Piece]:
        """Return the results of each group of the runs, in any order."""

    def spread(self, do: Callable[[T], R], shares: Sequence[T]) -> list[R]:
        """Do a piece of work on files of this machine for each share: a `Spread`."""
