"""What a hunt leaves: its table, its page, and of each failure the plan and the run in one file."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.suites.hunting.failures import FAILURES, Failure, failures
from harness.suites.hunting.plans import plan_of
from harness.suites.hunting.telling import hunt_story
from harness.suites.night import NightState
from harness.suites.suite import Suite
from results.export.bundle import SUFFIX, write_bundle
from results.hunt_page import Bundle, write_hunt
from results.record.atomic import StoreError, store_error, write_atomically
from results.record.paths import RunPaths
from results.record.plan import PlanError, dump_plan

MAX_BUNDLE_BYTES = 5_000_000
TOO_LARGE = ".too-large.txt"
"""How the file ends that says why a failure has no bundle."""
WITHOUT_LOGS = ".without-logs.txt"
"""How the file ends that says that a failure's bundle has no logs of nodes."""
_MB = 1_000_000


def write_results_of_hunt(
    suite: Suite,
    states: Sequence[NightState],
    folder: Path,
    *,
    store: Path | None,
    files: Sequence[Path] = (),
) -> None:
    """Write a hunt's table and page, and the files of its failures that are not there yet.

    Args:
        suite: With `[hunt]`.
        states: Its parts, the oldest first.
        folder: Where to.
        store: With the runs; None: they are not at hand.
        files: Folders with files of failures of these parts, which are taken along.

    Raises:
        StoreError: The disk refuses.
    """
    bundles = {}
    for failure in failures(states):
        stem = folder / FAILURES / failure.file_name
        _write_plan(failure, stem.with_name(f"{stem.name}.toml"))
        bundle, why_none, without = (
            stem.with_name(f"{stem.name}{end}") for end in (SUFFIX, TOO_LARGE, WITHOUT_LOGS)
        )
        _take_along((why_none, without, bundle), files)
        run = RunPaths(store / failure.runs[0].run_id) if store is not None else None
        refused = ""
        if run is not None and run.plan.exists() and not bundle.exists() and not why_none.exists():
            refused = _write_bundle(run, bundle, why_none, without)
        notes = [each for each in (without if bundle.exists() else why_none,) if each.exists()]
        bundles[failure.runs[0].run_id] = Bundle(
            file=f"{FAILURES}/{bundle.name}" if bundle.exists() else "",
            note=notes[0].read_text(encoding="utf-8").strip() if notes else refused,
        )
    write_hunt(hunt_story(suite, states, bundles=bundles), folder)


def _write_plan(failure: Failure, path: Path) -> None:
    try:
        plan = plan_of(failure.runs[0].planned)
    except PlanError:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, dump_plan(plan))


def _take_along(wanted: Iterable[Path], folders: Sequence[Path]) -> None:
    for path in wanted:
        there = next((each / path.name for each in folders if (each / path.name).is_file()), None)
        if there is not None and not path.exists():
            with _whole(path) as draft:
                shutil.copyfile(there, draft)


def _write_bundle(run: RunPaths, path: Path, why_none: Path, without: Path) -> str:
    """Write a run's bundle, or why it has none: it is too large to be committed.

    If it is, the logs of nodes are left out first: no check reads them.

    Returns:
        Why there can be no bundle now; empty: nothing kept it from being written.
    """
    size = 0
    for with_logs in (True, False):
        with _whole(path) as draft:
            try:
                with draft.open("wb") as file:
                    write_bundle(run, file, with_logs=with_logs)
            except StoreError as refused:  # The run is under way, or damaged.
                draft.unlink(missing_ok=True)
                return str(refused)
            if (size := draft.stat().st_size) > MAX_BUNDLE_BYTES:
                draft.unlink()
            else:
                if not with_logs:
                    write_atomically(without, "without the logs of nodes\n")
                return ""
    write_atomically(
        why_none,
        f"its bundle has {size / _MB:.1f} MB, and more than {MAX_BUNDLE_BYTES / _MB:.0f} are not"
        f" kept: logquake export {run.run_id}\n",
    )
    return ""


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Give a draft that takes a file's place, unless it is removed; a killed one is overwritten."""
    draft = path.with_name(f".{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        if draft.exists():
            draft.replace(path)
    except OSError as refused:
        raise store_error(path, refused) from refused
