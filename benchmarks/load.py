"""Measures messages per second under heavy load, compared with Kafka's producer-perf-test.

Both send to the same idle cluster: three nodes, with twelve partitions on all of them. Both use
acks=all and idempotent producers. For each payload size, two programs take turns on fresh topics:

1. `ProducerPerformance` of the Kafka under test: one process, without readers.
2. Logquake's workers with `load = "heavy"`, whose readers also read the messages.

The result is the median of the ratio over the pairs.

Both have the same linger and the same batch size. The tool's `batch.size` is the size of one op of
the workers. With `--full-batches` it is librdkafka's default, a megabyte.

For Logquake, the benchmark counts the messages that were acknowledged and recorded within the
window. For the tool, it counts the messages that the tool reports as sent, in a window of the same
length. The first seconds of both are left out, because of new connections and Java's compiler.

After the pairs, the benchmark records and judges a whole run of the same length for each payload
size. The benchmark prints the verdict, and the size of the record relative to its tables.

    python -m benchmarks.load [--pairs 3] [--seconds 30] [--payloads 100,1000]
"""

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.recording import Rate, brokers, fresh_topics, harness_rate
from cluster.java import find_java
from cluster.kafka.storage import java_argv
from cluster.systems.kafka import distribution_of
from logquake import Verdict, run
from results.record.clock import pause_until, stopwatch_s
from results.record.loads import Load
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from

TARGET = 0.5
MOST_TIMES = 3.0
"""The highest allowed ratio of a record's size to the size of its tables."""
LEAD_IN_S = 5
"""Seconds at the tool's start that are not measured."""
FULL_BATCH_BYTES = 1_000_000
_OVERHEAD_BYTES = 30
"""Bytes that a message needs beyond its payload: lengths, offset, timestamp, and Logquake's key."""
_TOOL = "org.apache.kafka.tools.ProducerPerformance"
_LINE = re.compile(r"^\d+ records sent, ([0-9.]+) records/sec")
_ENOUGH = 1 << 40
"""A number of records that the tool never reaches. The benchmark stops the tool by time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes in bytes of a run's record, and of its tables."""

    record: int
    tables: int

    @property
    def times(self) -> float:
        """Return the ratio of the record's size to the size of its tables."""
        return self.record / max(1, self.tables)


def plan_of(payload_bytes: int, *, seconds: float = 60, seed: int = 1) -> Plan:
    """Return the plan for both programs: three nodes, and one topic of twelve partitions."""
    return plan_from({
        "load": Load.HEAVY.value, "payload_bytes": payload_bytes, "topics": 1, "partitions": 12,
        "nemesis": "", "time_limit_s": seconds, "hosts": "process", "seed": seed,
        "name": f"load-{payload_bytes}",
    })  # fmt: skip


def tool_argv(plan: Plan, bootstrap: str, *, batch_bytes: int) -> list[str]:
    """Return the command line of Kafka's own tool."""
    distribution = distribution_of(plan, lambda _sentence: None)
    together = replace(distribution, classpath=distribution.classpath + distribution.tools)
    return java_argv(
        find_java(),
        together,
        _TOOL,
        "--bootstrap-server", bootstrap,
        "--topic", plan.topic_names[0],
        "--num-records", str(_ENOUGH),
        "--record-size", str(plan.payload_bytes),
        "--throughput", "-1",
        "--reporting-interval", "1000",
        "--command-property", f"acks={plan.acks}", f"linger.ms={round(plan.linger_ms)}",
        f"batch.size={batch_bytes}", "enable.idempotence=true", "compression.type=none",
    )  # fmt: skip


def tool_rate(argv: list[str], *, seconds: float) -> float:
    """Return the messages a second that the tool sends after its first seconds."""
    deadline_s = stopwatch_s() + LEAD_IN_S + seconds + 30
    rates: list[float] = []
    with _started(argv) as lines:
        for line in lines:
            if (found := _LINE.match(line)) is not None:
                rates.append(float(found[1]))
            if len(rates) >= LEAD_IN_S + seconds or stopwatch_s() > deadline_s:
                break
    measured = rates[LEAD_IN_S:]
    if not measured:
        raise RuntimeError(f"{_TOOL} sent nothing for {LEAD_IN_S} s")
    return statistics.mean(measured)


@contextmanager
def _started(argv: list[str]) -> Iterator[Iterator[str]]:
    """Start the tool, yield the lines that it prints, and end it."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None, "it was asked for"
    try:
        yield iter(process.stdout)
    finally:
        process.kill()
        process.wait()


def pair(
    plan: Plan, bootstrap: str, *, seconds: float, batch_bytes: int, scratch: Path
) -> tuple[float, Rate]:
    """Measure the tool, and then Logquake's workers, each on a fresh topic."""
    fresh_topics(plan, bootstrap, plan.replication)
    tool = tool_rate(tool_argv(plan, bootstrap, batch_bytes=batch_bytes), seconds=seconds)
    topics = fresh_topics(plan, bootstrap, plan.replication)
    pause_until(stopwatch_s() + LEAD_IN_S)  # During this time, brokers delete the tool's messages.
    ours = harness_rate(plan, bootstrap, topics, seconds=seconds, paths=RunPaths(scratch))
    shutil.rmtree(scratch)
    return tool, ours


def size_of(paths: RunPaths) -> Size:
    """Return the size of a run's record, and the size of its tables alone."""
    files = [path for path in paths.record.rglob("*") if path.is_file()]
    tables = [path for path in files if path.suffix == ".parquet"]
    sums = [sum(path.stat().st_size for path in each) for each in (files, tables)]
    return Size(record=sums[0], tables=sums[1])


def judged(plan: Plan, store: Path) -> tuple[Verdict, Size]:
    """Record and judge a whole run."""
    verdict = run(plan, store=store, output=sys.stdout)
    return verdict, size_of(RunPaths(store / verdict.run_id))


def main() -> None:
    """Run the pairs. Print each pair, the ratios, and the results of the whole runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--payloads", default="100,1000", help="bytes, with commas")
    parser.add_argument("--full-batches", action="store_true", help="of the tool: a megabyte")
    parser.add_argument("--no-runs", action="store_true", help="measure pairs only")
    asked = parser.parse_args()
    sizes = [int(each) for each in asked.payloads.split(",")]
    ratios: dict[int, list[float]] = {size: [] for size in sizes}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        with brokers(plan_of(sizes[0]), None, scratch) as bootstrap:
            for number in range(asked.pairs):
                for size in sizes:
                    plan = plan_of(size)
                    batch = plan.sends_per_op * (size + _OVERHEAD_BYTES)
                    tool, ours = pair(
                        plan,
                        bootstrap,
                        seconds=asked.seconds,
                        batch_bytes=FULL_BATCH_BYTES if asked.full_batches else batch,
                        scratch=scratch / "pair" / str(number),
                    )
                    ratios[size].append(ours.acknowledged / tool)
                    print(
                        f"pair {number + 1}, {size} bytes: tool {tool:,.0f}/s, ours"
                        f" {ours.words()}, ratio {ratios[size][-1]:.2f}",
                        flush=True,
                    )
        for size in sizes:
            print(f"{size} bytes: ratio {statistics.median(ratios[size]):.2f} (target {TARGET})")
        for size in () if asked.no_runs else sizes:
            verdict, held = judged(plan_of(size, seconds=asked.seconds), scratch / "store")
            print(
                f"{size} bytes: {verdict.valid}; the record has {held.record:,} bytes,"
                f" {held.times:.2f} times its tables (at most {MOST_TIMES})",
                flush=True,
            )


if __name__ == "__main__":
    main()
