"""One worker's crew in virtual time: `workloads.worker` without its process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.reference.machine import Effect, Machine
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.host import Booted, Host
from cluster.reference.simulator.simulation import Simulation
from harness.simulated.consumer import Consumer
from harness.simulated.leaders import Leaders
from harness.simulated.producer import WORK, Done, Producer
from harness.simulated.waiting import WaitingReader, WaitingSender
from results.record.clock import RunClock
from results.record.contents import message_payload
from results.record.plan import Plan
from results.record.terms import Phase
from results.record.topics import CreatedTopic
from workloads.crew import Clients, Crew
from workloads.log import LogGenerator
from workloads.pacing import Arrivals
from workloads.protocol import LoneSender, Reader, Send
from workloads.recorder import Recorder

MS = 1_000_000
TICK_NS = 20 * MS
BUSY_NS = 2 * MS
"""Without a rate: how long a process that found nothing waits."""
FLUSH_NS = 500 * MS
MOST_MACHINES = 1_000_000
"""Of each that makes clients."""


class _NoFiles:
    """A client's machine keeps nothing."""

    def write(self, effect: Effect) -> None:
        raise AssertionError(f"a client wants to write {effect}")


@dataclass(slots=True, eq=False)
class _Door:
    """How calls from outside reach a machine that is made later."""

    host: Host | None = None

    def wake(self) -> None:
        if self.host is not None and self.host.process is not None:
            self.host.process.wake(WORK)


class _Sender:
    """The producer as its crew sees it: results come at once, in virtual time."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.fatal = False

    def send(self, op: Send, done: Done) -> None:
        self._producer.send(op, done)

    def serve(self, timeout_s: float) -> None:
        """Nothing waits: time passes elsewhere."""

    def waiting(self) -> int:
        return self._producer.waiting


class ClientHosts:
    """The machines that clients live on, with numbers below zero.

    Args:
        simulation: Where they are.
        plan: Of the run.
        brokers: Whom clients ask.
        first: Of several who make clients: which.
    """

    def __init__(
        self, simulation: Simulation, plan: Plan, brokers: Sequence[int], *, first: int = 0
    ) -> None:
        self._simulation, self._plan, self._brokers = simulation, plan, brokers
        self._first, self._made = first * MOST_MACHINES, 0
        self._readers: dict[int, Host] = {}

    def producer(self) -> Producer:
        """Start a producer on a machine of its own."""
        return self._producer()[0]

    def consumer(self, process: int) -> Consumer:
        """Start the consumer of a process; the thread's one before it ends."""
        thread = process % self._plan.concurrency
        if (before := self._readers.pop(thread, None)) is not None:
            self.end(before)
        door = _Door()
        made = Consumer(self._leaders(), wake=door.wake)
        self._readers[thread] = door.host = self._start(made)
        return made

    def lone_sender(self) -> LoneSender:
        """Start a producer of messages with names for code that waits; its close ends it."""
        made, host = self._producer(message_payload)
        return WaitingSender(made, lambda: self.end(host))

    def lone_reader(self, process: int) -> Reader:
        """Start a consumer for code that waits; its close ends it."""
        del process
        door = _Door()
        made = Consumer(self._leaders(), wake=door.wake)
        host = door.host = self._start(made)
        made.end = lambda: self.end(host)
        return WaitingReader(made)

    def start(self, machine: Machine) -> Host:
        """Start another sort of client."""
        return self._start(machine)

    def end(self, host: Host) -> None:
        """End a client."""
        host.kill()
        del self._simulation.hosts[host.id]

    def _producer(self, payload: Callable[[int], bytes] | None = None) -> tuple[Producer, Host]:
        door = _Door()
        plan, agenda = self._plan, self._simulation.agenda
        made = Producer(
            plan, self._leaders(), wake=door.wake, clock=lambda: agenda.now, payload=payload
        )
        door.host = self._start(made)
        return made, door.host

    def _leaders(self) -> Leaders:
        return Leaders(self._plan.topic_names, self._brokers, first=self._made)

    def _start(self, machine: Machine) -> Host:
        self._made += 1

        def boot(_disk: SimulatedDisk) -> Booted:
            return Booted(machine=machine, storage=_NoFiles())

        host = self._simulation.add(-(self._first + self._made), boot)
        host.start()
        return host


class SimulatedWorker:
    """The crew of one worker, driven by virtual time.

    Args:
        plan: Of the run.
        number: Which worker.
        topics: As created.
        hosts: Where its clients live.
        simulation: Virtual time.
        live: The folder of the live streams.
    """

    def __init__(
        self,
        plan: Plan,
        number: int,
        *,
        topics: Sequence[CreatedTopic],
        hosts: ClientHosts,
        simulation: Simulation,
        live: Path,
    ) -> None:
        self._plan, self._agenda = plan, simulation.agenda
        self._clock = RunClock(start_ns=0)
        self._recorder = Recorder(
            live, f"worker-{number}", worker=number, topics=topics, acks=plan.acks
        )
        reader: Callable[[int], Reader] = hosts.consumer
        self.crew = Crew(
            range(number, plan.concurrency, plan.crews),
            concurrency=plan.concurrency,
            worker=number,
            generator=LogGenerator(plan, worker=number, workers=plan.crews),
            clients=Clients(reader=reader, sender=lambda: _Sender(hosts.producer())),
            recorder=self._recorder,
            clock=self._clock,
        )
        self.phase = Phase.WARMUP
        self._arrivals = Arrivals(plan.rate / plan.crews, start_ns=self._clock.now_ns())
        self._flush_at_ns = 0
        self._working = True
        self._tick()

    def stop(self) -> None:
        """Start no further op."""
        self._working = False
        self._arrivals.give_up()

    def close(self) -> None:
        """End the record: what is in flight stays open in it."""
        self._recorder.arrived(self._arrivals.closed())
        self._recorder.close()

    def _tick(self) -> None:
        if not self._working:
            return
        now_ns = self._agenda.now
        self._arrivals.offer(now_ns, self.phase)
        for _ in range(self.crew.free):
            if not self._arrivals.take(now_ns, self.phase):
                break
            self.crew.invoke(self.phase)
        self.crew.serve(0)
        if now_ns >= self._flush_at_ns:
            self._flush_at_ns = now_ns + FLUSH_NS
            self._recorder.arrived(self._arrivals.closed(now_ns))
            self._recorder.flush()
        self._agenda.at(self._next_ns(now_ns), self._tick)

    def _next_ns(self, now_ns: int) -> int:
        if self._plan.rate == 0:
            return now_ns + BUSY_NS
        return min(now_ns + TICK_NS, max(now_ns + 1, self._arrivals.next_ns()))
