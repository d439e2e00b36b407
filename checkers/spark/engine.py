"""The engine with Spark: one job reads the units of all runs, one judges all their groups.

There are two routes to the tables of a group (the seam is `checkers/groups.py`): `direct.py`, where
tasks read the record's files themselves, on this machine or at the same path of all machines; and
`shuffled.py`, where Spark brings the rows of what only Spark can read. Behind both stands the same
`examine`. Results are bytes: JSON of checks, Arrow of statistics.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # It has no stubs.
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from checkers.compaction import sweep_left
from checkers.engine import EngineError, in_turn
from checkers.examine import Piece
from checkers.facts import RunFacts
from checkers.spark.direct import (
    Sight,
    compact_directly,
    examine_directly,
    load_directly,
    sight,
    spread_directly,
)
from checkers.spark.elsewhere import Elsewhere
from checkers.spark.local import LocalEngine
from checkers.spark.session import (
    ENDED,
    cores,
    failure,
    has_ended,
    spark_context,
)
from checkers.spark.shipping import ELSEWHERE, UNSEEN
from checkers.spark.shuffled import examine_shuffled
from checkers.statistics import STATISTICS
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.verdict import Verdict
from results.verdict_json import write_verdict

_TABLES = ("record/ingest.json", *(f"record/{name}.parquet" for name in TABLES))
_BACK = ("verdict.json", *_TABLES, *(f"statistics/{name}.parquet" for name in STATISTICS))
"""What a judgement writes."""
T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def spark_engine(master: str | None, *, warm: bool = False) -> Iterator["SparkEngine"]:
    """Start Spark, and give the engine that uses it.

    Args:
        master: As `spark_context` takes it.
        warm: Whether tasks of this machine have imported what they need.

    Raises:
        EngineError: Spark did not start, or a job of it failed.
    """
    with (
        _swept() as unfinished,
        spark_context(master) as context,
        TemporaryDirectory(prefix="logquake-") as scratch,
    ):
        try:
            engine = SparkEngine(context, Path(scratch), unfinished)
            if warm:
                engine.warm()
            yield engine
        except (PySparkException, Py4JError) as failed:
            raise EngineError(failure(failed)) from failed
        except ConnectionError as failed:
            if has_ended(context):
                raise EngineError(ENDED) from failed
            raise


@contextmanager
def _swept() -> Iterator[set[Path]]:
    """Give a set for runs whose tables are being worked out; what is left in it is swept."""
    unfinished: set[Path] = set()
    try:
        yield unfinished
    finally:
        for root in unfinished:  # Spark has ended, and its workers with it.
            sweep_left(root)


class SparkEngine:
    """An `Engine` on one start of Spark.

    Args:
        context: Where the tasks run.
        scratch: For copies of runs that lie elsewhere.
        unfinished: Holds the runs whose tables are being worked out; if that fails, they are swept.
    """

    name = "spark"

    def __init__(self, context: SparkContext, scratch: Path, unfinished: set[Path]) -> None:
        self._context = context
        self._scratch = scratch
        self._unfinished = unfinished
        self._homes: dict[Path, str] = {}
        self._cores = cores(context.master or "")
        self.here = self._cores is not None
        self._at_once = self._cores or context.defaultParallelism

    @cached_property
    def _session(self) -> SparkSession:
        """For frames, which few runs need: it takes Java half a second."""
        return SparkSession(self._context)

    def warm(self) -> None:
        """Start the tasks' processes of this machine; nothing on a cluster."""
        if self._cores is not None:
            load_directly(self._context, self._cores)

    def find(self, pattern: str) -> list[Path]:
        """Return copies of the runs that a URI means, ready to be judged.

        Raises:
            EngineError: It cannot be read, or there is no run.
        """
        elsewhere = Elsewhere(self._session)
        found = []
        for uri in elsewhere.runs(pattern):
            if uri in self._homes.values():
                continue
            root = elsewhere.fetch(uri, self._scratch / str(len(self._homes)))
            self._homes[root] = uri
            found.append(root)
        return found

    def give_back(self, root: Path, verdict: Verdict) -> str:
        """Copy a verdict, and what else a judgement wrote, to where the run lies.

        Returns:
            Why that was not possible; empty if it was.
        """
        write_verdict(RunPaths(root), verdict)
        try:
            Elsewhere(self._session).put(root, self._homes[root], _BACK)
        except EngineError as refused:
            return str(refused)
        return ""

    def compact(self, roots: Sequence[Path]) -> None:
        """Work out the tables of runs: in tasks, or here, where the tasks cannot.

        Raises:
            EngineError: The cluster cannot read them, because they cannot be put where the run is.
        """
        here = [root for root in roots if not self._by_tasks(root)]
        by_tasks = [root for root in roots if self._by_tasks(root)]
        if by_tasks and self._sight(by_tasks) is not Sight.WRITES:
            here, by_tasks = list(roots), []
        self._unfinished.update(by_tasks)
        compact_directly(self._context, by_tasks, self._at_once)
        self._unfinished.clear()
        LocalEngine().compact(here)
        for root in here:
            if root in self._homes:
                Elsewhere(self._session).put(root, self._homes[root], _TABLES)

    def _by_tasks(self, root: Path) -> bool:
        """Tell whether the tasks see a run's folder: a cluster's do not see copies."""
        return self.here or root not in self._homes

    def _sight(self, roots: Iterable[Path]) -> Sight:
        """Return what the tasks can do with runs at the path that they have here."""
        return Sight.WRITES if self.here else sight(self._context, list(roots))

    def spread(self, do: Callable[[T], R], shares: Sequence[T]) -> list[R]:
        """Do a piece of work for each share: in tasks, or here, where a cluster sees no files."""
        if self._cores is None:
            return in_turn(do, shares)
        return spread_directly(self._context, do, shares)

    def examine(self, runs: Mapping[Path, RunFacts]) -> Iterator[Piece]:
        """Yield the results of each group of the runs, in any order.

        Raises:
            EngineError: Machines of the cluster do not see a run.
        """
        seen = {
            root: facts
            for root, facts in runs.items()
            if self.here or (self._by_tasks(root) and not facts.history)
        }
        if seen and self._sight(seen) is Sight.BLIND:
            raise EngineError(f"{UNSEEN}: {', '.join(map(str, seen))}; {ELSEWHERE}")
        yield from examine_directly(self._context, seen, self._at_once)
        far = {
            self._homes.get(root) or f"file:{root.resolve()}": facts
            for root, facts in runs.items()
            if root not in seen
        }
        if far:
            yield from examine_shuffled(self._session, far)
