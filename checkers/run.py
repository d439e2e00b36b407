"""From folders of runs to verdicts: the pipeline's entry."""

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
    """Judge runs, all in the same few jobs: ingest what was not, check, work out statistics.

    Writes `record/*.parquet` and `statistics/*.parquet` of the runs; verdicts are the caller's.

    Args:
        roots: The folders of the runs.
        judge: Who judges; None: whom each plan names.
        engine: One of `ENGINES`.
        spark_master: Where Spark runs: `local[2]`, or a cluster: `spark://...`, `yarn`.
        reingest: Work the tables out again though they are there, if the live streams are.

    Returns:
        A verdict for each root, in their order.

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
    """Judge runs on any path that Spark reads, all in the same few jobs.

    Args:
        uris: Of folders of runs (`hdfs://...`, `s3a://...`, `file://...`); they may have `*`.
        judge: Who judges; None: whom each plan names.
        spark_master: Where Spark runs.
        store: Whether to write verdicts, statistics and new tables to where the runs lie.

    Returns:
        The verdict of each run that was found, and why it could not be stored; empty if it was, or
        was not meant to be.

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
    """Judge runs with an engine that goes on afterwards, as `judge_runs` does otherwise.

    Args:
        worker: An engine that was entered (`started`).
        roots: The folders of the runs.
        judge: Who judges; None: whom each plan names.
        reingest: Work the tables out again though they are there.
        warn: Is told of a run that may be too large for this machine, before it is judged.

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
    """Return an engine to be entered.

    Args:
        engine: One of `ENGINES`.
        spark_master: Where Spark runs.
        warm: Whether tasks of this machine have imported what they need when it is entered.

    Raises:
        EngineError: There is no such engine, or it cannot work here.
    """
    if engine == "local":
        return LocalEngine()
    if engine != "spark":
        raise EngineError(f"the engine {engine!r} is none of {', '.join(ENGINES)}")
    from checkers.spark.engine import spark_engine  # noqa: PLC0415 - only who uses Spark pays for it

    return spark_engine(spark_master, warm=warm)


def _to_ingest(root: Path, *, again: bool) -> bool:
    paths = RunPaths(root)
    return needs_ingest(paths) or (again and can_ingest(paths))


def _apart(facts: Mapping[Path, RunFacts]) -> Iterator[dict[Path, RunFacts]]:
    """Yield batches in which no two runs were recorded under one id: copies of a folder."""
    rest = dict(facts)
    while rest:
        batch: dict[str, Path] = {}
        for root, each in rest.items():
            batch.setdefault(each.recorded_id, root)
        yield {root: rest.pop(root) for root in batch.values()}


def _judged_by(facts: RunFacts, judge: Judge | None) -> RunFacts:
    return replace(facts, judge=judge or facts.plan.judge)


def judge_batch(runs: Mapping[Path, RunFacts], worker: Engine) -> dict[Path, Verdict]:
    """Judge runs whose tables are there, and write their statistics.

    Args:
        runs: Folders and facts; no two were recorded under one id.
        worker: An engine that was entered.
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
        pieces = [*pieces, *examine(facts, {}, RUN)]  # Not one op: that, too, is to be judged.
    found = gathered([*pieces, *conclude(facts, pieces)])
    write_statistics(RunPaths(root), found.statistics)
    return weigh(
        facts,
        found.checks,
        judge=facts.judge,
        engine=engine,
        stats=figures(facts, found.statistics, found.uncovered),
    )
