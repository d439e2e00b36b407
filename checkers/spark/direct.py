"""The route of records whose files the tasks see: each task reads just what it judges.

A task is told runs and places, and nothing else: it reads their row groups itself, so that no row
passes through the JVM, is packed, or is shuffled. Groups are put together into as many tasks as
keep all cores busy, the biggest ones first; of those that need much memory one runs at a time.

On this machine results come back by files, from a cluster through Spark.
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
"""Tasks that look what a cluster sees; so many that each machine is likely to have one."""
_BIG = 24_000_000
"""Groups of more rows are judged one after the other: two at a time need too much memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a task judges of one run.

    Attributes:
        root: The run's folder.
        facts: Its context.
        places: Which groups.
        rows: How many rows they have.
    """

    root: Path
    facts: RunFacts
    places: tuple[Place, ...]
    rows: int


def examine_directly(
    context: SparkContext, runs: Mapping[Path, RunFacts], at_once: int
) -> Iterator[Piece]:
    """Yield the results of each group of the runs, in any order.

    Args:
        context: Where the tasks run.
        runs: Whose folders the tasks see.
        at_once: How many tasks run at a time.
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
    """Share work out to tasks, evenly by rows; what comes first has the most.

    Small runs stay whole: their tables are then read once. Big groups are one task's.

    Args:
        works: Of one place each.
        tasks: At most so many, and one for big groups.
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
    """Judge the groups of a task: those of a run by one reader, which keeps small tables."""
    for root, of_run in groupby(sorted(works, key=lambda work: work.root), lambda work: work.root):
        mine = list(of_run)
        reader = reader_of(root, mine[0].facts)
        for place in (place for work in mine for place in work.places):
            yield from examine_places(mine[0].facts, reader, place)


def compact_directly(context: SparkContext, roots: Sequence[Path], at_once: int) -> None:
    """Work out the tables of runs that the tasks see, and may write."""

    def do(steps: Steps) -> Iterable[tuple[Step, Found]]:
        longest = sorted(steps, key=lambda step: -step.bytes)
        count = min(len(steps), max(_TASKS_A_CORE * at_once, len(steps) // _STEPS_A_TASK))
        return _in_tasks(
            context, [longest[first::count] for first in range(count)], step_where_seen
        )

    step_where_seen = _where_seen(context, roots, _take)
    compact([root.absolute() for root in roots], do)


def _take(steps: Steps) -> Iterator[tuple[Step, Found]]:
    """Take the steps of a task."""
    # Machines of a cluster may lack what reads nodes' files; then they are given no steps.
    from checkers.spark.nodes import read_node, replica_bytes  # noqa: PLC0415 - see above

    for step in steps:
        yield step, take(step, read_node, replica_bytes)
        pa.default_memory_pool().release_unused()


def load_directly(context: SparkContext, at_once: int) -> None:
    """Have a task on each core import this module, and with it what judges.

    Later tasks find their processes there: Spark keeps them (`spark.python.worker.reuse`).
    """
    _in_tasks(context, range(at_once), lambda core: iter((core,)))


class Sight(IntEnum):
    """What the machines of a cluster can do with a plain folder, from less to more."""

    BLIND = 0
    READS = 1
    WRITES = 2


def sight(context: SparkContext, roots: Sequence[Path]) -> Sight:
    """Return what all machines of a cluster can do with runs: they see them at the same path."""
    plans = {root.absolute(): RunPaths(root).plan.read_bytes() for root in roots}
    count = _PROBES_A_CORE * context.defaultParallelism
    return min(_in_tasks(context, range(count), lambda _: iter((_sight_here(plans),))))


def _where_seen(
    context: SparkContext, roots: Iterable[Path], do: Callable[[T], Iterator[R]]
) -> Callable[[T], Iterator[R]]:
    """Return work that each machine of a cluster refuses if it does not see the runs.

    One that came after all were asked may see others at the same path.
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
    """Return what this machine can do with runs, whose plans they are known by."""
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
    """Return what a piece of work gives for each share, in their order; a task does one."""
    return _in_tasks(context, shares, lambda share: iter((do(share),)))


def _in_tasks(context: SparkContext, tasks: Sequence[T], do: Callable[[T], Iterator[R]]) -> list[R]:
    """Return what tasks give, each for its own share of work.

    An RDD rather than a frame: there is nothing to plan, and the first query of a session costs a
    third of Spark's start. Results go by files, where these are of one machine: a hundred megabytes
    of dependencies through the JVM would cost as much again as the search for them.

    Args:
        context: Where they run.
        tasks: The share of each.
        do: What a task does.
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
