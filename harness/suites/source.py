"""Where the runs of a night come from: a suite's entries, or what a hunt draws."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from harness.suites.expansion import Entry
from harness.suites.journal import Line, Planned
from harness.suites.night import Item, NightState
from harness.suites.repeats import owed, plan_of
from harness.suites.suite import Repeat
from results.record.plan import Plan


class Source(Protocol):
    """What a night plays, and what follows from a verdict."""

    def plan(self, planned: Planned) -> Plan | None:
        """Return the plan of a run; None: this version of Logquake knows no such run.

        Raises:
            PlanError: There can be no such run.
        """

    def draw(self, state: NightState) -> Planned | None:
        """Return another run; None: all runs are planned."""

    def owed(self, state: NightState) -> list[Planned]:
        """Return the runs that follow from verdicts, and that are not planned yet."""

    def seen(self, item: Item, state: NightState, store: Path) -> list[Line]:
        """Return what the journal says of a judged run beside its verdict."""


class Entries:
    """A suite's entries, all of them planned when the night begins.

    Args:
        entries: By name.
        repeat: How often failures are rerun.
        store: Where the runs lie that are repeated.
    """

    def __init__(self, entries: Mapping[str, Entry], repeat: Repeat, store: Path) -> None:
        self._entries, self._repeat, self._store = entries, repeat, store

    def plan(self, planned: Planned) -> Plan | None:
        """Return the plan of an entry's run."""
        entry = self._entries.get(planned.entry)
        return None if entry is None else plan_of(entry, planned, self._store)

    def draw(self, state: NightState) -> Planned | None:  # noqa: ARG002 - as the protocol has it
        """Return nothing: the night began with all of its runs."""
        return None

    def owed(self, state: NightState) -> list[Planned]:
        """Return the repeats that failed runs are owed."""
        return owed(state, self._repeat)

    def seen(self, item: Item, state: NightState, store: Path) -> list[Line]:  # noqa: ARG002 - as the protocol has it
        """Return nothing more."""
        return []
