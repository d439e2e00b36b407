"""What checking costs: Spark cold and warm, the local engine, and numpy alone on the same arrays.

Run it with `python -m benchmarks.checking [SENDS [OPS]]` from the repository; the default is
1,000,000 sends in 20,000 ops. It prints seconds, and how many times as long as numpy alone: two set
lookups of the values that were sent among those in the log, the least that `lost-write` needs.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.run import judge_runs
from checkers.spark.engine import spark_engine
from checkers.stored import load_facts
from results.record.clock import stopwatch_s
from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.plan import Plan, dump_plan
from results.record.stream import StreamWriter
from results.record.tables import LIVE
from results.record.topics import CreatedTopic, dump_topics
from results.record.values import pack_value

PARTITIONS = 8
MS = 1_000_000


def write_run(root: Path, sends: int, ops: int) -> None:
    """Write a run in which every send was acknowledged, kept by three replicas, and read once."""
    paths = RunPaths(root)
    paths.live.mkdir(parents=True)
    paths.plan.write_text(dump_plan(Plan(topics=1, partitions=PARTITIONS, nemesis=())))
    dump_topics([CreatedTopic(topic="log-0", topic_id="id-0", partitions=PARTITIONS)], paths.topics)
    for at, name in enumerate(("main", "recovered", "stopped")):
        append_milestone(paths.milestones, Milestone(name=name, at_ns=at))
    each = sends // PARTITIONS
    for partition in range(PARTITIONS):
        _write_partition(paths.live, partition, each, ops // PARTITIONS)


def _write_partition(live: Path, partition: int, sends: int, ops: int) -> None:
    writer = f"worker-{partition}"
    offsets = np.arange(sends)
    values = offsets + pack_value(partition + 1, 0)
    op_ids = (partition << 32) + np.arange(ops)
    of_send = op_ids[offsets * ops // sends]
    place = {"topic": ["log-0"] * sends, "topic_id": ["id-0"] * sends,
             "partition": np.full(sends, partition)}  # fmt: skip
    rows: dict[str, dict[str, Any]] = {
        "op_invocations": {"op_id": op_ids, "process": np.full(ops, partition), "f": ["send"] * ops,
                           "phase": ["main"] * ops, "invoke_ns": np.arange(ops) * 2 * MS},
        "op_completions": {"op_id": op_ids, "complete_ns": (np.arange(ops) * 2 + 1) * MS,
                           "outcome": ["ok"] * ops},
        "send_invocations": {"op_id": of_send, "mop": offsets % max(1, sends // ops), **place,
                             "value": values, "acks": ["all"] * sends},
        "send_completions": {"op_id": of_send, "mop": offsets % max(1, sends // ops),
                             "offset": offsets, "outcome": ["ok"] * sends, "acked": [True] * sends},
        "polled": {"op_id": np.full(sends, op_ids[-1]), "pos": offsets, **place, "offset": offsets,
                   "value": values, "isolation": ["read_uncommitted"] * sends},
        "final_reads": {"topic": ["log-0"], "topic_id": ["id-0"], "partition": [partition],
                        "isolation": ["read_uncommitted"], "target_end": [sends],
                        "reached": [sends], "complete": [True]},
        "leadership": {"topic": ["log-0"], "topic_id": ["id-0"], "partition": [partition],
                       "observed_ns": [1], "source": ["list-offsets"], "leader": [1],
                       "leader_epoch": [0]},
    }  # fmt: skip
    for table, columns in rows.items():
        _write(live, table, writer, columns)
    for node in ("n1", "n2", "n3"):
        kept: dict[str, Any] = {
            **place, "snapshot": ["final"] * sends, "node": [node] * sends, "offset": offsets,
            "leader_epoch": np.zeros(sends, int), "value": values, "record_hash": values,
        }  # fmt: skip
        _write(live, "replica_records", f"{node}-{partition}", kept)


def _write(live: Path, table: str, writer: str, columns: dict[str, Sequence[object]]) -> None:
    stream = StreamWriter(live, table, writer)
    length = len(next(iter(columns.values())))
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(length, field.type)
        for field in LIVE[table]
    ]
    stream.append_batch(pa.RecordBatch.from_arrays(arrays, schema=LIVE[table]))
    stream.close()


def timed(name: str, work: Callable[[], object], least_s: float) -> float:
    """Print how long some work takes, and how many times the least."""
    begun_s = stopwatch_s()
    work()
    took_s = stopwatch_s() - begun_s
    print(f"{name:32} {took_s:8.2f} s   {took_s / (least_s or took_s):8.1f}")
    return took_s


def numpy_alone(sends: int) -> None:
    """Look the values up as `lost-write` must, and nothing else."""
    values = np.arange(sends // PARTITIONS)
    for _ in range(PARTITIONS):
        np.isin(values, values[::-1])
        np.isin(values, pa.array(values).to_numpy())


def main() -> None:
    """Write a run, and judge it in each way."""
    arguments = [int(each) for each in sys.argv[1:]]
    sends, ops = (arguments + [1_000_000, 20_000][len(arguments) :])[:2]
    with tempfile.TemporaryDirectory(prefix="logquake-benchmark-") as scratch:
        root = Path(scratch) / "benchmark" / "run"
        write_run(root, sends, ops)
        least_s = timed("numpy alone", lambda: numpy_alone(sends), 0)

        def judged(engine: str, *, reingest: bool) -> object:
            return judge_runs([root], engine=engine, reingest=reingest)

        timed("local, with ingest", lambda: judged("local", reingest=True), least_s)
        timed("local, stored", lambda: judged("local", reingest=False), least_s)
        timed("spark, cold, with ingest", lambda: judged("spark", reingest=True), least_s)
        with spark_engine(None) as engine:
            facts = {root: load_facts(root)}
            timed("spark, first job of a session", lambda: list(engine.examine(facts)), least_s)
            timed("spark, warm", lambda: list(engine.examine(facts)), least_s)


if __name__ == "__main__":
    main()
