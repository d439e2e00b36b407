"""A worker in virtual time, and the machines that its clients live on."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from cluster.nodes import node_id
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
from results.record.plan import Plan
from results.record.runtime import start
from workloads.crew import Clients
from workloads.fleet import Told
from workloads.member import GroupClient, GroupMember
from workloads.protocol import Reader
from workloads.worker import Command, Surroundings, Worker, WorkerConfig, command_of

M = TypeVar("M", bound=Machine)
FLUSH_S = 0.5
"""These are killed only at a deadline, and a flush costs as much as a hundred messages."""
MOST_MACHINES = 1_000_000
"""Of each that makes clients."""


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
        self._there: dict[int, Host] = {}

    def producer(self, *, lone: bool = False) -> Producer:
        """Start a producer, which ends when it is closed."""
        plan, agenda = self._plan, self._simulation.agenda

        def make(wake: Callable[[], None]) -> Producer:
            leaders = self._leaders()
            return Producer(plan, leaders, wake=wake, clock=lambda: agenda.now, lone=lone)

        made, host = self.start(make)
        made.end = partial(self.end, host)
        return made

    def reader(self, process: int) -> Consumer:
        """Start a consumer, which ends when it is closed."""
        del process
        made, host = self.start(lambda wake: Consumer(self._leaders(), wake=wake))
        made.end = partial(self.end, host)
        return made

    def member(self, process: int, group: str) -> GroupClient:
        """Start a consumer that belongs to a group; it ends when it is closed, or abandoned."""
        settings = GroupSettings.of(self._plan, process, group)
        machine, host = self.start(
            lambda wake: MemberMachine(self._leaders(), wake=wake, settings=settings)
        )
        return SimulatedGroupClient(machine, end=partial(self.end, host))

    def start(self, make: Callable[[Callable[[], None]], M]) -> tuple[M, Host]:
        """Start a client on a machine of its own.

        Args:
            make: Makes it, given what wakes it from outside.
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
        """End all clients that there are, as a process takes its clients along."""
        for host in list(self._there.values()):
            self.end(host)

    def _leaders(self) -> Leaders:
        return Leaders(self._plan.topic_names, self._brokers, first=self._made)


class SimulatedWorker:
    """A worker as a task of virtual time; implements `workloads.fleet.FleetWorker`.

    Args:
        config: What it is told.
        folder: Where words would go; it has none.
        simulation: Where its clients live.
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
        """Return what came since the last call."""
        came, self._orders = self._orders, []
        return came

    def is_ready(self) -> bool:
        """Tell whether it is at work."""
        return self._ready

    def ended(self) -> bool:
        """Tell whether it is gone."""
        return self._task.is_over()

    def obituary(self) -> str:
        """Say of what it ended; what one of them raises ends the simulation before."""
        return f"worker {self.number} ended by itself"

    def exit_code(self) -> None:
        """Return how its process ended: it has none."""

    def tell(self, command: dict[str, object]) -> None:
        """Hand it a command."""
        self._orders.append(command_of(command))

    def end(self, deadline_s: float) -> bool:
        """Wait for its end; kill it at the deadline, and tell whether it ended by itself."""
        by_itself = self._task.join(max(0, deadline_s - stopwatch_s()))
        if not by_itself:
            self._task.kill()
            self._task.join()
        return by_itself

    def _work(self, worker: Worker) -> None:
        try:
            worker.run()
        finally:  # Nothing that its clients have begun is ended first: a process just ends.
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
    """Return the ids of the brokers of `n1:9092,n2:9092`."""
    return [node_id(each.partition(":")[0]) for each in bootstrap.split(",")]
