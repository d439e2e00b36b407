"""`run` and `judge`: what `logquake run` and `logquake check` do, without a command line."""

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
"""What the caller can fix, for an `except`: each says what in one sentence."""


def run(
    plan: Plan | Mapping[str, object] | Path | str,
    *,
    store: Path | str = "runs",
    changes: Mapping[str, object] | None = None,
    engine: str | None = None,
    spark_master: str | None = None,
    output: IO[str] | None = None,
) -> Verdict:
    """Play a plan and judge the run, as `logquake run` does.

    The run lies in `Path(store) / verdict.run_id`, with its page, `report.html`.

    Args:
        plan: A plan, its values by key, or the file that has it. Keys that are missing have the
            defaults of `logquake init`; without a seed there is a new one.
        store: The folder of runs; made if it is not there.
        changes: Keys of the plan that win over it, as options of the command line do. What reaches
            beyond the run in a file that others may have written (`hosts`, `image`, `clients`, a
            `system` with files of its own) counts only if it stands here.
        engine: `spark`, `local`; None: Spark where there is a Java, local elsewhere and for the
            reference cluster. Spark sets `JAVA_HOME` of this process.
        spark_master: A Spark cluster instead of this machine.
        output: Where to print what `logquake run` prints; None: nothing is printed, and what the
            run itself says is kept in its `stage.log`.

    Returns:
        The verdict, whatever it is. An unknown one says why in `unknown_because`.

    Raises:
        PlanError: The plan cannot be run.
        UserError: The machine, or the system, cannot do what the plan asks for.
        StoreError: The store cannot be written.
        EngineError: Spark cannot be reached.
        InternalError: A bug of Logquake ended the run; it was judged for what there is.
        KeyboardInterrupt: Ctrl-C ended the run early. If its message names no command that does
            the rest, the run has its verdict and its page.
        RuntimeError: This is not the main thread, where Python takes signals.
    """
    asked = _plan_of(plan, changes or {})
    console = Console(file=output, quiet=output is None, soft_wrap=True)
    with _signals_as_before(), closed_to_others():
        session = Session(asked, Path(store), console)
        verdict = session.run(engine=engine, spark_master=spark_master)
    if was_interrupted(RunPaths(Path(store) / verdict.run_id)):
        raise KeyboardInterrupt(f"interrupted: {verdict.run_id} was judged for what there is")
    return verdict


def judge(
    folder: Path | str,
    *,
    judge: Judge | str | None = None,
    engine: str | None = None,
    spark_master: str | None = None,
) -> Verdict:
    """Judge a stored run again, as `logquake check` does.

    The verdict is stored with the run, unless another judge than the run's own is named, or the run
    is a sample.

    Args:
        folder: The run, or `sample:NAME`.
        judge: `contract`, `strict`, `jepsen`; None: the one of the run's plan.
        engine: As for `run`.
        spark_master: As for `run`.

    Raises:
        StoreError: There is no such run, it is still under way, or its verdict cannot be stored.
        UserError: There is no such judge, or no Java for Spark.
        EngineError: Spark cannot be reached.
    """
    try:
        by_whom = Judge(judge) if judge is not None else None
    except ValueError as unknown:
        raise UserError(f"the judge {judge!r} is none of {', '.join(Judge)}") from unknown
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
    """Return the run of a folder.

    Raises:
        StoreError: There is none.
    """
    if str(folder).startswith(SAMPLE_PREFIX):
        return RunPaths(find_sample(str(folder)))
    paths = RunPaths(Path(folder).resolve())
    if not paths.plan.is_file():
        raise StoreError(f"{folder} is no folder of a run: it has no {paths.plan.name}")
    return paths


@contextmanager
def _signals_as_before() -> Iterator[None]:
    """Restore the program's own handlers of signals, which a run takes and may leave ignored.

    Raises:
        RuntimeError: They cannot be taken in this thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "a run takes signals, which Python's main thread alone can: play it there, or in a"
            " process of its own"
        )
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
