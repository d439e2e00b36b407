"""A worker in virtual time, and the simulated machines of its clients."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from cluster.reference.machine import Machine
from cluster.reference.simulator.host import Booted, Host
from cluster.reference.simulator.simulation import Simulation
from cluster.reference.simulator.tasks import VirtualTask
from harness.simulated.asking import WORK
from harness.simulated.consumer import Consumer
from harness.simulated.leaders import Leaders
from harness.simulated.member import MemberMachine, SimulatedGroupClient
from harness.simulated.membership import GroupSettings
from harness.simulated.producer import Producer
from results.record.clock import RunClock, stopwatch_s
from results.record.identities import group_of
from results.record.nodes import node_id
from results.record.plan import Plan
from results.record.runtime import start
from workloads.crew import Clients
from workloads.fleet import Told
from workloads.member import GroupClient, GroupMember
from workloads.protocol import Reader
from workloads.worker import Command, Surroundings, Worker, WorkerConfig, command_of

M = TypeVar("M", bound=Machine)
FLUSH_S = 0.5
"""How often a worker flushes its record. A flush costs as much as a hundred messages, and simulated
workers are killed only at a deadline."""
MOST_MACHINES = 1_000_000
"""How many machines, at most, one `ClientHosts` may create."""


class ClientHosts:
    """The simulated machines of clients; their ids are negative.

    Args:
        simulation: The simulation.
        plan: The run's plan.
        brokers: The brokers' ids, for the clients.
        first: The number of this `ClientHosts`, which determines the range of its machine ids.
    """

    def __init__(
        self, simulation: Simulation, plan: Plan, brokers: Sequence[int], *, first: int = 0
    ) -> None:
        self._simulation, self._plan, self._brokers = simulation, plan, brokers
        self._first, self._made = first * MOST_MACHINES, 0
        self._there: dict[int, Host] = {}

    def producer(self, *, lone: bool = False) -> Producer:
        """Start a producer on a new machine. The producer's method `close` ends the machine."""
        plan, agenda = self._plan, self._simulation.agenda

        def make(wake: Callable[[], None]) -> Producer:
            leaders = self._leaders()
            return Producer(plan, leaders, wake=wake, clock=lambda: agenda.now, lone=lone)

        made, host = self.start(make)
        made.end = partial(self.end, host)
        return made

    def reader(self, process: int) -> Consumer:
        """Start a consumer on a new machine. The consumer's method `close` ends the machine."""
        del process
        made, host = self.start(lambda wake: Consumer(self._leaders(), wake=wake))
        made.end = partial(self.end, host)
        return made

    def member(self, process: int, group: str) -> GroupClient:
        """Start a consumer of a group. Its methods `close` and `abandon` end the machine."""
        settings = GroupSettings.of(self._plan, process, group)
        machine, host = self.start(
            lambda wake: MemberMachine(self._leaders(), wake=wake, settings=settings)
        )
        return SimulatedGroupClient(machine, end=partial(self.end, host))

    def start(self, make: Callable[[Callable[[], None]], M]) -> tuple[M, Host]:
        """Start a client on its own machine.

        Args:
            make: The function that makes the client. Its argument is a function that wakes the
                client from outside.
        """
        number = self._made + 1
        host = self._simulation.add(-(self._first + number), lambda _disk: Booted(machine=made))

        def wake() -> None:
            if host.process is not None:
                host.process.wake(WORK)

        made = make(wake)
        self._made = number
        self._there[host.id] = host
        host.start()
        return made, host

    def end(self, host: Host) -> None:
        """End a client. Idempotent."""
        if self._there.pop(host.id, None) is not None:
            host.kill()
            del self._simulation.hosts[host.id]

    def end_all(self) -> None:
        """End all remaining clients, as if their process had died."""
        for host in list(self._there.values()):
            self.end(host)

    def _leaders(self) -> Leaders:
        return Leaders(self._plan.topic_names, self._brokers, first=self._made)


class SimulatedWorker:
    """A worker that is a task in virtual time: an implementation of `workloads.fleet.FleetWorker`.

    Args:
        config: The worker's configuration.
        folder: The folder for the worker's log, which a simulated worker never writes.
        simulation: The simulation with the worker's clients.
    """

    def __init__(self, config: WorkerConfig, folder: Path, *, simulation: Simulation) -> None:
        self.number, self.stopping = config.worker, False
        self.log = folder / f"worker-{self.number}.log"
        self.told = Told()
        self._orders: list[Command] = []
        self._ready = False
        self._hosts = ClientHosts(
            simulation, config.plan, numbers_of(config.bootstrap), first=config.worker
        )
        around = Surroundings(clients=self._clients, say=self._hear, flush_s=FLUSH_S)
        work = partial(self._work, Worker(config, self, around))
        task = start(work, f"worker-{self.number}")
        assert isinstance(task, VirtualTask), "it is one of virtual time"
        self._task = task

    def commands(self) -> list[Command]:
        """Return the commands since the last call."""
        came, self._orders = self._orders, []
        return came

    def is_ready(self) -> bool:
        """Return whether the worker has started its work."""
        return self._ready

    def ended(self) -> bool:
        """Return whether the worker has ended."""
        return self._task.is_over()

    def obituary(self) -> str:
        """Return a sentence on the worker's end. An error would end the whole simulation first."""
        return f"worker {self.number} exited by itself"

    def exit_code(self) -> None:
        """Return None, because the worker has no process."""

    def tell(self, command: dict[str, object]) -> None:
        """Send a command to the worker."""
        self._orders.append(command_of(command))

    def end(self, deadline_s: float) -> bool:
        """Wait for the worker; if it still runs at the deadline, kill it and return False."""
        by_itself = self._task.join(max(0, deadline_s - stopwatch_s()))
        if not by_itself:
            self._task.kill()
            self._task.join()
        return by_itself

    def _work(self, worker: Worker) -> None:
        try:
            worker.run()
        finally:  # Like a process that dies: open requests are not finished.
            self._hosts.end_all()

    def _hear(self, line: dict[str, object]) -> None:
        if "ready" in line:
            self._ready = True
        else:
            self.told.note(line)

    def _clients(self, config: WorkerConfig, clock: RunClock) -> Clients:
        plan, workers, hosts = config.plan, config.workers, self._hosts

        def reader(process: int) -> Reader:
            group = group_of(process % plan.concurrency, plan, workers=workers)
            if group is None:
                return hosts.reader(process)
            return GroupMember(hosts.member(process, group), group=group, clock=clock)

        return Clients(reader=reader, sender=hosts.producer)


def numbers_of(bootstrap: str) -> list[int]:
    """Return the broker ids in a bootstrap text like `n1:9092,n2:9092`."""
    return [node_id(each.partition(":")[0]) for each in bootstrap.split(",")]
