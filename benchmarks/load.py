"""What heavy load carries: recorded messages a second, beside Kafka's own producer-perf-test.

Both send to the same idle cluster of three nodes, twelve partitions on all of them, with acks=all
and idempotent producers, for each size of payload in turn: first `ProducerPerformance` of the Kafka
that is under test, one process, without readers; then the harness's workers with `load = "heavy"`,
whose readers follow. They take turns on fresh topics; the ratio is the median over the pairs.

Both have the same linger, and the same batches: the tool's `batch.size` is what one op of ours
sends. With `--full-batches` it is librdkafka's default, a megabyte.

Ours are messages that were acknowledged, and recorded, within the window. The tool's are those that
it reports as sent, second by second, in a window of the same length. The first seconds of either
are not measured: connections, and Java's compiler.

At the end a whole run of the same length for each size of payload is recorded and judged: its
verdict, and how large its record is beside its tables.

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
"""So many times its tables a record may be."""
LEAD_IN_S = 5
"""Not measured of the tool."""
FULL_BATCH_BYTES = 1_000_000
_OVERHEAD_BYTES = 30
"""Of a message in its batch: lengths, offset, time stamp, and the harness's key."""
_TOOL = "org.apache.kafka.tools.ProducerPerformance"
_LINE = re.compile(r"^\d+ records sent, ([0-9.]+) records/sec")
_ENOUGH = 1 << 40
"""Records: the tool is ended by its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the record of a run is, in bytes."""

    record: int
    tables: int

    @property
    def times(self) -> float:
        """How many times its tables it is."""
        return self.record / max(1, self.tables)


def plan_of(payload_bytes: int, *, seconds: float = 60, seed: int = 1) -> Plan:
    """Return the plan of both: three nodes, one topic of twelve partitions."""
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
    """Return how many messages a second the tool sends, once it has run warm."""
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
    """Start the tool; give the lines that it prints, and end it."""
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
    """Measure the tool, then the harness, on fresh topics each."""
    fresh_topics(plan, bootstrap, plan.replication)
    tool = tool_rate(tool_argv(plan, bootstrap, batch_bytes=batch_bytes), seconds=seconds)
    topics = fresh_topics(plan, bootstrap, plan.replication)
    pause_until(stopwatch_s() + LEAD_IN_S)  # For brokers to delete what the tool sent.
    ours = harness_rate(plan, bootstrap, topics, seconds=seconds, paths=RunPaths(scratch))
    shutil.rmtree(scratch)
    return tool, ours


def size_of(paths: RunPaths) -> Size:
    """Return how large a record is, and its tables alone."""
    files = [path for path in paths.record.rglob("*") if path.is_file()]
    tables = [path for path in files if path.suffix == ".parquet"]
    sums = [sum(path.stat().st_size for path in each) for each in (files, tables)]
    return Size(record=sums[0], tables=sums[1])


def judged(plan: Plan, store: Path) -> tuple[Verdict, Size]:
    """Have a whole run recorded and judged."""
    verdict = run(plan, store=store, output=sys.stdout)
    return verdict, size_of(RunPaths(store / verdict.run_id))


def main() -> None:
    """Take the turns; print each pair, the ratios, and what became of the whole runs."""
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
