"""What a night leaves for others: `junit.xml` and `summary.md`, written anew after each verdict."""

from functools import cache
from pathlib import Path

from harness.exit_codes import BY_VALIDITY
from harness.suites.causes import Cause, causes_of
from harness.suites.hunting.keeping import write_results_of_hunt
from harness.suites.junit import junit_xml
from harness.suites.night import NightState, Phase
from harness.suites.nights import NightFolder, nights_of
from harness.suites.suite import Suite, SuiteError, load_suite
from harness.suites.summary import summary_markdown
from results.record.atomic import write_atomically
from results.record.terms import VALIDITY_RANK, Validity


def write_results(store: Path, suite: str, folder: NightFolder) -> None:
    """Write the results of a night as far as it is.

    Raises:
        StoreError: The disk refuses.
    """
    nights = states_until(store, suite, folder)
    causes = causes_of(nights)
    write_atomically(folder.junit, junit_xml(nights[-1], causes))
    write_atomically(folder.summary, summary_markdown(nights[-1], causes))
    begun = _begun(folder)
    if begun is not None and begun.hunt is not None:
        write_results_of_hunt(begun, nights, folder.root, store=store)


def _begun(folder: NightFolder) -> Suite | None:
    """Return the suite as it was when a night began; None if this version cannot read it."""
    try:
        return load_suite(folder.suite)
    except SuiteError:
        return None


def states_until(store: Path, suite: str, folder: NightFolder) -> list[NightState]:
    """Return a suite's nights up to one, the oldest first."""
    return [
        each.state() if each.night == folder.night else _past(each)
        for each in nights_of(store, suite)
        if each.night <= folder.night
    ]


def _past(folder: NightFolder) -> NightState:
    """Return an earlier night: a year of them is not read anew with each verdict."""
    file = folder.journal.stat()
    return _read_once(folder, file.st_size, file.st_mtime_ns)


@cache
def _read_once(folder: NightFolder, _size: int, _changed_ns: int) -> NightState:
    return folder.state()


def causes_until(store: Path, suite: str, folder: NightFolder) -> list[Cause]:
    """Return the causes of a suite's nights up to one, what is new in it first."""
    return causes_of(states_until(store, suite, folder))


def exit_code(state: NightState) -> int:
    """Return the exit code of a night: its worst verdict's; unknown at best if it was cut."""
    unfinished = bool(state.having(Phase.WAITING, Phase.UNDER_WAY, Phase.PLAYED))
    worst = max(
        state.worst,
        Validity.UNKNOWN if unfinished else Validity.VALID,
        key=VALIDITY_RANK.__getitem__,
    )
    return BY_VALIDITY[worst]
