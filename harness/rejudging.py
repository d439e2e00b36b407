"""Judge stored runs of this machine again, and store the new verdict where this is allowed."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from checkers.packing import pack_streams
from harness.judgement import Engine, judge_stored
from results.export.copying import copy_plain
from results.record.paths import RunPaths
from results.record.terms import Judge
from results.record.verdict import Verdict
from results.samples import copy_sample, is_sample
from results.store import StoreError, is_alive
from results.trust import is_own, refuse_to_write


def refuse_to_judge(run: RunPaths, *, kept: bool) -> None:
    """Raise an error for a run that must not be judged.

    Args:
        run: The run.
        kept: Whether the new verdict is stored. If it is stored, the run must belong to the user.

    Raises:
        StoreError: The run is in progress, or belongs to another user.
    """
    if is_alive(run):
        raise StoreError(f"{run.run_id} is still running: wait for its end, or stop it")
    if kept and not is_sample(run):
        refuse_to_write(run, otherwise="with --judge the verdict is printed and nothing is stored")


def judge_again(runs: Sequence[RunPaths], judge: Judge | None, engine: Engine) -> list[Verdict]:
    """Judge runs in one pass, in the given order. Store the verdicts, unless a judge is named.

    Raises:
        KeyboardInterrupt: A signal came; no run was judged.
    """
    if not runs:
        return []
    with TemporaryDirectory(prefix="logquake-") as folder:
        roots = [_written_to(run, Path(folder)).root for run in runs]
        try:
            verdicts = judge_stored(roots, judge=judge, engine=engine, store=judge is None)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted: no run was judged; to judge the runs, repeat the command"
            ) from None
    if judge is None:
        for run in runs:
            if is_own(run) and not is_sample(run):
                pack_streams(run)
    return verdicts


def _written_to(run: RunPaths, folder: Path) -> RunPaths:
    """Return the run. If it must not change (a sample, or another user's run), return a copy."""
    if is_sample(run):
        return copy_sample(run, folder)
    return run if is_own(run) else copy_plain(run, folder)
