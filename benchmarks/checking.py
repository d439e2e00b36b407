"""Measures how long `logquake check` takes, and compares it with plain numpy and DuckDB.

For each size the benchmark writes a seeded run record with `benchmarks/seeded.py`. The record has
the streams of clients and observers, and the logs of three replicas. Each of these ways is measured
as a process of its own, together with its child processes:

* `from streams`: `logquake check RUN`, before the tables of the run exist;
* `from tables`: the same command again, which is also the cost of `check` after `logquake run`;
* `warm`: from streams again, in a Spark session that has judged another run before;
* `numpy`, `duckdb`: the checks of `benchmarks/plain.py`, on the same Parquet files;
* `cluster-1`, `cluster-2`: from streams, in a warm session on a standalone cluster of one or two
  workers; each worker has one core.

If replicas' logs are segments of real brokers, reading the segments takes additional time: see
`docs/checkers.md`.

    python -m benchmarks.checking [--ops 20000 200000 1000000] [--partitions 8] [--runs 1] [--only
        from-streams ...] [--store FOLDER]

Wall-clock seconds are meaningful on an idle machine only. Each line shows the load at its start.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measured import Cost, measured
from benchmarks.seeded import Shape, write_many
from checkers.run import judge_batch
from checkers.spark.engine import spark_engine
from checkers.stored import load_facts
from results.record.clock import stopwatch_s
from results.record.paths import RunPaths
from results.record.tables import TABLES
from tests.checkers.standalone import executors, standalone

_CHECK = (sys.executable, "-c", "from harness.cli import main; main()", "check")
_WAYS = ("from-streams", "from-tables", "warm", "numpy", "duckdb", "cluster-1", "cluster-2")
_ALONE = _WAYS[:5]
_SMALL = 2_000


def _without_tables(roots: Sequence[Path]) -> None:
    for root in roots:
        for path in [*(RunPaths(root).table(name) for name in TABLES),
                     RunPaths(root).record / "ingest.json"]:  # fmt: skip
            path.unlink(missing_ok=True)


def _cost(way: str, roots: Sequence[Path]) -> Cost:
    names = [str(root) for root in roots]
    here = [sys.executable, "-m"]
    match way:
        case "from-streams":
            _without_tables(roots)
            return measured([*_CHECK, *names])
        case "from-tables":
            return measured([*_CHECK, *names])
        case "warm":
            return measured([*here, "benchmarks.checking", "--warm", *names])
        case "cluster-1" | "cluster-2":
            workers = way[-1]
            return measured([*here, "benchmarks.checking", "--workers", workers, "--warm", *names])
        case "numpy":
            return measured([*here, "benchmarks.plain", names[0]])
        case _:
            return measured([*here, "benchmarks.duck", names[0]])


@contextmanager
def _master(folder: Path, workers: int) -> Iterator[str | None]:
    """Yield the master URL of a Spark cluster with `workers` workers, or None for 0 workers.

    None means that Spark runs on this machine without a cluster.
    """
    if not workers:
        yield None
        return
    executors(folder, count=workers)
    os.environ |= {"SPARK_CONF_DIR": str(folder / "conf"), "PYSPARK_PYTHON": sys.executable}
    with standalone(folder, workers=workers) as master:
        yield master


def _warm(roots: Sequence[Path], workers: int) -> None:
    """Print how long runs take in a Spark session that has judged another run."""
    with tempfile.TemporaryDirectory(prefix="logquake-warm-") as scratch:
        first = list(write_many(Path(scratch), 1, Shape(ops=_SMALL)))
        with _master(Path(scratch), workers) as master, spark_engine(master) as engine:
            for each in (first, roots):
                _without_tables(each)
                begun_s = stopwatch_s()
                engine.compact(each)
                verdicts = judge_batch({root: load_facts(root) for root in each}, engine)
                took_s = stopwatch_s() - begun_s
    print(f"{took_s:.2f} s: {', '.join(sorted({str(each.valid) for each in verdicts.values()}))}")


def _measure(shape: Shape, runs: int, ways: Sequence[str], store: Path) -> None:
    folder = store / f"{shape.ops}-{shape.partitions}-{runs}"
    roots = sorted((folder / "benchmark").glob("*"))
    if len(roots) < runs:
        shutil.rmtree(folder, ignore_errors=True)
        roots = list(write_many(folder, runs, shape))
    print(f"{runs} of {shape.ops:,} ops in {shape.partitions} partitions", flush=True)
    for way in ways:
        cost = _cost(way, roots)
        last = cost.said.strip().splitlines()[-1:] if way not in _ALONE or way == "warm" else []
        print(
            f"  {way:14}{cost.wall_s:9.1f} s{cost.cpu_s:9.1f} CPU s{cost.peak_mib:8,} MiB"
            f"{cost.busy:6.0%} both   load {cost.load:.1f} {' '.join(last)}",
            flush=True,
        )


def main() -> None:
    """Do the measurements that the command line selects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, nargs="+", default=[20_000, 200_000, 1_000_000])
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=_WAYS, default=list(_ALONE))
    parser.add_argument("--store", type=Path)
    parser.add_argument("--warm", type=Path, nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.warm:
        _warm(given.warm, given.workers)
        return
    with tempfile.TemporaryDirectory(prefix="logquake-benchmark-") as scratch:
        for ops in given.ops:
            shape = Shape(ops=ops, partitions=given.partitions)
            _measure(shape, given.runs, given.only, given.store or Path(scratch))


if __name__ == "__main__":
    main()
