"""The world of a run: real processes, sockets and threads, or a simulation.

The world provides the parts that differ: hosts, brokers and clients. All other code, from the plan
to the record, is the same in both.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from cluster.hosts.choose import make_hosts
from cluster.protocol import Hosts
from cluster.systems.registry import system_of
from cluster.systems.system import Deployment
from harness.client_library import client_library
from harness.java_client import java_client
from harness.signalled import SignalledEvent
from nemesis.families import breaks_disks
from results.record.clock import RunClock
from results.record.nodes import machines
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.runtime import Event
from results.record.terms import Phase
from results.record.topics import CreatedTopic
from workloads.crashes import Crash
from workloads.final_reads import final_reader
from workloads.fleet import Fleet, FleetCounts, Touched
from workloads.protocol import Reader
from workloads.scripted import Script

Say = Callable[[str], None]


class Clients(Protocol):
    """The clients of an ordinary run; see `workloads.fleet.Fleet`."""

    def start(self) -> None:
        """Start the clients; return when all are ready."""

    def phase(self, phase: Phase) -> None:
        """Set the phase. The record gives this phase to all ops that clients invoke from now on."""

    def untouched(self) -> frozenset[Touched]:
        """Return the partitions and groups that got no message since the recovery phase began."""

    def unended(self) -> frozenset[str]:
        """Return the transactional ids whose last transaction has an unknown end."""

    def counts(self) -> FleetCounts:
        """Return the counts of the clients' ops so far."""

    def died(self) -> list[str]:
        """Return a sentence for each worker that ended by itself, without a command."""

    def crashes(self) -> list[Crash]:
        """Return the worker processes that have crashed."""

    def stop(self, timeout_s: float) -> list[str]:
        """Start no new ops, and wait for the ops in flight. Return one sentence for each failure.

        The call is idempotent.
        """


class World(Protocol):
    """The parts of a run that differ between real time and virtual time.

    Attributes:
        draws: Whether to show the run's progress. In virtual time, this is not necessary.
    """

    draws: bool

    def hosts(self, plan: Plan, paths: RunPaths) -> Hosts:
        """Return a run's machines; `up` creates them."""

    def cluster(self, plan: Plan, hosts: Hosts, paths: RunPaths, *, say: Say) -> Deployment:
        """Return the run's brokers, not started."""

    def clients(
        self,
        plan: Plan,
        topics: Sequence[CreatedTopic],
        bootstrap: str,
        *,
        clock: RunClock,
        paths: RunPaths,
    ) -> Clients:
        """Return the run's clients, not started."""

    def reader(self, plan: Plan, bootstrap: str) -> Callable[[int], Reader]:
        """Return a function that makes the consumers of the final reads."""

    def script(
        self, plan: Plan, topic: CreatedTopic, bootstrap: str, *, clock: RunClock, live: Path
    ) -> Script:
        """Return the clients of a scripted run."""

    def clock(self, start_ns: int) -> RunClock:
        """Return a run's clock, which can also be read outside `play`.

        Args:
            start_ns: `CLOCK_MONOTONIC` of this machine at the run's start.
        """

    def event(self) -> Event:
        """Return an event that the run can wait for, and that a signal handler may set."""

    def play(self, life: Callable[[], None], *, story_s: float = 0.0) -> None:
        """Play a run in this world; raise the errors of the run.

        Args:
            life: The function that plays the run; called once.
            story_s: How long the steps of the run's scenario may wait.
        """


class RealWorld:
    """Processes, sockets and threads in real time."""

    draws = True

    def hosts(self, plan: Plan, paths: RunPaths) -> Hosts:
        """Return the machines that the system brings, or else hosts of the plan's kind."""
        return system_of(plan).hosts(paths) or make_hosts(
            plan.hosts,
            machines(plan),
            paths.processes,
            image=plan.image,
            disk_mb=plan.disk_mb,
            faulty_disks=breaks_disks(plan),
            own_software=plan.named.is_yours,
        )

    def cluster(self, plan: Plan, hosts: Hosts, paths: RunPaths, *, say: Say) -> Deployment:
        """Fetch the programs of the brokers, and return the brokers of the plan's system."""
        system = system_of(plan)
        system.prepare(say)
        return system.cluster(hosts, paths)

    def clients(
        self,
        plan: Plan,
        topics: Sequence[CreatedTopic],
        bootstrap: str,
        *,
        clock: RunClock,
        paths: RunPaths,
    ) -> Clients:
        """Return worker processes, with the client library that the plan names."""
        library, java = client_library(plan), java_client(plan)
        return Fleet(plan, topics, bootstrap, clock=clock, paths=paths, library=library, java=java)

    script = Script
    reader = staticmethod(final_reader)

    def clock(self, start_ns: int) -> RunClock:
        """Return a clock of this machine's time."""
        return RunClock(start_ns=start_ns)

    def event(self) -> Event:
        """Return an event for threads, without a lock."""
        return SignalledEvent()

    def play(self, life: Callable[[], None], *, story_s: float = 0.0) -> None:  # noqa: ARG002 - each wait has its own limit here
        """Play the run in this thread."""
        life()


def world_of(plan: Plan) -> World:
    """Return the world of a plan."""
    if not plan.is_simulated:
        return RealWorld()
    from harness.simulated.world import SimulatedWorld  # noqa: PLC0415 - greenlets for few

    return SimulatedWorld(plan)
