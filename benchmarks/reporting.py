"""Measures the cost of the HTML page of a large failed run, compared with reading its tables.

A seeded record (`benchmarks/seeded.py`) with faults gets a verdict with losses in every partition.
Each broker gets a log of some hundred thousand lines. `logquake report` writes the page in a
process of its own. A second process only reads the tables of operations, as plain Arrow tables. A
third process shows the run in a terminal.

    python -m benchmarks.reporting [--ops 1000000] [--faults 1000] [--lines 300000]

The goals: the page takes less than 60 s and 2 GiB to write, and is smaller than 5 MB.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.measured import Cost, measured
from benchmarks.timeline import make_run
from checkers.run import judge_runs
from results.record.clock import NS_PER_S
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.terms import AnomalyClass, Validity
from results.record.verdict import MAX_EXAMPLES, AnomalySummary, Example
from results.verdict_json import write_verdict

GOAL_S, GOAL_MIB, GOAL_BYTES = 60, 2048, 5_000_000
_READ = (
    "import sys, pyarrow.parquet as pq; "
    "[pq.read_table(path) for path in sys.argv[1:]]"
)  # fmt: skip
_LOGQUAKE = "import sys; from harness.cli import main; sys.exit(main())"
_KINDS = ("lost-write", "inconsistent-offsets", "nonmonotonic-send", "offset-order", "poll-skip")
_STARTED = datetime(2026, 11, 21, 10, 45, tzinfo=UTC)


def plant(paths: RunPaths, *, lines: int) -> None:
    """Add a verdict with losses, and logs of brokers, to an artificial run."""
    (verdict,) = judge_runs([paths.root], engine="local")
    examples = tuple(_examples(paths))
    summary = AnomalySummary(
        anomaly_class=AnomalyClass.SAFETY, count=10_000, allowed=0, trusted=10_000,
        examples=examples,
    )  # fmt: skip
    failed = dataclasses.replace(
        verdict, valid=Validity.INVALID, anomalies=dict.fromkeys(_KINDS, summary)
    )
    write_verdict(paths, failed)
    environment = {"started_utc": f"{_STARTED:%Y%m%dT%H%M%SZ}", "cores": 2}
    paths.environment.write_text(json.dumps(environment), encoding="utf-8")
    end_s = max(each.at_ns for each in load_milestones(paths.milestones)) / NS_PER_S
    for node in ("n1", "n2", "n3"):
        _write_log(paths.node(node) / "logs" / "server.log", lines=lines, end_s=end_s)


def _examples(paths: RunPaths) -> Iterator[Example]:
    sends = pq.ParquetFile(paths.table("sends"))
    for group in range(min(MAX_EXAMPLES, sends.num_row_groups)):
        rows = sends.read_row_group(group).to_pylist()
        row = rows[len(rows) // 2]
        yield Example(
            sentence=f"value {row['value']}, acknowledged at offset {row['offset']}, is in no log",
            evidence={"value": row["value"], "offset": row["offset"], "op_id": row["op_id"],
                      "acknowledged_ns": row["complete_ns"], "leader_then": 1,
                      "replicas": [f"n{node}: nothing" for node in (1, 2, 3)]},
            topic=row["topic"], topic_id=row["topic_id"], partition=row["partition"],
            offset=row["offset"], allowed=False, trusted=True, why="",
        )  # fmt: skip


def _write_log(path: Path, *, lines: int, end_s: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            at = _STARTED + timedelta(seconds=number * end_s / lines)
            file.write(
                f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}] INFO [ReplicaFetcher"
                f" replicaId=2] Truncating partition log-0-{number % 8} with"
                f" TruncationState(offset={number}) due to leader epoch"
                " (kafka.server.ReplicaFetcherThread)\n"
            )


def main() -> None:
    """Make an artificial run, and measure the cost of its page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=1_000_000)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=300_000, help="of each broker's log")
    parser.add_argument("--keep", type=Path, help="a folder for the run, to look at its page")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="logquake-reporting-") as folder:
        root = (asked.keep or Path(folder)) / "log" / "20261121T104500Z-1"
        paths = RunPaths(root)
        if not paths.verdict.exists():
            make_run(root, ops=asked.ops, faults=asked.faults)
            plant(paths, lines=asked.lines)
        tables = [str(paths.table(name)) for name in ("ops", "sends", "polls", "replica_records")]
        read = measured([sys.executable, "-c", _READ, *tables])
        written = measured([sys.executable, "-c", _LOGQUAKE, "report", str(root)])
        shown = measured([sys.executable, "-c", _LOGQUAKE, "show", str(root)])
        size = paths.report.stat().st_size
    print(f"{asked.ops:,} ops, {asked.faults:,} faults, load {read.load:.1f} at the start")
    for what, cost in (("tables read", read), ("page written", written), ("shown", shown)):
        print(_told(what, cost, read))
    print(f"the page has {size / 1e6:.2f} MB, {size / GOAL_BYTES:.2f} of the goal")
    met = written.wall_s < GOAL_S and written.peak_mib < GOAL_MIB and size < GOAL_BYTES
    print("goals met" if met else f"goals missed: {GOAL_S} s, {GOAL_MIB} MiB, {GOAL_BYTES} bytes")


def _told(what: str, cost: Cost, beside: Cost) -> str:
    return (
        f"{what:13} {cost.wall_s:6.1f} s, {cost.cpu_s:6.1f} s of processors, {cost.peak_mib:5} MiB;"
        f" {cost.wall_s / beside.wall_s:.2f} times as long as reading the tables"
    )


if __name__ == "__main__":
    main()
