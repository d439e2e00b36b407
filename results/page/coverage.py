"""What a run reached, and what of it was new in its store: for page and terminal alike."""

from dataclasses import dataclass

from results.page.recurrence import index_beside
from results.reached import Reached, Transition, reached, transitions_of
from results.record.paths import RunPaths
from results.record.transitions import TRANSITIONS
from results.samples import is_sample
from results.tables import RunTables
from results.wording.plural import many

_NAMED = 10
"""So many names of what is new are listed at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What a run reached.

    Attributes:
        transitions: In the order of the catalogue.
        pairs: How many pairs it reached in succession.
        first: What it reached for the first time in its store; None: no store was asked.
        never: How many transitions of the catalogue no run of the store reached; None: as `first`.
    """

    transitions: tuple[Transition, ...]
    pairs: int
    first: Reached | None = None
    never: int | None = None

    def sentences(self) -> list[str]:
        """Return what was reached, new, and never reached, a sentence each."""
        pairs = many(self.pairs, "pair")
        of = f"{len(self.transitions)} of the {len(TRANSITIONS)} transitions of the catalogue"
        told = [f"It reached {of}, and {pairs} of them in succession."]
        if self.first is not None:
            told.append(self._new())
        if self.never is not None:
            told.append(f"No run of this store reached {many(self.never, 'other transition')}.")
        return told

    def _new(self) -> str:
        first = self.first or Reached()
        names = [name for name in TRANSITIONS if name in first.transitions]
        if not names and not first.successions:
            return "An earlier run of this store reached all of that."
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        listed = f"{', '.join(names[:_NAMED])}{more}" if names else "no transition"
        pairs = many(len(first.successions), "pair")
        return f"No earlier run of this store reached: {listed}; and {pairs}."


def coverage(paths: RunPaths, tables: RunTables) -> Coverage | None:
    """Return what a run reached; None if its judgement did not work that out."""
    transitions = tuple(transitions_of(tables))
    if not transitions:
        return None
    pairs = len(reached(paths).successions)
    if is_sample(paths):
        return Coverage(transitions=transitions, pairs=pairs)
    with index_beside(paths) as index:
        if index is None or index.run(paths.run_id) is None:
            return Coverage(transitions=transitions, pairs=pairs)
        return Coverage(
            transitions=transitions,
            pairs=pairs,
            first=index.first_reached(paths.run_id),
            never=sum(not each.times for each in index.reaches()),
        )
