"""The engine with Spark: a few jobs ingest all runs, and a few jobs judge all their groups.

There are two routes to the tables of a group (`checkers/groups.py` separates them). In `direct.py`,
tasks read the run's files themselves: on this machine, or at the same path on all machines. In
`shuffled.py`, Spark groups the rows of files that only Spark can read. Both routes call the same
`examine`. Results are bytes: JSON for checks, Arrow for statistics.
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
"""The files that the judge writes for a run."""
T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def spark_engine(master: str | None, *, warm: bool = False) -> Iterator["SparkEngine"]:
    """Start Spark, and yield the engine that uses it.

    Args:
        master: The Spark master, as for `spark_context`.
        warm: Whether the task processes on this machine import the modules when the engine starts.

    Raises:
        EngineError: Spark did not start, or a job failed.
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
    """Yield a set for runs with unfinished ingest. At the end, clean up the runs in the set."""
    unfinished: set[Path] = set()
    try:
        yield unfinished
    finally:
        for root in unfinished:  # Spark and its workers have ended by now.
            sweep_left(root)


class SparkEngine:
    """An `Engine` that uses one running Spark context.

    Args:
        context: The Spark context that runs the tasks.
        scratch: A folder for local copies of remote runs.
        unfinished: The set of runs with unfinished ingest. If ingest fails, these runs are cleaned
            up.
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
        """The session for DataFrames. The first use creates the session, in half a second."""
        return SparkSession(self._context)

    def warm(self) -> None:
        """Start the task processes of this machine. On a cluster, do nothing."""
        if self._cores is not None:
            load_directly(self._context, self._cores)

    def find(self, pattern: str) -> list[Path]:
        """Return local copies of the runs that match a URI, ready to be judged.

        Raises:
            EngineError: The URI cannot be read, or there is no run.
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
        """Copy a verdict and the other results to the run's original path.

        Returns:
            The reason if the copy was not possible, otherwise "".
        """
        write_verdict(RunPaths(root), verdict)
        try:
            Elsewhere(self._session).put(root, self._homes[root], _BACK)
        except EngineError as refused:
            return str(refused)
        return ""

    def compact(self, roots: Sequence[Path]) -> None:
        """Make the tables of runs (ingest): in tasks if possible, otherwise in this process.

        Raises:
            EngineError: The tables could not be copied to the run's original path, from which the
                cluster reads.
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
        """Return whether the tasks can see a run's folder; a cluster does not see local copies."""
        return self.here or root not in self._homes

    def _sight(self, roots: Iterable[Path]) -> Sight:
        """Return how the tasks can access the runs at their paths on this machine."""
        return Sight.WRITES if self.here else sight(self._context, list(roots))

    def spread(self, do: Callable[[T], R], shares: Sequence[T]) -> list[R]:
        """Run a function on each share: in tasks, or in this process if Spark is a cluster."""
        if self._cores is None:
            return in_turn(do, shares)
        return spread_directly(self._context, do, shares)

    def examine(self, runs: Mapping[Path, RunFacts]) -> Iterator[Piece]:
        """Yield the results for each group of the runs, in any order.

        Raises:
            EngineError: Some machines of the cluster cannot access a run.
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
