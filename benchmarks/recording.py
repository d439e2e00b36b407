"""What recording costs: messages a second of the harness's clients beside a plain loop's.

Both run at saturation on one broker, with as many operating system processes, logical processes,
consumers and messages an op, and with the same librdkafka settings. The plain loop sends one
constant payload, counts acknowledgements in its delivery callback, and throws away what it polls;
the harness's workers make unique values, reserve them, and record every op, send and polled record.
They take turns on fresh topics; the ratio is the median over the rounds. Messages are those
acknowledged and those polled within the measured window.

    python -m benchmarks.recording [--bootstrap HOST:PORT] [--rounds 5] [--seconds 8]
"""

import argparse
import multiprocessing
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

from cluster.hosts.process import ProcessHosts
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.fetch import fetch_kafka
from cluster.kafka.java import find_java
from results.record.clock import NS_PER_S, RunClock, pause_until, stopwatch_s, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.stream import read_stream, table_of
from results.record.terms import Phase
from results.record.topics import CreatedTopic
from workloads.clients.settings import consumer_settings, producer_settings
from workloads.fleet import Fleet
from workloads.log import POLL_LIMIT, SEND_SHARE, LogGenerator

TARGET = 0.80
LEAD_IN_S = 2.0
"""Not measured: connections, first assignments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Messages a second, all workers together."""

    acknowledged: float
    polled: float

    @property
    def messages(self) -> float:
        """Both kinds."""
        return self.acknowledged + self.polled

    def words(self) -> str:
        """For people."""
        return f"{self.messages:,.0f} ({self.acknowledged:,.0f} sent, {self.polled:,.0f} polled)"


class PlainLoop:
    """The same ops as a worker's, unrecorded."""

    def __init__(self, plan: Plan, bootstrap: str, worker: int) -> None:
        self.acknowledged = self.polled = 0
        self._plan = plan
        self._random = Random(f"{plan.seed}/plain/{worker}")
        self._payload = bytes(plan.payload_bytes)
        self._producer = Producer(producer_settings(plan, bootstrap=bootstrap, worker=worker))
        generator = LogGenerator(plan, worker=worker, workers=plan.workers)
        self._free: deque[Consumer] = deque()
        for thread in range(worker, plan.concurrency, plan.workers):
            settings = consumer_settings(plan, bootstrap=bootstrap, client_id=f"plain-{thread}")
            consumer = Consumer(settings)
            keys = list(generator.share_of(thread))
            keys += [
                key for key in self._random.sample(plan.topic_partitions, 2) if key not in keys
            ]
            consumer.assign([Partition(*key, OFFSET_BEGINNING) for key in keys])
            self._free.append(consumer)

    def work(self, seconds: float) -> None:
        """Run for a while; the counters go on."""
        deadline_s = stopwatch_s() + seconds
        while stopwatch_s() < deadline_s:
            busy = False
            for _ in range(len(self._free)):
                busy = self._op() or busy
            self._producer.poll(0 if busy and self._free else 0.002)

    def _op(self) -> bool:
        consumer = self._free.popleft()
        if self._random.random() >= SEND_SHARE:
            count = len(consumer.consume(POLL_LIMIT, 0))
            self.polled += count
            self._free.append(consumer)
            return count > 0
        topic, partition = self._random.choice(self._plan.topic_partitions)
        left = self._plan.sends_per_op

        def report(error: KafkaError | None, _message: Message) -> None:
            nonlocal left
            left -= 1
            if error is None:
                self.acknowledged += 1
            if left == 0:
                self._free.append(consumer)

        for _ in range(self._plan.sends_per_op):
            self._producer.produce(topic, self._payload, None, partition, report)
        return True


def plain_process(
    plan: Plan, bootstrap: str, worker: int, *, seconds: float, answers: "Queue[tuple[int, int]]"
) -> None:
    """Run one plain worker; answer what it counted in the measured window."""
    loop = PlainLoop(plan, bootstrap, worker)
    loop.work(LEAD_IN_S)
    before = (loop.acknowledged, loop.polled)
    loop.work(seconds)
    answers.put((loop.acknowledged - before[0], loop.polled - before[1]))


def plain_rate(plan: Plan, bootstrap: str, seconds: float) -> Rate:
    """Measure the plain loop."""
    context = multiprocessing.get_context("spawn")
    answers: Queue[tuple[int, int]] = context.Queue()
    processes = [
        context.Process(
            target=plain_process,
            args=(plan, bootstrap, worker),
            kwargs={"seconds": seconds, "answers": answers},
        )
        for worker in range(plan.workers)
    ]
    for process in processes:
        process.start()
    counts = [answers.get(timeout=seconds + 60) for _ in processes]
    for process in processes:
        # What is in flight is of no interest, and leaving would wait for it.
        process.kill()
        process.join()
    sums = [sum(column) for column in zip(*counts, strict=True)]
    return Rate(acknowledged=sums[0] / seconds, polled=sums[1] / seconds)


def harness_rate(
    plan: Plan, bootstrap: str, topics: Sequence[CreatedTopic], *, seconds: float, paths: RunPaths
) -> Rate:
    """Measure the harness's workers by their own record."""
    clock = RunClock.starting_now()
    fleet = Fleet(plan, topics, bootstrap, clock=clock, paths=paths)
    fleet.start()
    fleet.phase(Phase.MAIN)
    pause_until(stopwatch_s() + LEAD_IN_S)
    from_ns = clock.now_ns()
    pause_until(stopwatch_s() + seconds)
    until_ns = clock.now_ns()
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
def broker(bootstrap: str | None, scratch: Path) -> Iterator[str]:
    """Give the broker to use: the user's, or one of our own on the loopback."""
    if bootstrap is not None:
        yield bootstrap
        return
    plan = Plan(nodes=1, replication=1, min_insync=1)
    paths = RunPaths(scratch / "broker" / "run")
    paths.root.mkdir(parents=True)
    hosts = ProcessHosts(["n1"], paths.processes)
    hosts.up()
    try:
        distribution = fetch_kafka(plan.kafka_version, progress=print)
        cluster = KafkaCluster(
            plan, hosts, distribution=distribution, java=find_java(), paths=paths
        )
        cluster.start()
        yield cluster.bootstrap()
        cluster.close()
    finally:
        hosts.down()


def main() -> None:
    """Take the turns, and print each round and the median ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bootstrap", help="brokers to use (default: start one)")
    parser.add_argument("--replication", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--sends-per-op", type=int, default=1000)
    asked = parser.parse_args()
    plan = Plan(nodes=1, replication=1, min_insync=1, rate=0, sends_per_op=asked.sends_per_op)
    ratios = []
    with (
        tempfile.TemporaryDirectory() as folder,
        broker(asked.bootstrap, Path(folder)) as bootstrap,
    ):
        for number in range(asked.rounds):
            fresh_topics(plan, bootstrap, asked.replication)
            plain = plain_rate(plan, bootstrap, asked.seconds)
            topics = fresh_topics(plan, bootstrap, asked.replication)
            paths = RunPaths(Path(folder) / "round" / str(number))
            recorded = harness_rate(plan, bootstrap, topics, seconds=asked.seconds, paths=paths)
            ratios.append(recorded.messages / plain.messages)
            print(
                f"round {number + 1}: plain {plain.words()}, recorded {recorded.words()},"
                f" ratio {ratios[-1]:.2f}"
            )
    median = statistics.median(ratios)
    print(f"median ratio {median:.2f} (target {TARGET:.2f})")


if __name__ == "__main__":
    main()
