"""Measures the speed of the simulator: `python -m benchmarks.simulator`.

There are three figures, each for one core's CPU time:

1. Messages a second between machines that only answer.
2. Simulated seconds a second of the reference cluster, with three replicas of each partition and 50
   sends a second with acks=all. Only brokers read.
3. Simulated seconds a second of a whole run, which is not judged. The run has 50 operations per
    second, the default faults, an observer for each broker, and readers. The time is from the first
   start to the last file.

A message is a request, an answer, or the end of a connection that the network delivered to a
process of another machine. Messages of clients count. Timers and a node's requests to itself do not
count. A send takes six messages: two for the client, and two for each follower. About fifteen more
a second are heartbeats, fetches of the metadata log, and fetches without data. The time also
includes all other costs of a send: the client that makes and sends the batch, timers, and disks.

Each figure is the best of three rounds. On a shared machine, measured CPU time can be too high, but
never too low.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.playing import play_here
from cluster.reference.log.files import LogFiles
from cluster.reference.machine import Arrived, Effect, Event, Reply, Request
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.host import Boot, Booted
from cluster.reference.simulator.simulation import Simulation
from harness.endings import Ending
from harness.simulated.worker import ClientHosts
from harness.simulated.world import SimulatedWorld
from results.record.clock import NS_PER_S, pause_until, stopwatch_s
from results.record.paths import RunPaths
from results.record.plan import plan_from
from workloads.allotment import Allotment

GOAL_MESSAGES, GOAL_SECONDS, GOAL_OF_A_RUN = 80_000, 300, 40
SENDS, LASTS_S = 50, 60
_PAIRS, _AT_ONCE, _ROUNDS = 3, 8, 3


class _Echo:
    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - of all machines alike
        return []

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - as above
        if isinstance(event, Arrived):
            return [Reply(asker=event.asker, message=event.message)]
        return []


class _Asking:
    def __init__(self, to: int) -> None:
        self._to, self._number = to, 0

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - of all machines alike
        return [self._ask() for _ in range(_AT_ONCE)]

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - as above
        return [self._ask()]

    def _ask(self) -> Request:
        self._number += 1
        return Request(number=self._number, to=self._to, message=self, timeout_ns=500_000_000)


def messages_a_second() -> float:
    """Return the messages a second that the driver delivers."""
    simulation = Simulation(1)
    for number in range(1, _PAIRS + 1):
        simulation.add(number, _boot(_Echo()))
        simulation.add(_PAIRS + number, _boot(_Asking(number)))
    for host in simulation.hosts.values():
        host.start()
    began_s = time.process_time()
    simulation.run(10)
    return simulation.network.messages / (time.process_time() - began_s)


def seconds_a_second() -> tuple[float, float]:
    """Return the simulated seconds a second of a cluster, and the messages a second."""
    plan = plan_from({
        "system": "reference", "hosts": "simulated", "topics": 1, "partitions": 1, "nemesis": "",
    })  # fmt: skip
    world, done, took = SimulatedWorld(plan), [0], list[float]()
    simulation = world.simulation

    def life() -> None:
        with TemporaryDirectory(prefix="simulator-") as folder:
            paths = RunPaths(Path(folder))
            hosts = world.hosts(plan, paths)
            hosts.up()
            cluster = world.cluster(plan, hosts, paths, say=lambda _: None)
            cluster.start()
            cluster.create_topics(plan.topic_names, partitions=1, replication=plan.replication)
            producer = ClientHosts(simulation, plan, [1, 2, 3]).producer()
            allotment = Allotment(plan, worker=0, workers=1)

            def send() -> None:
                sent = allotment.send_to(("log-0", 0))
                producer.send(sent, lambda result: _count(done, result.worst))
                simulation.agenda.after(NS_PER_S // SENDS, send)

            send()
            pause_until(stopwatch_s() + 2)
            began_s, before = time.process_time(), simulation.network.messages
            pause_until(stopwatch_s() + LASTS_S)
            took.extend((time.process_time() - began_s, simulation.network.messages - before))

    world.play(life)
    if done[0] < SENDS * LASTS_S * 9 // 10:
        raise RuntimeError(f"only {done[0]} sends were acknowledged")
    took_s, messages = took
    return LASTS_S / took_s, messages / took_s


def seconds_of_a_run() -> float:
    """Return the simulated seconds a second of a whole run, without its judgement."""
    plan = plan_from({"system": "reference", "hosts": "simulated", "rate": SENDS, "seed": 3})
    with TemporaryDirectory(prefix="simulator-") as folder:
        began_s = time.process_time()
        run = play_here(plan, Path(folder))
        took_s = time.process_time() - began_s
    if run.result.ending is not Ending.PLAYED:
        raise RuntimeError(run.result.sentence)
    return run.simulated_s / took_s


def _count(done: list[int], outcome: str) -> None:
    done[0] += outcome == "ok"


def _boot(machine: _Echo | _Asking) -> Boot:
    def boot(disk: SimulatedDisk) -> Booted:
        return Booted(machine=machine, storage=LogFiles(disk))

    return boot


def main() -> None:
    """Print the figures beside their goals."""
    alone = max(messages_a_second() for _ in range(_ROUNDS))
    print(f"messages a second: {alone:,.0f} (goal {GOAL_MESSAGES:,})")
    seconds, messages = max(seconds_a_second() for _ in range(_ROUNDS))
    print(f"simulated seconds a second: {seconds:,.0f} (goal {GOAL_SECONDS}),")
    print(f"with {messages:,.0f} messages a second of a whole cluster")
    seconds_of_a_run()  # The first run imports all modules.
    whole = max(seconds_of_a_run() for _ in range(_ROUNDS))
    print(f"simulated seconds a second of a whole run: {whole:.0f} (goal {GOAL_OF_A_RUN})")


if __name__ == "__main__":
    main()
