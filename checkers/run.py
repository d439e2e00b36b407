"""The entry of the checking pipeline: it judges folders of runs and returns verdicts."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from checkers.engine import Engine, EngineError
from checkers.examine import DAMAGED, Piece, conclude, examine, gathered
from checkers.facts import RunFacts
from checkers.figures import figures
from checkers.judge import weigh
from checkers.layout import RUN
from checkers.room import too_large
from checkers.spark.local import LocalEngine
from checkers.stored import (
    can_ingest,
    load_facts,
    needs_ingest,
    without_tables,
    write_statistics,
)
from results.record.paths import RunPaths
from results.record.terms import Judge
from results.record.verdict import Verdict

ENGINES = ("spark", "local")


def _to_stderr(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def judge_runs(
    roots: Sequence[Path],
    *,
    judge: Judge | None = None,
    engine: str = "spark",
    spark_master: str | None = None,
    reingest: bool = False,
) -> list[Verdict]:
    """Judge runs together in a few jobs: ingest new runs, run the checks, compute statistics.

    The function writes `record/*.parquet` and `statistics/*.parquet` into the run folders. The
    caller stores the verdicts.

    Args:
        roots: The folders of the runs.
        judge: The judge to use. None: each plan names its judge.
        engine: One of `ENGINES`.
        spark_master: Where Spark runs: `local[2]`, or a cluster: `spark://...`, `yarn`.
        reingest: Rebuild existing tables if the live streams still exist.

    Returns:
        A verdict for each root, in the same order.

    Raises:
        EngineError: The engine cannot work here.
    """
    with started(engine, spark_master) as worker:
        return judge_with(worker, roots, judge, reingest=reingest)


def judge_elsewhere(
    uris: Sequence[str],
    *,
    judge: Judge | None = None,
    spark_master: str | None = None,
    store: bool = True,
) -> list[tuple[Verdict, str]]:
    """Judge runs at any path that Spark can read, together in a few jobs.

    Args:
        uris: Folders of runs (`hdfs://...`, `s3a://...`, `file://...`). They may contain `*`.
        judge: The judge to use. None: each plan names its judge.
        spark_master: Where Spark runs.
        store: Whether to write verdicts, statistics and new tables back to the runs' folders. On a
            cluster, new tables are always written back, because its tasks read the tables there.

    Returns:
        The verdict of each run that was found, and the reason why the verdict could not be stored.
        The reason is "" if the verdict was stored, or if `store` is false.

    Raises:
        EngineError: Spark cannot work here, or cannot read a URI, or there is no run.
    """
    from checkers.spark.engine import spark_engine  # noqa: PLC0415 - only who uses Spark pays for it

    with spark_engine(spark_master) as worker:
        roots = [root for uri in uris for root in worker.find(uri)]
        judged = list(zip(roots, judge_with(worker, roots, judge), strict=True))
        return [(each, worker.give_back(root, each) if store else "") for root, each in judged]


def judge_with(
    worker: Engine,
    roots: Sequence[Path],
    judge: Judge | None = None,
    *,
    reingest: bool = False,
    warn: Callable[[str], None] = _to_stderr,
) -> list[Verdict]:
    """Judge runs with an engine that was started before. The engine stays open afterwards.

    Args:
        worker: A started engine (`started`).
        roots: The folders of the runs.
        judge: The judge to use. None: each plan names its judge.
        reingest: Rebuild existing tables.
        warn: A function that is called before the checks, with a warning for each run that may be
            too large.

    Raises:
        EngineError: The engine cannot work any more.
    """
    left = [root for root in dict.fromkeys(roots) if _to_ingest(root, again=reingest)]
    if left:
        worker.compact(left)
    facts = {root: _judged_by(load_facts(root), judge) for root in roots}
    for sentence in too_large(facts) if worker.here else ():
        warn(sentence)
    verdicts: dict[Path, Verdict] = {}
    for batch in _apart(facts):
        verdicts |= judge_batch(batch, worker)
    return [verdicts[root] for root in roots]


def started(
    engine: str, spark_master: str | None, *, warm: bool = False
) -> AbstractContextManager[Engine]:
    """Return an engine as a context manager.

    Args:
        engine: One of `ENGINES`.
        spark_master: Where Spark runs.
        warm: Whether the task processes on this machine import the modules when the engine starts.

    Raises:
        EngineError: The engine does not exist, or cannot work here.
    """
    if engine == "local":
        return LocalEngine()
    if engine != "spark":
        raise EngineError(f"unknown engine {engine!r}; use one of {', '.join(ENGINES)}")
    from checkers.spark.engine import spark_engine  # noqa: PLC0415 - only who uses Spark pays for it

    return spark_engine(spark_master, warm=warm)


def _to_ingest(root: Path, *, again: bool) -> bool:
    paths = RunPaths(root)
    return needs_ingest(paths) or (again and can_ingest(paths))


def _apart(facts: Mapping[Path, RunFacts]) -> Iterator[dict[Path, RunFacts]]:
    """Yield the runs in batches, so that no batch contains two copies of one run."""
    rest = dict(facts)
    while rest:
        batch: dict[str, Path] = {}
        for root, each in rest.items():
            batch.setdefault(each.recorded_id, root)
        yield {root: rest.pop(root) for root in batch.values()}


def _judged_by(facts: RunFacts, judge: Judge | None) -> RunFacts:
    return replace(facts, judge=judge or facts.plan.judge)


def judge_batch(runs: Mapping[Path, RunFacts], worker: Engine) -> dict[Path, Verdict]:
    """Judge runs whose tables exist, and write their statistics.

    Args:
        runs: The run folders and the facts of each run. No two runs have the same recorded id.
        worker: A started engine.
    """
    pieces: dict[str, list[Piece]] = {facts.recorded_id: [] for facts in runs.values()}
    for piece in worker.examine(runs):
        pieces[piece.run_id].append(piece)
    verdicts, hurt = {}, {}
    for root, facts in runs.items():
        mine = pieces.pop(facts.recorded_id)
        names = {piece.name for piece in mine if piece.kind == DAMAGED}
        if names:
            hurt[root] = without_tables(facts, names)
        else:
            verdicts[root] = _verdict(root, facts, mine, worker.name)
    return verdicts | judge_batch(hurt, worker) if hurt else verdicts


def _verdict(root: Path, facts: RunFacts, pieces: Sequence[Piece], engine: str) -> Verdict:
    if not any(piece.partition < 0 for piece in pieces):
        pieces = [*pieces, *examine(facts, {}, RUN)]  # A run without any op must be judged too.
    found = gathered([*pieces, *conclude(facts, pieces)])
    write_statistics(RunPaths(root), found.statistics)
    return weigh(
        facts,
        found.checks,
        judge=facts.judge,
        engine=engine,
        stats=figures(facts, found.statistics, found.uncovered),
    )
