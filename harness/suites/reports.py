"""After each verdict of a night, write its results again: `junit.xml` and `summary.md`."""

from functools import cache
from pathlib import Path

from harness.exit_codes import BY_VALIDITY
from harness.suites.causes import Cause, causes_of
from harness.suites.hunting.failures import FAILURES
from harness.suites.hunting.keeping import write_results_of_hunt
from harness.suites.hunting.parts import distinct, identity
from harness.suites.junit import junit_xml
from harness.suites.night import NightState, Phase
from harness.suites.nights import NightFolder, nights_of, state_of
from harness.suites.suite import Suite, SuiteError, load_suite
from harness.suites.summary import summary_markdown
from results.record.atomic import write_atomically
from results.record.terms import VALIDITY_RANK, Validity


def write_results(store: Path, suite: str, folder: NightFolder) -> None:
    """Write the current results of a night.

    Raises:
        StoreError: A file cannot be written.
    """
    nights = states_until(store, suite, folder)
    causes = causes_of(nights)
    write_atomically(folder.junit, junit_xml(nights[-1], causes))
    write_atomically(folder.summary, summary_markdown(nights[-1], causes))
    begun = _begun(folder)
    if begun is not None and begun.hunt is not None:
        parts = [*parts_before(store, folder, nights[-1]), nights[-1]]
        write_results_of_hunt(
            begun, parts, folder.root, store=store, files=_files_before(store, suite, folder)
        )


def _begun(folder: NightFolder) -> Suite | None:
    """Return the suite as it was when a night began; None if this version cannot read it."""
    try:
        return load_suite(folder.suite)
    except SuiteError:
        return None


def states_until(store: Path, suite: str, folder: NightFolder) -> list[NightState]:
    """Return the states of a suite's nights up to one night, the oldest first."""
    return [
        each.state() if each.night == folder.night else _past(each.journal)
        for each in _until(store, suite, folder)
    ]


def parts_before(store: Path, folder: NightFolder, part: NightState) -> list[NightState]:
    """Return the earlier parts of a hunt, the oldest first, including copies from other stores.

    Args:
        store: The folder of runs.
        folder: The part's folder.
        part: The part.
    """
    nights = _until(store, folder.root.parent.name, folder)
    others = [each for each in nights if each.night != folder.night]
    kept = [journal for each in nights for journal in each.kept]
    found = distinct(map(_past, [*kept, *(each.journal for each in others)]))
    # A copy that a crash cut off at its begin is not a part.
    return [each for each in found if each.night and identity(each) != identity(part)]


def _files_before(store: Path, suite: str, folder: NightFolder) -> list[Path]:
    """Return the folders that may hold files of failures, for all nights up to one night."""
    nights = _until(store, suite, folder)
    return [each / FAILURES for night in nights for each in (night.root, night.before)]


def _until(store: Path, suite: str, folder: NightFolder) -> list[NightFolder]:
    return [each for each in nights_of(store, suite) if each.night <= folder.night]


def _past(journal: Path) -> NightState:
    """Return the state of an earlier night. It is cached, because journals take long to read."""
    file = journal.stat()
    return _read_once(journal, file.st_size, file.st_mtime_ns)


@cache
def _read_once(journal: Path, _size: int, _changed_ns: int) -> NightState:
    return state_of(journal)


def causes_until(store: Path, suite: str, folder: NightFolder) -> list[Cause]:
    """Return the causes of failures in the nights up to one night; its new causes come first."""
    return causes_of(states_until(store, suite, folder))


def exit_code(state: NightState) -> int:
    """Return a night's exit code: the worst verdict's code. An unfinished night is never valid."""
    unfinished = bool(state.having(Phase.WAITING, Phase.UNDER_WAY, Phase.PLAYED))
    worst = max(
        state.worst,
        Validity.UNKNOWN if unfinished else Validity.VALID,
        key=VALIDITY_RANK.__getitem__,
    )
    return BY_VALIDITY[worst]
