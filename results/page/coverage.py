"""Return the transitions that a run reached, and which of them are new in the store."""

from dataclasses import dataclass

from results.index import Index
from results.reached import Reached, Transition, reached, transitions_of
from results.record.paths import RunPaths
from results.record.transitions import TRANSITIONS
from results.record.verdict import UNCOVERED, Verdict
from results.tables import RunTables
from results.wording.plural import many

_NAMED = 10
"""Maximum number of new transitions that are listed by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The protocol transitions that a run reached, e.g. an election after a kill.

    Attributes:
        transitions: Names, in the order of the catalogue.
        pairs: Number of reached pairs of successive transitions.
        first: Transitions and pairs that no earlier run of the store had reached. None if there is
            no index.
        never: Number of the catalogue's transitions that no run of the store reached; None if there
            is no index.
        failed: Where and why the computation failed. Empty if there was no error.
    """

    transitions: tuple[Transition, ...]
    pairs: int
    first: Reached | None = None
    never: int | None = None
    failed: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """Return sentences about the transitions reached, newly reached, and never reached."""
        pairs = many(self.pairs, "pair")
        of = f"{len(self.transitions)} of the {len(TRANSITIONS)} transitions of the catalogue"
        failed = "The reached transitions could not be found everywhere"
        told = [f"{failed}: {each}." for each in self.failed]
        told.append(f"The run reached {of}, and {pairs} of successive transitions.")
        if self.first is not None:
            told.append(self._new())
        if self.never is not None:
            never = f"{many(self.never, 'transition')} of the catalogue"
            told.append(f"Never reached in this store: {never}.")
        return told

    def _new(self) -> str:
        first = self.first or Reached()
        names = [name for name in TRANSITIONS if name in first.transitions]
        if not names and not first.successions:
            return (
                "None of these transitions is new: earlier runs of this store reached all of them."
            )
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        listed = f"{', '.join(names[:_NAMED])}{more}" if names else "no transition"
        pairs = many(len(first.successions), "pair")
        return f"New in this store: {listed}; and {pairs}."


def coverage(
    paths: RunPaths, tables: RunTables, verdict: Verdict | None, index: Index | None
) -> Coverage | None:
    """Return the transitions that a run reached, or None if its judge did not compute them.

    Args:
        paths: The run.
        tables: The run's tables.
        verdict: The run's verdict; None if it is missing or cannot be read.
        index: The store's index, as `index_beside` yields it.
    """
    transitions, failed = tuple(transitions_of(tables)), _failed(verdict)
    if not transitions and not failed:
        return None
    asked = index if index is not None and index.run(paths.run_id) is not None else None
    return Coverage(
        transitions=transitions,
        pairs=len(reached(paths).successions),
        first=asked.first_reached(paths.run_id) if asked else None,
        never=asked.never_reached() if asked else None,
        failed=failed,
    )


def _failed(verdict: Verdict | None) -> tuple[str, ...]:
    told = verdict.stats.get(UNCOVERED) if verdict else None
    return tuple(map(str, told)) if isinstance(told, list) else ()
