"""`run` and `judge`: `logquake run` and `logquake check` as functions, without a command line."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rich.console import Console

from checkers.errors import EngineError
from cluster.protocol import UserError
from harness.interrupt import SIGNALS
from harness.judgement import choose_engine
from harness.plans import assemble_plan, completed_plan
from harness.rejudging import judge_again, refuse_to_judge
from harness.repro import was_interrupted
from harness.scenarios.choices import values_behind
from harness.session import Session
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError
from results.record.terms import Judge
from results.record.verdict import Verdict
from results.samples import SAMPLE_PREFIX, find_sample
from results.trust import closed_to_others

REFUSED = (PlanError, UserError, StoreError, EngineError)
"""The errors that the caller can fix, as a tuple for `except`. The message of each is one
sentence."""


def run(
    plan: Plan | Mapping[str, object] | Path | str,
    *,
    store: Path | str = "runs",
    changes: Mapping[str, object] | None = None,
    engine: str | None = None,
    spark_master: str | None = None,
    output: IO[str] | None = None,
) -> Verdict:
    """Run a plan and judge the run, as `logquake run` does.

    The run's folder is `Path(store) / verdict.run_id`. It contains the run's page, `report.html`.

    Args:
        plan: A plan, its values by key, or the path of a plan file. Missing keys get the defaults
            of `logquake init`. Without a seed, a new seed is chosen.
        store: The folder of runs. It is created if it does not exist.
        changes: Plan keys that override the plan, like options of the command line. Some keys
            affect more than the run: `hosts`, `image`, `clients`, or a `system` that names your own
            files. They are accepted only here, and not from a plan file that others can write.
        engine: `spark` or `local`. None means Spark if Java is installed, and local otherwise. For
            the reference cluster None always means local. Spark sets `JAVA_HOME` in this process.
        spark_master: A Spark cluster to use instead of this machine.
        output: The file for the output of `logquake run`. If it is None, nothing is printed, and
            the file `stage.log` in the run's folder keeps the output of the run itself.

    Returns:
        The verdict: valid, invalid or unknown. If the verdict is unknown, the reason is in
        `unknown_because`.

    Raises:
        PlanError: The plan cannot be run.
        UserError: The machine, or the system, does not support the plan.
        StoreError: The store cannot be written.
        EngineError: Spark cannot be reached.
        InternalError: A bug of Logquake ended the run. The run was judged from the data recorded
            until then.
        KeyboardInterrupt: Ctrl-C ended the run early. The message names the command that does the
            remaining work. If it names no command, the run has its verdict and its page.
        RuntimeError: The function was not called in the main thread, where Python handles signals.
    """
    asked = _plan_of(plan, changes or {})
    console = Console(file=output, quiet=output is None, soft_wrap=True)
    with _signals_as_before(), closed_to_others():
        session = Session(asked, Path(store), console)
        verdict = session.run(engine=engine, spark_master=spark_master)
    if was_interrupted(RunPaths(Path(store) / verdict.run_id)):
        raise KeyboardInterrupt(
            f"interrupted: {verdict.run_id} was judged from the data recorded until then"
        )
    return verdict


def judge(
    folder: Path | str,
    *,
    judge: Judge | str | None = None,
    engine: str | None = None,
    spark_master: str | None = None,
) -> Verdict:
    """Judge a stored run again, as `logquake check` does.

    The verdict is stored with the run, except in two cases: `judge` names another judge than the
    plan, or the run is a sample.

    Args:
        folder: The folder of the run, or `sample:NAME`.
        judge: `contract`, `strict` or `jepsen`. None means the judge in the run's plan.
        engine: As for `run`.
        spark_master: As for `run`.

    Raises:
        StoreError: The run does not exist, has not ended, or its verdict cannot be stored.
        UserError: The judge does not exist, or Spark has no Java.
        EngineError: Spark cannot be reached.
    """
    try:
        by_whom = Judge(judge) if judge is not None else None
    except ValueError as unknown:
        raise UserError(
            f"the judge {judge!r} does not exist; use one of {', '.join(Judge)}"
        ) from unknown
    paths = _run_in(folder)
    refuse_to_judge(paths, kept=by_whom is None)
    with closed_to_others():
        return judge_again([paths], by_whom, choose_engine(engine, spark_master))[0]


def _plan_of(plan: Plan | Mapping[str, object] | Path | str, changes: Mapping[str, object]) -> Plan:
    if isinstance(plan, str | Path):
        return assemble_plan(Path(plan), changes, broker={}, client={})
    if isinstance(plan, Plan):
        plan = plan.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    return completed_plan(values_behind(plan), changes, broker={}, client={})


def _run_in(folder: Path | str) -> RunPaths:
    """Return the paths of the run in a folder.

    Raises:
        StoreError: The folder contains no run.
    """
    if str(folder).startswith(SAMPLE_PREFIX):
        return RunPaths(find_sample(str(folder)))
    paths = RunPaths(Path(folder).resolve())
    if not paths.plan.is_file():
        raise StoreError(f"{folder} is not the folder of a run: it has no {paths.plan.name}")
    return paths


@contextmanager
def _signals_as_before() -> Iterator[None]:
    """After the block, restore the caller's signal handlers, because a run replaces them.

    Raises:
        RuntimeError: Signal handlers cannot be set in this thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "a run handles signals, which only Python's main thread can do: start it in the main"
            " thread, or in a separate process"
        )
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
