"""Choose an engine, judge stored runs with it, and store the verdicts."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.cache import cache_folder
from cluster.java import find_java, spark_java_home
from cluster.protocol import UserError
from results.record.paths import RunPaths
from results.record.terms import Judge
from results.record.verdict import Verdict
from results.verdict_json import write_verdict

if TYPE_CHECKING:
    from checkers.engine import Engine as Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engine that judges: Spark or local. `why` has the reason if the user did not choose."""

    name: str
    spark_master: str | None = None
    why: str = ""


def choose_engine(name: str | None, spark_master: str | None, *, light: bool = False) -> Engine:
    """Return the engine that the user chose; by default Spark if Java is installed, else local.

    Args:
        name: The user's choice of engine.
        spark_master: The user's choice of Spark master.
        light: Whether the run uses the reference cluster, which needs only Python. If it does, the
            default is local, because the start of Spark would take a third of the time of a first
            run. Both engines give the same verdict.

    Raises:
        UserError: The user chose Spark, and no Java is installed.
    """
    if name == "local":
        return Engine(name="local")
    if light and name is None and spark_master is None:
        return Engine(name="local")
    try:
        java = find_java()
        java_home = spark_java_home(java, cache_folder())
    except UserError as missing:
        if name == "spark" or spark_master:
            raise
        return Engine(name="local", why=f"judged by the local engine: {missing}")
    os.environ["JAVA_HOME"] = str(java_home)
    return Engine(name="spark", spark_master=spark_master)


def judge_stored(
    roots: Sequence[Path], *, judge: Judge | None, engine: Engine, store: bool = True
) -> list[Verdict]:
    """Judge some runs of a store, all in one pass.

    Args:
        roots: The runs' folders.
        judge: The judge; None if each run's own plan determines it.
        engine: The engine that judges.
        store: Whether to write each run's `verdict.json`.

    Returns:
        A verdict for each run, in the order of `roots`.
    """
    with entered(engine) as worker:
        return judge_by(worker, roots, judge=judge, store=store)


def entered(engine: Engine, *, warm: bool = False) -> AbstractContextManager["Worker"]:
    """Return a context manager that starts an engine, and ends the engine on exit.

    Args:
        engine: The engine.
        warm: Whether to prepare the engine, so that its first job is faster.

    Raises:
        EngineError: The engine cannot work on this machine.
    """
    from checkers.run import started  # noqa: PLC0415 - a run begins without its checks

    return started(engine.name, engine.spark_master, warm=warm)


def judge_by(
    worker: "Worker", roots: Sequence[Path], *, judge: Judge | None = None, store: bool = True
) -> list[Verdict]:
    """Judge some runs of a store with an already started engine; see `judge_stored`."""
    from checkers.run import judge_with  # noqa: PLC0415 - as in `entered`

    verdicts = judge_with(worker, roots, judge)
    if store:
        for root, verdict in zip(roots, verdicts, strict=True):
            write_verdict(RunPaths(root), verdict)
    return verdicts


def is_uri(name: str) -> bool:
    """Return whether a run is named by a URI that Spark reads, such as `hdfs://...`."""
    return "://" in name


def judge_uris(
    uris: Sequence[str], *, judge: Judge | None, engine: Engine, store: bool = True
) -> tuple[list[Verdict], list[str]]:
    """Judge runs at URIs that Spark reads, all in one pass.

    Args:
        uris: The URIs of the runs' folders; they may contain `*`.
        judge: The judge; None if each run's own plan determines it.
        engine: The engine that judges; it must be Spark.
        store: Whether to write each run's `verdict.json` into the run's folder.

    Returns:
        The verdicts of all runs that were found, and a sentence about each verdict that could not
            be stored.

    Raises:
        UserError: The engine is not Spark.
    """
    from checkers.run import judge_elsewhere  # noqa: PLC0415 - as in `entered`

    if engine.name != "spark":
        raise UserError(
            f"only Spark can read {uris[0]}, but Spark is not chosen or has no Java: name a"
            " folder on this machine, or use --engine spark"
        )
    found = judge_elsewhere(uris, judge=judge, spark_master=engine.spark_master, store=store)
    kept = [f"the verdict on {each.run_id} is not stored: {why}" for each, why in found if why]
    return [each for each, _ in found], kept
