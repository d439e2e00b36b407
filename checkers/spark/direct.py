"""The Spark route in which each task reads the run's files itself.

A task receives only the facts of runs and the names of groups. The task itself reads the rows of
these groups. So no row passes through the JVM, and no row is serialized or shuffled. Groups are
combined into enough tasks to keep all cores busy, largest groups first. Groups that need much
memory run one at a time. On this machine, tasks return their results in files. On a cluster, tasks
return their results through Spark.
"""

import importlib.util
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import SparkContext

from checkers.compaction import Found, Step, Steps, compact, take
from checkers.engine import EngineError
from checkers.examine import Piece, damaged
from checkers.facts import RunFacts
from checkers.groups import examine_places, reader_of
from checkers.layout import DamagedError, Place
from checkers.spark.shipping import ELSEWHERE, OF_FILES, UNSEEN
from results.record.paths import RunPaths

T = TypeVar("T")
R = TypeVar("R")
_TASKS_A_CORE = 4
_STEPS_A_TASK = 4
_HERE = "local"
_PROBES_A_CORE = 4
"""The number of probe tasks for each core of a cluster, so that each machine probably gets a probe
task."""
_BIG = 24_000_000
"""Groups with more rows are judged one at a time, because two together need too much memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The part of a run that one task judges.

    Attributes:
        root: The run's folder.
        facts: The run's facts.
        places: The groups to judge.
        rows: The number of rows in these groups.
    """

    root: Path
    facts: RunFacts
    places: tuple[Place, ...]
    rows: int


def examine_directly(
    context: SparkContext, runs: Mapping[Path, RunFacts], at_once: int
) -> Iterator[Piece]:
    """Yield the results for each group of the runs, in any order.

    Args:
        context: The Spark context that runs the tasks.
        runs: The runs. The tasks can access the folders of the runs.
        at_once: The number of tasks that run at a time.
    """
    works: list[Work] = []
    for root, facts in runs.items():
        absolute = root.absolute()
        try:
            rows = reader_of(absolute, facts).rows()
        except DamagedError as hurt:
            yield from damaged(facts, hurt.names)
            continue
        works += [
            Work(root=absolute, facts=facts, places=(place,), rows=count)
            for place, count in sorted(rows.items())
        ]
    judge = _where_seen(context, runs, _judge)
    yield from _in_tasks(context, shared_out(works, _TASKS_A_CORE * at_once), judge)


def shared_out(works: Sequence[Work], tasks: int) -> list[list[Work]]:
    """Distribute the work evenly over tasks, by numbers of rows. Sort the tasks, largest first.

    A small run stays in one task, so that its tables are read only once. All big groups together go
    to one task.

    Args:
        works: Work items of one group each.
        tasks: The maximum number of tasks, without the task for big groups.
    """
    big = [work for work in works if work.rows > _BIG]
    by_root: dict[Path, list[Work]] = {}
    for work in works:
        if work.rows <= _BIG:
            by_root.setdefault(work.root, []).append(work)
    share = sum(work.rows for mine in by_root.values() for work in mine) / tasks
    units: list[Work] = []
    for mine in by_root.values():
        small = sum(work.rows for work in mine) <= share
        units += [_joined(mine)] if small else mine
    shares: list[list[Work]] = [[] for _ in range(min(tasks, len(units)))]
    filled = [0] * len(shares)
    for unit in sorted(units, key=lambda each: -each.rows):
        least = filled.index(min(filled))
        shares[least].append(unit)
        filled[least] += unit.rows
    rest = [shares[at] for at in sorted(range(len(shares)), key=lambda each: -filled[each])]
    return [big, *rest] if big else rest


def _joined(works: Sequence[Work]) -> Work:
    places = tuple(place for work in works for place in work.places)
    rows = sum(work.rows for work in works)
    return Work(root=works[0].root, facts=works[0].facts, places=places, rows=rows)


def _judge(works: Sequence[Work]) -> Iterator[Piece]:
    """Judge the groups of one task. One reader serves all groups of a run."""
    for root, of_run in groupby(sorted(works, key=lambda work: work.root), lambda work: work.root):
        mine = list(of_run)
        reader = reader_of(root, mine[0].facts)
        for place in (place for work in mine for place in work.places):
            yield from examine_places(mine[0].facts, reader, place)


def compact_directly(context: SparkContext, roots: Sequence[Path], at_once: int) -> None:
    """Make the tables of runs (ingest) in tasks that can read and write the runs' folders."""

    def do(steps: Steps) -> Iterable[tuple[Step, Found]]:
        longest = sorted(steps, key=lambda step: -step.bytes)
        count = min(len(steps), max(_TASKS_A_CORE * at_once, len(steps) // _STEPS_A_TASK))
        return _in_tasks(
            context, [longest[first::count] for first in range(count)], step_where_seen
        )

    step_where_seen = _where_seen(context, roots, _take)
    compact([root.absolute() for root in roots], do)


def _take(steps: Steps) -> Iterator[tuple[Step, Found]]:
    """Execute the ingest steps of one task, and yield their results."""
    # A cluster's machines may lack libraries for nodes' files. Then they get no steps.
    from checkers.spark.nodes import read_node, replica_bytes  # noqa: PLC0415 - see above

    for step in steps:
        yield step, take(step, read_node, replica_bytes)
        pa.default_memory_pool().release_unused()


def load_directly(context: SparkContext, at_once: int) -> None:
    """On each core, start a task's process. Its parent (`daemon.py`) imports all checks first.

    Spark keeps these processes for later tasks (`spark.python.worker.reuse`).
    """
    _in_tasks(context, range(at_once), lambda core: iter((core,)))


class Sight(IntEnum):
    """How the machines of a cluster can access a folder of this machine."""

    BLIND = 0
    READS = 1
    WRITES = 2


def sight(context: SparkContext, roots: Sequence[Path]) -> Sight:
    """Return how all machines of a cluster can access the runs' folders."""
    plans = {root.absolute(): RunPaths(root).plan.read_bytes() for root in roots}
    count = _PROBES_A_CORE * context.defaultParallelism
    return min(_in_tasks(context, range(count), lambda _: iter((_sight_here(plans),))))


def _where_seen(
    context: SparkContext, roots: Iterable[Path], do: Callable[[T], Iterator[R]]
) -> Callable[[T], Iterator[R]]:
    """Wrap a task's function. The new function fails on a machine that cannot access the runs.

    A machine that joined the cluster after the probe may have other runs at the same path.
    """
    if _is_here(context):
        return do
    plans = {root.absolute(): RunPaths(root).plan.read_bytes() for root in roots}

    def done(share: T) -> Iterator[R]:
        if _sight_here(plans) is Sight.BLIND:
            raise EngineError(f"{UNSEEN}; {ELSEWHERE}")
        return do(share)

    return done


def _is_here(context: SparkContext) -> bool:
    return (context.master or _HERE).startswith(_HERE)


def _sight_here(plans: Mapping[Path, bytes]) -> Sight:
    """Return how this machine can access the runs. Equal plans mean that it sees these runs."""
    for root, plan in plans.items():
        there = RunPaths(root).plan
        if not there.is_file() or there.read_bytes() != plan:
            return Sight.BLIND
    lacks = any(importlib.util.find_spec(name) is None for name in OF_FILES)
    folders = [RunPaths(root).record for root in plans]
    return Sight.READS if lacks or not all(map(_is_writable, folders)) else Sight.WRITES


def _is_writable(folder: Path) -> bool:
    return os.access(folder if folder.exists() else folder.parent, os.W_OK)


def spread_directly(context: SparkContext, do: Callable[[T], R], shares: Sequence[T]) -> list[R]:
    """Run a function on each share in a separate task; return the results in order."""
    return _in_tasks(context, shares, lambda share: iter((do(share),)))


def _in_tasks(context: SparkContext, tasks: Sequence[T], do: Callable[[T], Iterator[R]]) -> list[R]:
    """Run tasks, and return the results of all tasks.

    The function uses an RDD instead of a DataFrame, because the first query of a session costs a
    third of Spark's start. On one machine, tasks return results in files. Dependencies may take a
    hundred megabytes. To send dependencies through the JVM would take as long as the search for
    cycles.

    Args:
        context: The Spark context that runs the tasks.
        tasks: The share of each task.
        do: The function that a task runs on its share.
    """
    if not tasks:
        return []
    shares = context.parallelize(range(len(tasks)), len(tasks))
    if not _is_here(context):
        return [result for each in shares.map(lambda at: list(do(tasks[at]))).collect()
                for result in each]  # fmt: skip
    with TemporaryDirectory(prefix="logquake-") as folder:

        def done(number: int) -> Path:
            path = Path(folder) / str(number)
            with path.open("wb") as file:
                pickle.dump(list(do(tasks[number])), file, protocol=pickle.HIGHEST_PROTOCOL)
            return path

        return [result for path in shares.map(done).collect() for result in _results(path)]


def _results(path: Path) -> list[Any]:
    with path.open("rb") as file:
        results: list[Any] = pickle.load(file)  # noqa: S301 - a task of ours wrote it just now
    return results
