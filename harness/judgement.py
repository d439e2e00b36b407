"""From stored runs to verdicts: chooses the engine, judges, and stores what came of it."""

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
    """Who judges, and why if it was not the user's choice."""

    name: str
    spark_master: str | None = None
    why: str = ""


def choose_engine(name: str | None, spark_master: str | None, *, light: bool = False) -> Engine:
    """Take the engine that was asked for; otherwise Spark where there is a Java, local elsewhere.

    Args:
        name: As asked for.
        spark_master: As asked for.
        light: Whether it is a run of the reference cluster, which does with nothing but Python:
            Spark's start would be a third of a first run, and both engines come to one verdict.

    Raises:
        UserError: Spark was asked for, and there is no Java.
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
    """Judge runs that lie in a store, all together.

    Args:
        roots: Folders of runs.
        judge: None: the one of each run's plan.
        engine: Who judges.
        store: Whether to write each `verdict.json`.

    Returns:
        A verdict for each run, in the order of `roots`.
    """
    with entered(engine) as worker:
        return judge_by(worker, roots, judge=judge, store=store)


def entered(engine: Engine, *, warm: bool = False) -> AbstractContextManager["Worker"]:
    """Return who judges, to be entered.

    Args:
        engine: Who.
        warm: Whether it also gets ready for its first job, which then takes less.

    Raises:
        EngineError: It cannot work here.
    """
    from checkers.run import started  # noqa: PLC0415 - a run begins without its checks

    return started(engine.name, engine.spark_master, warm=warm)


def judge_by(
    worker: "Worker", roots: Sequence[Path], *, judge: Judge | None = None, store: bool = True
) -> list[Verdict]:
    """Judge runs that lie in a store, as `judge_stored` does, with an engine that was entered."""
    from checkers.run import judge_with  # noqa: PLC0415 - as in `entered`

    verdicts = judge_with(worker, roots, judge)
    if store:
        for root, verdict in zip(roots, verdicts, strict=True):
            write_verdict(RunPaths(root), verdict)
    return verdicts


def is_uri(name: str) -> bool:
    """Tell whether a run is named by a path that is read by Spark: `hdfs://...`."""
    return "://" in name


def judge_uris(
    uris: Sequence[str], *, judge: Judge | None, engine: Engine, store: bool = True
) -> tuple[list[Verdict], list[str]]:
    """Judge runs that lie on paths that Spark reads, all together.

    Args:
        uris: Of folders of runs; they may have `*`.
        judge: None: the one of each run's plan.
        engine: Who judges; must be Spark.
        store: Whether to write each `verdict.json` there.

    Returns:
        A verdict for each run that was found, and sentences on those that could not be stored.

    Raises:
        UserError: The engine is not Spark.
    """
    from checkers.run import judge_elsewhere  # noqa: PLC0415 - as in `entered`

    if engine.name != "spark":
        raise UserError(
            f"{uris[0]} is read by Spark, which was not asked for or needs Java: name a folder of"
            " this machine, or use --engine spark"
        )
    found = judge_elsewhere(uris, judge=judge, spark_master=engine.spark_master, store=store)
    kept = [f"the verdict on {each.run_id} is not stored: {why}" for each, why in found if why]
    return [each for each, _ in found], kept
