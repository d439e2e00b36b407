"""How quick the reference cluster is as processes: `python -m benchmarks.reference_processes`.

Three nodes on this machine, partitions on all of them, acks=all, a partition and a producer
(librdkafka's, idempotent) each. An operation is one send of 100 bytes that was acknowledged.
Three kinds of users:

- `one`: each producer has one send in flight, and waits for it: what a round trip costs.
- `five`: five sends in flight, each a request of its own: pipelined, nothing batched.
- `default`: as programs use librdkafka: `linger.ms` 5, sends go on while others are in flight (at
  most 1,000), requests carry what has gathered.

Beside `one` stands a limit: three processes that only move the bytes of an operation (`moving`).
All is measured as the wall's time, and as processor time of the nodes: that tells more when other
work runs on the machine, whose load is printed.

Before that: the time from the first start until all three nodes have taken a connection.

    python -m benchmarks.reference_processes [--seconds 5] [--producers 1 8] [--starts 5]
"""

import argparse
import multiprocessing
import os
import socket
import statistics
import tempfile
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from psutil import Process

from benchmarks.moving import Rate, cpu_s, moved
from results.record.clock import pause_until, stopwatch_s, wait_until
from tests.reference.node_processes import NodeProcesses

GOALS = {1: 2_000, 8: 7_000}
"""Operations a second, by producers, on two cores."""
GOAL_START_S = 1.5
TOPIC, PAYLOAD = "ops", b"x" * 100
LEAD_IN_S = 1.5
"""Not measured: connections, producer ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How producers are used.

    Attributes:
        in_flight: Most sends that a producer waits for at any moment.
        settings: librdkafka's.
    """

    in_flight: int
    settings: dict[str, str | int | bool]


USES = {
    "one": Use(in_flight=1, settings={"linger.ms": 0}),
    "five": Use(in_flight=5, settings={"linger.ms": 0, "batch.num.messages": 1}),
    "default": Use(in_flight=1000, settings={"linger.ms": 5}),
}


class Senders:
    """Producers that send all the time, each in a process of its own, as those of users are."""

    def __init__(self, bootstrap: str, count: int, use: Use) -> None:
        settings = {
            "bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True,
            "queue.buffering.backpressure.threshold": 1, "log_level": 0, **use.settings,
        }  # fmt: skip
        context = multiprocessing.get_context("spawn")
        self._done: Sequence[int] = context.Array("q", count, lock=False)
        self._processes = [
            context.Process(
                target=_send, args=(settings, use.in_flight, number, self._done), daemon=True
            )
            for number in range(count)
        ]
        for process in self._processes:
            process.start()
        wait_until(lambda: all(self._done), timeout_s=60, what="an operation of each producer")

    @property
    def done(self) -> int:
        """Operations until now, of all of them."""
        return sum(self._done)

    def stop(self) -> None:
        """End them, with what is in flight."""
        for process in self._processes:
            process.kill()
            process.join()


def _send(
    settings: dict[str, str | int | bool], in_flight: int, number: int, done: MutableSequence[int]
) -> None:
    producer, flying = Producer(settings), 0

    def note(error: KafkaError | None, _message: Message) -> None:
        nonlocal flying
        flying -= 1
        done[number] += error is None

    while True:
        while flying < in_flight:
            flying += 1
            producer.produce(TOPIC, PAYLOAD, partition=number, on_delivery=note)
        producer.poll(0.05)


@contextmanager
def running() -> Iterator[tuple[NodeProcesses, float]]:
    """Run three new nodes; give them, and the seconds until each took a connection."""
    with tempfile.TemporaryDirectory() as folder:
        nodes = NodeProcesses(Path(folder))
        try:
            began_s = stopwatch_s()
            nodes.start()
            wait_until(lambda: _all_listen(nodes), timeout_s=60, interval_s=0.005, what="listeners")
            yield nodes, stopwatch_s() - began_s
        finally:
            nodes.end()


def _all_listen(nodes: NodeProcesses) -> bool:
    with suppress(OSError):
        for port in nodes.ports.values():
            socket.create_connection(("127.0.0.1", port)).close()
        return True
    return False


def rate(nodes: NodeProcesses, producers: int, use: Use, seconds: float) -> Rate:
    """Return what so many producers get."""
    family = [Process(pid) for pid in nodes.pids]
    senders = Senders(nodes.bootstrap, producers, use)
    try:
        pause_until(stopwatch_s() + LEAD_IN_S)
        ops, began_s, before_s = senders.done, stopwatch_s(), cpu_s(family)
        pause_until(began_s + seconds)
        count, took_s = senders.done - ops, stopwatch_s() - began_s
        return Rate(ops=count / took_s, cpu_us=(cpu_s(family) - before_s) / max(count, 1) * 1e6)
    finally:
        senders.stop()


def starts(count: int) -> None:
    """Print how long three nodes take until they listen."""
    took_s, began_cpu_s = [], []
    for _ in range(count):
        with running() as (nodes, until_s):
            took_s.append(until_s)
            began_cpu_s.append(cpu_s([Process(pid) for pid in nodes.pids]))
    print(
        f"three nodes listen after {statistics.median(took_s):.2f} s (of {count} starts:"
        f" {min(took_s):.2f} to {max(took_s):.2f}; goal {GOAL_START_S} s),"
        f" {statistics.median(began_cpu_s):.2f} s of processor; load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    """Print what the module says."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--seconds", type=float, default=5)
    asked.add_argument("--producers", type=int, nargs="*", default=list(GOALS))
    asked.add_argument("--uses", choices=USES, nargs="*", default=list(USES))
    asked.add_argument("--starts", type=int, default=5)
    options = asked.parse_args()
    if options.starts:
        starts(options.starts)
    least = moved(options.seconds)
    print(f"bytes moved, one in flight: {least.words()}")
    for count in options.producers:
        with running() as (nodes, _):
            nodes.wait_live()
            nodes.create(TOPIC, count)
            for name in options.uses:
                found = rate(nodes, count, USES[name], options.seconds)
                goal = f", goal {GOALS[count]:,}" if count in GOALS else ""
                print(
                    f"{count} producers, {name}: {found.words()}{goal};"
                    f" {found.cpu_us / least.cpu_us:.1f} times the processor of moving;"
                    f" load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
