"""Provide the runs of a night. They come from the entries of a suite, or a hunt chooses them."""

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
    """The source of a night's runs and of the reruns that follow from verdicts."""

    def plan(self, planned: Planned) -> Plan | None:
        """Return the plan of a run; None if this version of Logquake has no such entry.

        Raises:
            PlanError: The plan is not valid.
        """

    def draw(self, state: NightState) -> Planned | None:
        """Return another run; None if all runs are planned."""

    def owed(self, state: NightState) -> list[Planned]:
        """Return the runs that follow from verdicts and are not planned yet."""

    def seen(self, item: Item, state: NightState, store: Path) -> list[Line]:
        """Return more journal lines about a judged run, for example what a hunt's run reached."""


class Entries:
    """The entries of a suite as a source. All of them are planned when the night begins.

    Args:
        entries: The entries by name.
        repeat: How often failures are rerun.
        store: The store with the failed runs.
    """

    def __init__(self, entries: Mapping[str, Entry], repeat: Repeat, store: Path) -> None:
        self._entries, self._repeat, self._store = entries, repeat, store

    def plan(self, planned: Planned) -> Plan | None:
        """Return the plan of an entry's run."""
        entry = self._entries.get(planned.entry)
        return None if entry is None else plan_of(entry, planned, self._store)

    def draw(self, state: NightState) -> Planned | None:  # noqa: ARG002 - as the protocol has it
        """Return None, because all runs are planned when the night begins."""
        return None

    def owed(self, state: NightState) -> list[Planned]:
        """Return the reruns that failed runs still need."""
        return owed(state, self._repeat)

    def seen(self, item: Item, state: NightState, store: Path) -> list[Line]:  # noqa: ARG002 - as the protocol has it
        """Return no further lines."""
        return []
