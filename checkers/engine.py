"""What an engine of the pipeline does."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from checkers.errors import EngineError
from checkers.examine import Piece
from checkers.facts import RunFacts

__all__ = ["Engine", "EngineError"]


class Engine(Protocol):
    """Does the work of the pipeline, somewhere."""

    name: str

    def compact(self, roots: Sequence[Path]) -> None:
        """Work out the tables of runs from what they left."""

    def examine(self, runs: Mapping[Path, RunFacts]) -> Iterable[Piece]:
        """Return the results of each group of the runs, in any order."""
