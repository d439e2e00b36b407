"""From stored runs to verdicts: chooses the engine, judges, and stores what came of it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from checkers.run import judge_runs
from cluster.kafka.cache import cache_folder
from cluster.kafka.java import find_java, spark_java_home
from cluster.protocol import UserError
from results.record.paths import RunPaths
from results.record.terms import Judge
from results.record.verdict import Verdict
from results.verdict_json import write_verdict

ENGINES = ("spark", "local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Who judges, and why if it was not the user's choice."""

    name: str
    spark_master: str | None = None
    why: str = ""


def choose_engine(name: str | None, spark_master: str | None) -> Engine:
    """Take the engine that was asked for; otherwise Spark where there is a Java, local elsewhere.

    Raises:
        UserError: Spark was asked for, and there is no Java.
    """
    if name == "local":
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
    verdicts = judge_runs(roots, judge=judge, engine=engine.name, spark_master=engine.spark_master)
    if store:
        for root, verdict in zip(roots, verdicts, strict=True):
            write_verdict(RunPaths(root), verdict)
    return verdicts
