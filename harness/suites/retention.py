"""Delete old runs of a suite, by age and size.

The first and the last run of each signature stay, and so do their reruns, even if these did not
fail. Without them, the recurrence rate would be wrong.
"""

import os
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.suites.causes import causes_of
from harness.suites.night import Item
from harness.suites.nights import nights_of
from harness.suites.suite import Keep, Suite
from results.export.contents import MANIFEST
from results.nights import read_night
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.terms import Validity
from results.store import Store, is_alive, lock_run
from results.trust import is_own

GIB = 1 << 30
RETIRED = ".retired"
"""The folder to which runs are moved before they are deleted: `STORE/<name>/.retired/<run>`."""
DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run of the suite in the store.

    Attributes:
        run_id: The run.
        at: When the run's folder was last written, in seconds since 1970.
        size_bytes: The size of the run's folder.
    """

    run_id: str
    at: float
    size_bytes: int


def to_drop(
    runs: Iterable[StoredRun], keep: Keep, *, spared: Collection[str], now_s: float
) -> list[str]:
    """Return the runs to delete, the oldest first.

    Args:
        runs: The suite's runs.
        keep: Two limits: for the age of a run, and for the total size of all runs.
        spared: The runs that are never deleted. Their size is a part of the total size.
        now_s: The current time, in seconds since 1970.
    """
    oldest_first = sorted(runs, key=lambda run: (run.at, run.run_id))
    total = sum(run.size_bytes for run in oldest_first)
    gone = []
    for run in oldest_first:
        if run.run_id in spared:
            continue
        too_old = keep.days is not None and now_s - run.at > keep.days * DAY_S
        too_much = keep.gib is not None and total > keep.gib * GIB
        if too_old or too_much:
            gone.append(run.run_id)
            total -= run.size_bytes
    return gone


def spared_runs(store: Path, suite: str) -> set[str]:
    """Return the runs that retention never deletes.

    These are the first and the last run of each signature with their reruns, and all runs of the
    last night except a hunt's valid random runs. A hunt also spares the failures and reruns of its
    earlier parts: a signature names no system, but each system's failure has a first run of its
    own.
    """
    nights = [folder.state() for folder in nights_of(store, suite)]
    spared: set[str] = set()
    for cause in causes_of(nights):
        there = [run for run in cause.runs if (store / run).is_dir()]
        spared |= {*there[:1], *there[-1:]}
    spared |= {
        item.run_id
        for night in nights
        for item in night.items.values()
        if item.run_id and item.planned.repeats in spared
    }
    for night in nights:
        keeps = _is_found if night is not nights[-1] else lambda item: not _is_spent(item)
        spared |= {item.run_id for item in night.items.values() if item.run_id and keeps(item)}
    return spared


def _is_found(item: Item) -> bool:
    """Return whether a run is a hunt's failure or rerun."""
    return bool(item.planned.plan) and (item.repeated or item.outcome is Validity.INVALID)


def _is_spent(item: Item) -> bool:
    """Return whether a run belongs to a hunt, is valid, and has its results in the journal."""
    drawn = bool(item.planned.plan) and not item.repeated and item.reached is not None
    return drawn and item.outcome is Validity.VALID


def retire(store: Path, suite: Suite, *, now_s: float) -> list[str]:
    """Delete old runs of a suite; return their ids.

    Three kinds of runs are never deleted: runs that no journal of the suite in this store names,
    runs of other users, and runs that are only links.

    Raises:
        StoreError: The store cannot be read.
    """
    if suite.keep.days is None and suite.keep.gib is None:
        return []
    spared = spared_runs(store, suite.name)
    known = _known_runs(store, suite.name)
    runs = [
        _stored(paths)
        for paths in Store(store).runs()
        if paths.run_id in known and _lies_in(store, paths) and _droppable(paths, suite.name)
    ]
    gone = to_drop(runs, suite.keep, spared=spared, now_s=now_s)
    dropped = [run_id for run_id in gone if _put_away(RunPaths(store / run_id))]
    for folder in sorted(store.glob(f"*/{RETIRED}")):  # A killed night may have left some, too.
        if is_own(RunPaths(folder)):
            shutil.rmtree(folder, ignore_errors=True)
    return dropped


def _put_away(paths: RunPaths) -> bool:
    """Move a run out of the store in one step, so that a kill leaves the whole run or nothing.

    Returns:
        Whether the run was moved. It stays in the store if it is locked or cannot be moved.
    """
    hidden = paths.root.parent / RETIRED
    try:
        with lock_run(paths):
            hidden.mkdir(exist_ok=True)
            paths.root.rename(hidden / paths.root.name)
    except (OSError, StoreError):
        return False
    return True


def _known_runs(store: Path, suite: str) -> set[str]:
    items = [item for each in nights_of(store, suite) for item in each.state().items.values()]
    return {run_id for item in items for run_id in (item.run_id, *item.cut_short)}


def _lies_in(store: Path, paths: RunPaths) -> bool:
    """Return whether a run's folder is really in the store, and no link leads to another place."""
    return paths.root.resolve() == store.resolve() / paths.run_id


def _droppable(paths: RunPaths, suite: str) -> bool:
    """Return whether a run may be deleted.

    The run must belong to this suite and user, and must have been played here. The run must have
    ended, and must keep no cluster.
    """
    if (paths.root / MANIFEST).exists():
        return False  # It was imported from a bundle.
    if not is_own(paths):
        return False
    try:
        night = read_night(paths.night)
    except StoreError:
        return False  # Its night is unknown.
    return night is not None and night.suite == suite and not (
        is_alive(paths) or paths.keeper.exists()
    )  # fmt: skip


def _stored(paths: RunPaths) -> StoredRun:
    sizes = (
        _size_bytes(Path(folder) / name)
        for folder, _, names in os.walk(paths.root)
        for name in names
    )
    # The folder's own time changes whenever its page is rewritten.
    at = paths.night.stat().st_mtime
    return StoredRun(run_id=paths.run_id, at=at, size_bytes=sum(sizes))


def _size_bytes(file: Path) -> int:
    try:
        return file.lstat().st_size
    except FileNotFoundError:  # The file was a draft of a judgement in progress.
        return 0
