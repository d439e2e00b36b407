"""Write the results of a hunt: the table, the page, and a plan and a bundle for each failure."""

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
"""The suffix of the file that explains why a failure has no bundle."""
WITHOUT_LOGS = ".without-logs.txt"
"""The suffix of the file that reports a bundle without the nodes' logs."""
_MB = 1_000_000


def write_results_of_hunt(
    suite: Suite,
    states: Sequence[NightState],
    folder: Path,
    *,
    store: Path | None,
    files: Sequence[Path] = (),
) -> None:
    """Write a hunt's table and page, and the missing files of its failures.

    Args:
        suite: A suite with `[hunt]`.
        states: The hunt's parts, the oldest first.
        folder: The folder to write to.
        store: The store with the runs; None if the runs are not on this machine.
        files: The folders that contain the failures' files of these parts. The files are copied.

    Raises:
        StoreError: A file cannot be written.
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
    write_atomically(path, dump_plan(plan))


def _take_along(wanted: Iterable[Path], folders: Sequence[Path]) -> None:
    for path in wanted:
        there = next((each / path.name for each in folders if (each / path.name).is_file()), None)
        if there is not None and not path.exists():
            with _whole(path) as draft:
                shutil.copyfile(there, draft)


def _write_bundle(run: RunPaths, path: Path, why_none: Path, without: Path) -> str:
    """Write the bundle of a run. If it is too large to be committed, write a note instead.

    Before that, try a bundle without the nodes' logs, because no check reads them.

    Returns:
        The reason why the bundle cannot be written now. It is empty if there is no such reason.
    """
    size = 0
    for with_logs in (True, False):
        with _whole(path) as draft:
            try:
                with draft.open("wb") as file:
                    write_bundle(run, file, with_logs=with_logs)
            except StoreError as refused:  # The run is in progress, or damaged.
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
        f"the bundle has {size / _MB:.1f} MB, but bundles of more than"
        f" {MAX_BUNDLE_BYTES / _MB:.0f} MB are not kept; to export it, type: logquake export"
        f" {run.run_id}\n",
    )
    return ""


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Yield a draft of a file. On exit, the draft replaces the file, if the draft still exists."""
    draft = path.with_name(f".{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        if draft.exists():
            draft.replace(path)
    except OSError as refused:
        raise store_error(path, refused) from refused
