"""Stored runs of this machine are judged again, each where its verdict may be written, or not."""

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
    """Refuse a run that is not to be judged.

    Args:
        run: The run.
        kept: Whether its verdict is stored, which takes a run of one's own.

    Raises:
        StoreError: It is under way, or not one's own.
    """
    if is_alive(run):
        raise StoreError(f"{run.run_id} is still under way: wait for its end, or stop it")
    if kept and not is_sample(run):
        refuse_to_write(run, otherwise="with --judge the verdict is printed and nothing is stored")


def judge_again(runs: Sequence[RunPaths], judge: Judge | None, engine: Engine) -> list[Verdict]:
    """Judge runs together, in their order; without another judge the verdicts are stored.

    Raises:
        KeyboardInterrupt: A signal came; nothing was judged.
    """
    if not runs:
        return []
    with TemporaryDirectory(prefix="logquake-") as folder:
        roots = [_written_to(run, Path(folder)).root for run in runs]
        try:
            verdicts = judge_stored(roots, judge=judge, engine=engine, store=judge is None)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted: no run was judged; the same command does it"
            ) from None
    if judge is None:
        for run in runs:
            if is_own(run) and not is_sample(run):
                pack_streams(run)
    return verdicts


def _written_to(run: RunPaths, folder: Path) -> RunPaths:
    """Return the run, or a copy of one that must not be written: a sample, or a stranger's."""
    if is_sample(run):
        return copy_sample(run, folder)
    return run if is_own(run) else copy_plain(run, folder)
