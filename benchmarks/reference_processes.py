"""Measures the speed of the reference cluster, `python -m benchmarks.reference_processes`.

The cluster runs as processes. It has three nodes on this machine, with partitions on all of them
and acks=all. Each producer is an idempotent librdkafka producer with a partition of its own. An
operation is one acknowledged send of 100 bytes. There are three kinds of use:

- `one`: each producer has one send in flight, and waits for it. This is the cost of a round trip.
- `five`: five sends are in flight, each as a request of its own, without batches.
- `default`: librdkafka's usual way with `linger.ms` 5. Sends continue while others are in flight
  (at most 1,000), and each request carries the messages collected so far.

Beside `one`, the program prints a limit: three processes that only move the bytes of an operation
(`moving`). All figures are in wall-clock time, and in CPU time of the nodes. CPU time is more
reliable when other work runs on the machine. The load of the machine is printed, too.

Before these figures, the program measures the time from the first start until all three nodes have
accepted a connection.

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
"""The goals in operations per second on two cores, for each number of producers."""
GOAL_START_S = 1.5
TOPIC, PAYLOAD = "ops", b"x" * 100
LEAD_IN_S = 1.5
"""Seconds at the start that are not measured, because of new connections and producer ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A way of using producers.

    Attributes:
        in_flight: The highest number of sends in flight for each producer.
        settings: Settings of librdkafka.
    """

    in_flight: int
    settings: dict[str, str | int | bool]


USES = {
    "one": Use(in_flight=1, settings={"linger.ms": 0}),
    "five": Use(in_flight=5, settings={"linger.ms": 0, "batch.num.messages": 1}),
    "default": Use(in_flight=1000, settings={"linger.ms": 5}),
}


class Senders:
    """Producers that send all the time, each in a process of its own, as in real use."""

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
        """Return the number of operations of all producers so far."""
        return sum(self._done)

    def stop(self) -> None:
        """Kill the producers, with all sends in flight."""
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
    """Start three new nodes, and yield them with the seconds until each accepted a connection."""
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
    """Return the rate of a given number of producers."""
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
    """Print the time that three nodes need until they listen."""
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
    """Print the figures that the module docstring describes."""
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
