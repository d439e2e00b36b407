"""Measures the speed of the index of a large store: `python -m benchmarks.index [RUNS]`.

The benchmark makes artificial runs in a temporary folder. Each run has a plan, a verdict with ten
examples, milestones, and thirty more files. So sizes and times are as in real stores.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from results.index import RunQuery, open_index
from results.record.clock import stopwatch_s
from results.samples import find_sample
from results.store import Store

_RUNS = 1000


def main() -> None:
    """Print a line for each measurement."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else _RUNS
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        _fill(store.root, runs)
        with open_index(store) as index:
            _measure(f"{runs} new runs", index.refresh)
            _measure("nothing new", index.refresh)
            newest = index.runs()[0].run_id
            (store.root / newest / "verdict.json").touch()
            _measure("one changed", index.refresh)
            _measure("a page of a filter", lambda: index.runs(RunQuery(anomaly="lost-write")))
            _measure("all signatures", index.signatures)


def _fill(root: Path, runs: int) -> None:
    sample = find_sample("loss-acks-1")
    for number in range(runs):
        run = (
            root / "log" / f"20261122T{number // 3600:02}{number // 60 % 60:02}{number % 60:02}Z-1"
        )
        (run / "nodes").mkdir(parents=True)
        for name in ("plan.toml", "verdict.json", "milestones.jsonl"):
            shutil.copyfile(sample / name, run / name)
        for file in range(30):
            (run / "nodes" / f"server-{file}.log").write_bytes(b"line\n")


def _measure(what: str, work: Callable[[], object]) -> None:
    begun_s = stopwatch_s()
    work()
    print(f"{what}: {(stopwatch_s() - begun_s) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
