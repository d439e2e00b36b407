"""What a hunt leaves: its table, its page, and of each failure the plan and the run in one file."""

from collections.abc import Sequence
from pathlib import Path

from harness.suites.hunting.failures import FAILURES, Failure, failures
from harness.suites.hunting.plans import plan_of
from harness.suites.hunting.telling import hunt_story
from harness.suites.night import NightState
from harness.suites.suite import Suite
from results.export.bundle import SUFFIX, write_bundle
from results.hunt_page import write_hunt
from results.record.atomic import StoreError, write_atomically
from results.record.paths import RunPaths
from results.record.plan import PlanError, dump_plan

MAX_BUNDLE_BYTES = 5_000_000


def write_results_of_hunt(
    suite: Suite, states: Sequence[NightState], folder: Path, *, store: Path | None
) -> None:
    """Write a hunt's table and page, and the files of its failures that are not there yet.

    Args:
        suite: With `[hunt]`.
        states: Its parts, the oldest first.
        folder: Where to.
        store: With the runs; None: they are not at hand.

    Raises:
        StoreError: The disk refuses.
    """
    bundles = {}
    for failure in failures(states):
        _write_plan(failure, folder / FAILURES / f"{failure.file_name}.toml")
        bundle = folder / FAILURES / f"{failure.file_name}{SUFFIX}"
        if store is not None and not bundle.exists():
            _write_bundle(RunPaths(store / failure.runs[0].run_id), bundle)
        if bundle.exists():
            bundles[failure.runs[0].run_id] = f"{FAILURES}/{bundle.name}"
    write_hunt(hunt_story(suite, states, bundles=bundles), folder)


def _write_plan(failure: Failure, path: Path) -> None:
    try:
        plan = plan_of(failure.runs[0].planned)
    except PlanError:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, dump_plan(plan))


def _write_bundle(run: RunPaths, path: Path) -> None:
    """Write a run's bundle, unless it is too large to be committed or the run is gone."""
    if not run.plan.exists():
        return
    try:
        write_bundle(run, path)
    except StoreError:
        return
    if path.stat().st_size > MAX_BUNDLE_BYTES:
        path.unlink()
