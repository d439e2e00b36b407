"""The folders of a suite's nights (one night is one play): `STORE/.suites/<suite>/<night>/`."""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from harness.suites.journal import load_journal
from harness.suites.night import NightState, folded
from results.record.atomic import StoreError, store_error
from results.record.clock import WaitTimeoutError, wait_until
from results.record.reading import open_file, open_lock
from results.trust import make_shared_as, refuse_nights_unless_own

HIDDEN = ".suites"
LOCK_WAIT_S = 1.0
_PID_BYTES = 32
"""How many bytes, at most, are read for the process id in the lock file. `LOCK_WAIT_S` is long
enough, because `is_led` holds the lock for microseconds only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightFolder:
    """The files of one night of a suite.

    Attributes:
        root: `STORE/.suites/<suite>/<night>`.
    """

    root: Path

    @property
    def night(self) -> str:
        """The night's id."""
        return self.root.name

    @property
    def journal(self) -> Path:
        """The night's journal."""
        return self.root / "journal.jsonl"

    @property
    def suite(self) -> Path:
        """The suite as it was when the night began. A resumed night uses this file."""
        return self.root / "suite.toml"

    @property
    def junit(self) -> Path:
        """The results for CI systems."""
        return self.root / "junit.xml"

    @property
    def summary(self) -> Path:
        """The results for readers."""
        return self.root / "summary.md"

    @property
    def before(self) -> Path:
        """For a part of a hunt: copies of earlier parts that came from other stores."""
        return self.root / "before"

    @property
    def kept(self) -> list[Path]:
        """The journals of the copied parts."""
        return sorted(self.before.glob("*.jsonl"))

    @property
    def log(self) -> Path:
        """The error output of the runs' processes."""
        return self.root / "players.log"

    def state(self) -> NightState:
        """Return the night's state, computed from its journal."""
        return state_of(self.journal)


def state_of(journal: Path) -> NightState:
    """Return a night's state, computed from its journal."""
    return folded(load_journal(journal))


def suite_folder(store: Path, suite: str) -> Path:
    """Return the folder that holds the nightly runs of a suite."""
    return store / HIDDEN / suite


def nights_of(store: Path, suite: str) -> list[NightFolder]:
    """Return a suite's nights that have a journal, the oldest first."""
    folder = suite_folder(store, suite)
    found = sorted(folder.glob("*/journal.jsonl")) if folder.is_dir() else []
    return [NightFolder(root=path.parent) for path in found]


class SuiteLock:
    """The lock of a suite: only one process at a time may play its nights.

    The kernel releases the lock when that process dies (man 2 flock).

    Args:
        store: The store.
        suite: The suite's name.

    Raises:
        StoreError: Another process plays the suite, its nights belong to another user, or the store
            cannot be written.
    """

    def __init__(self, store: Path, suite: str) -> None:
        path = suite_folder(store, suite) / "lock"
        try:
            store.mkdir(parents=True, exist_ok=True)
            make_shared_as(store / HIDDEN, store)
            refuse_nights_unless_own(path.parent)
            path.parent.mkdir(exist_ok=True)
            self._handle = open_lock(path)
        except OSError as refused:
            raise store_error(path, refused) from refused
        try:
            wait_until(self._is_mine, timeout_s=LOCK_WAIT_S, what="the suite's lock")
        except WaitTimeoutError as held:
            pid = os.pread(self._handle, _PID_BYTES, 0).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise StoreError(
                f"the suite {suite} is already running in {store} (process {pid or '?'}); see:"
                " logquake suite status"
            ) from held
        os.ftruncate(self._handle, 0)
        os.write(self._handle, str(os.getpid()).encode())

    def _is_mine(self) -> bool:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the lock."""
        os.close(self._handle)


def is_led(store: Path, suite: str) -> bool:
    """Return whether a process plays a night of the suite now."""
    try:
        with open_file(suite_folder(store, suite) / "lock") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
