"""Measures the cost of recording: messages per second of Logquake's clients, and of a plain loop.

Both run at full speed on the cluster of a default run: three nodes with each partition on all of
them. `--nodes 1` uses one broker. This is the worst case for the clients, because hardly any other
process then uses the CPU. Both have the same number of operating system processes, logical
processes, consumers and messages per op, and the same librdkafka settings. Half of the ops are
polls of at most 2000 messages. The other half are `--sends-per-op` sends to one partition. Both let
Python's cyclic collector run rarely (`workloads.worker.collect_seldom`).

For each message, the plain loop makes a payload with a unique number. Its delivery callback counts
reports. It reads error, partition, offset and value of each polled message in a `for` loop. With
`--bare` it sends one constant payload and ignores the polled messages. That is less work than in
any real client of Kafka.

Logquake's workers make unique values, reserve them on disk, and compare each report with its value.
They record every op, send, report and polled record (with its leader epoch) on disk.

The two take turns on fresh topics. The result is the median of the ratio over the rounds. The
messages are the acknowledged and the polled messages within the measured window. CPU time is that
of the client processes: all threads, user and system, without the brokers. CPU time is more
reliable than the rate when other work runs on the machine.

    python -m benchmarks.recording [--nodes 3] [--rounds 5] [--seconds 8] [--bare]
"""

import argparse
import multiprocessing
import shutil
import statistics
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from psutil import Process

from cluster.hosts.process import ProcessHosts
from cluster.systems.registry import system_of
from results.record.clock import NS_PER_S, RunClock, pause_until, stopwatch_s, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.stream import read_stream, table_of
from results.record.terms import Phase
from results.record.topics import CreatedTopic
from results.record.values import VALUE_BYTES
from workloads.assigning import Assigner
from workloads.clients.settings import consumer_settings, producer_settings
from workloads.fleet import Fleet
from workloads.log import POLL_LIMIT, SEND_SHARE
from workloads.worker import collect_seldom

TARGET = 0.80
LEAD_IN_S = 2.0
"""Seconds at the start that are not measured, because of new connections and first assignments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Messages a second, and CPU seconds for each second, summed over all workers."""

    acknowledged: float
    polled: float
    cpu: float

    @property
    def messages(self) -> float:
        """Return the acknowledged and polled messages a second together."""
        return self.acknowledged + self.polled

    @property
    def cpu_us(self) -> float:
        """Return CPU microseconds for each message (or seconds for each million messages)."""
        return self.cpu / self.messages * 1e6

    def words(self) -> str:
        """Return the rate as text for people."""
        return (
            f"{self.messages:,.0f}/s ({self.acknowledged:,.0f} sent, {self.polled:,.0f} polled,"
            f" {self.cpu_us:.2f} us of CPU each)"
        )


class PlainLoop:
    """A client loop that does the same ops as a worker, without recording."""

    def __init__(self, plan: Plan, bootstrap: str, *, worker: int, bare: bool) -> None:
        self.acknowledged = self.polled = 0
        self._bare = bare
        self._number = worker << 40
        self._padding = bytes(plan.payload_bytes - VALUE_BYTES)
        self._positions: dict[int | None, int | None] = {}
        self._last: bytes | None = None
        self._plan = plan
        self._random = Random(f"{plan.seed}/plain/{worker}")
        self._payload = bytes(plan.payload_bytes)
        self._producer = Producer(producer_settings(plan, bootstrap=bootstrap, worker=worker))
        assigner = Assigner(plan, self._random)
        self._free: deque[Consumer] = deque()
        for thread in range(worker, plan.concurrency, plan.workers):
            settings = consumer_settings(plan, bootstrap=bootstrap, client_id=f"plain-{thread}")
            consumer = Consumer(settings)
            keys = list(assigner.share_of(thread))
            keys += [
                key for key in self._random.sample(plan.topic_partitions, 2) if key not in keys
            ]
            consumer.assign([Partition(*key, OFFSET_BEGINNING) for key in keys])
            self._free.append(consumer)

    def work(self, seconds: float) -> None:
        """Run for some seconds. The counters continue from their values before the call."""
        deadline_s = stopwatch_s() + seconds
        while stopwatch_s() < deadline_s:
            busy = False
            for _ in range(len(self._free)):
                busy = self._op() or busy
            self._producer.poll(0 if busy and self._free else 0.002)

    def _op(self) -> bool:
        consumer = self._free.popleft()
        if self._random.random() >= SEND_SHARE:
            messages = consumer.consume(POLL_LIMIT, 0)
            if not self._bare:
                self._look_at(messages)
            self.polled += len(messages)
            self._free.append(consumer)
            return len(messages) > 0
        topic, partition = self._random.choice(self._plan.topic_partitions)
        left = self._plan.sends_per_op

        def report(error: KafkaError | None, _message: Message) -> None:
            nonlocal left
            left -= 1
            if error is None:
                self.acknowledged += 1
            if left == 0:
                self._free.append(consumer)

        if self._bare:
            for _ in range(self._plan.sends_per_op):
                self._producer.produce(topic, self._payload, None, partition, report)
            return True
        padding, first = self._padding, self._number
        self._number += self._plan.sends_per_op
        for number in range(first, self._number):
            payload = number.to_bytes(VALUE_BYTES, "big") + padding
            self._producer.produce(topic, payload, None, partition, report)
        return True

    def _look_at(self, messages: Sequence[Message]) -> None:
        """Read the fields of a polled message that any client reads."""
        positions = self._positions
        for message in messages:
            if message.error() is None:
                positions[message.partition()] = message.offset()
                self._last = message.value()


Answer = tuple[float, float, float]
"""Acknowledged messages, polled messages, and CPU seconds, each for one second."""


def plain_process(loop: PlainLoop, seconds: float, answers: "Queue[Answer]") -> None:
    """Run one plain worker, and put its rates in the measured window on a queue."""
    collect_seldom()
    loop.work(LEAD_IN_S)
    before = (loop.acknowledged, loop.polled, cpu_s(Process()), stopwatch_s())
    loop.work(seconds)
    after = (loop.acknowledged, loop.polled, cpu_s(Process()), stopwatch_s())
    *sums, took_s = (later - earlier for earlier, later in zip(before, after, strict=True))
    acknowledged, polled, cpu = (each / took_s for each in sums)
    answers.put((acknowledged, polled, cpu))


def start_plain(
    plan: Plan,
    bootstrap: str,
    worker: int,
    *,
    bare: bool,
    seconds: float,
    answers: "Queue[Answer]",
) -> None:
    """Create a plain worker in its own process, and run it."""
    plain_process(PlainLoop(plan, bootstrap, worker=worker, bare=bare), seconds, answers)


def cpu_s(process: Process) -> float:
    """Return the CPU seconds of a process so far, without its children."""
    times = process.cpu_times()
    return float(times.user + times.system)


def plain_rate(plan: Plan, bootstrap: str, *, seconds: float, bare: bool) -> Rate:
    """Measure the plain loop."""
    context = multiprocessing.get_context("spawn")
    answers: Queue[Answer] = context.Queue()
    processes = [
        context.Process(
            target=start_plain,
            args=(plan, bootstrap, worker),
            kwargs={"bare": bare, "seconds": seconds, "answers": answers},
        )
        for worker in range(plan.workers)
    ]
    for process in processes:
        process.start()
    counts = [answers.get(timeout=seconds + 60) for _ in processes]
    for process in processes:
        # Exit at once: a normal exit would wait for messages in flight.
        process.kill()
        process.join()
    sums = [sum(column) for column in zip(*counts, strict=True)]
    return Rate(acknowledged=sums[0], polled=sums[1], cpu=sums[2])


def harness_rate(
    plan: Plan, bootstrap: str, topics: Sequence[CreatedTopic], *, seconds: float, paths: RunPaths
) -> Rate:
    """Measure Logquake's workers from their own record."""
    clock = RunClock.starting_now()
    fleet = Fleet(plan, topics, bootstrap, clock=clock, paths=paths)
    others = set(Process().children())
    fleet.start()
    workers = set(Process().children()) - others
    fleet.phase(Phase.MAIN)
    pause_until(stopwatch_s() + LEAD_IN_S)
    from_ns, from_cpu_s = clock.now_ns(), sum(map(cpu_s, workers))
    pause_until(stopwatch_s() + seconds)
    until_ns, until_cpu_s = clock.now_ns(), sum(map(cpu_s, workers))
    if troubles := fleet.stop(15):
        raise RuntimeError("; ".join(troubles))
    ends = _live(paths.live, "op_completions")
    ends_ns = ends["complete_ns"].to_numpy()
    inside = ends["op_id"].to_numpy()[(ends_ns >= from_ns) & (ends_ns < until_ns)]
    sent, polled = _live(paths.live, "send_completions"), _live(paths.live, "polled")
    acknowledged = np.isin(sent["op_id"].to_numpy(), inside) & sent["acked"].to_numpy()
    measured_s = (until_ns - from_ns) / NS_PER_S
    return Rate(
        acknowledged=int(acknowledged.sum()) / measured_s,
        polled=int(np.isin(polled["op_id"].to_numpy(), inside).sum()) / measured_s,
        cpu=(until_cpu_s - from_cpu_s) / measured_s,
    )


def _live(folder: Path, table: str) -> pa.Table:
    paths = [path for path in folder.iterdir() if table_of(path) == table]
    return pa.Table.from_batches([batch for path in paths for batch in read_stream(path)])


def fresh_topics(plan: Plan, bootstrap: str, replication: int) -> list[CreatedTopic]:
    """Delete the plan's topics, and create them empty."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = set(plan.topic_names)
    present = names & set(admin.list_topics(timeout=10).topics)
    for deleted in admin.delete_topics(sorted(present)).values() if present else ():
        deleted.result()
    wait_until(
        lambda: not names & set(admin.list_topics(timeout=10).topics),
        timeout_s=30,
        what="the topics to be gone",
    )
    wanted = [NewTopic(name, plan.partitions, replication) for name in plan.topic_names]
    for created in admin.create_topics(wanted).values():
        created.result()
    pause_until(stopwatch_s() + 1.0)
    return [
        CreatedTopic(topic=name, topic_id="benchmark", partitions=plan.partitions)
        for name in plan.topic_names
    ]


@contextmanager
def brokers(plan: Plan, bootstrap: str | None, scratch: Path) -> Iterator[str]:
    """Yield the bootstrap servers: the user's, or those of new brokers on this machine."""
    if bootstrap is not None:
        yield bootstrap
        return
    paths = RunPaths(scratch / "brokers" / "run")
    paths.root.mkdir(parents=True)
    nodes = [f"n{number}" for number in range(1, plan.nodes + 1)]
    hosts = ProcessHosts(nodes, paths.processes)
    hosts.up()
    try:
        system = system_of(plan)
        system.prepare(print)
        cluster = system.cluster(hosts, paths)
        cluster.start()
        yield cluster.bootstrap()
        cluster.close()
    finally:
        hosts.down()


def main() -> None:
    """Run the rounds, and print each round and the median ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bootstrap", help="brokers to use (default: start some)")
    parser.add_argument("--nodes", type=int, default=3, help="and replicas of each partition")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--sends-per-op", type=int, default=1000)
    parser.add_argument(
        "--bare", action="store_true", help="with a plain loop that looks at nothing"
    )
    asked = parser.parse_args()
    plan = Plan(
        nodes=asked.nodes,
        replication=asked.nodes,
        min_insync=min(2, asked.nodes),
        rate=0,
        sends_per_op=asked.sends_per_op,
    )
    ratios, cpu_ratios = [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        brokers(plan, asked.bootstrap, Path(folder)) as bootstrap,
    ):
        for number in range(asked.rounds):
            fresh_topics(plan, bootstrap, plan.replication)
            plain = plain_rate(plan, bootstrap, seconds=asked.seconds, bare=asked.bare)
            topics = fresh_topics(plan, bootstrap, plan.replication)
            paths = RunPaths(Path(folder) / "round" / str(number))
            recorded = harness_rate(plan, bootstrap, topics, seconds=asked.seconds, paths=paths)
            # Delete a gigabyte, because its writes to disk would slow down the next round.
            shutil.rmtree(paths.root)
            ratios.append(recorded.messages / plain.messages)
            cpu_ratios.append(plain.cpu_us / recorded.cpu_us)
            print(
                f"round {number + 1}: plain {plain.words()}, recorded {recorded.words()},"
                f" ratio {ratios[-1]:.2f}, by CPU {cpu_ratios[-1]:.2f}",
                flush=True,
            )
    median = statistics.median(ratios)
    by_cpu = statistics.median(cpu_ratios)
    print(f"median ratio {median:.2f} (target {TARGET:.2f}), by CPU {by_cpu:.2f}")


if __name__ == "__main__":
    main()
