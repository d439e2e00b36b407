"""Where a run takes place: with processes, sockets and threads; or in a simulation.

A run's life asks its world for whatever is not the same in both: hosts, brokers' programs, clients.
All else, from the plan to the record, knows nothing of it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from cluster.hosts.choose import make_hosts
from cluster.nodes import machines
from cluster.protocol import Hosts
from cluster.systems.registry import system_of
from cluster.systems.system import Deployment
from harness.client_library import client_library
from harness.java_client import java_client
from harness.signalled import SignalledEvent
from nemesis.families import breaks_disks
from results.record.clock import RunClock
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
        """Start them; return when all are ready."""

    def phase(self, phase: Phase) -> None:
        """Tell them in which phase the ops are that they invoke from now on."""

    def untouched(self) -> frozenset[Touched]:
        """Return what nothing came of since the recovery was entered last."""

    def counts(self) -> FleetCounts:
        """Return what they did so far."""

    def died(self) -> list[str]:
        """Return a sentence for each that ended without having been told to."""

    def crashes(self) -> list[Crash]:
        """Return which of their processes a crash has ended."""

    def stop(self, timeout_s: float) -> list[str]:
        """Start no new ops, wait for those in flight; return what went wrong. Idempotent."""


class World(Protocol):
    """What of a run is not the same everywhere.

    Attributes:
        draws: Whether its time is the user's: what goes on is shown as long as it lasts.
    """

    draws: bool

    def hosts(self, plan: Plan, paths: RunPaths) -> Hosts:
        """Return the machines of a run; `up` makes them."""

    def cluster(self, plan: Plan, hosts: Hosts, paths: RunPaths, *, say: Say) -> Deployment:
        """Return its brokers, not started."""

    def clients(
        self,
        plan: Plan,
        topics: Sequence[CreatedTopic],
        bootstrap: str,
        *,
        clock: RunClock,
        paths: RunPaths,
    ) -> Clients:
        """Return its clients, not started."""

    def reader(self, plan: Plan, bootstrap: str) -> Callable[[int], Reader]:
        """Return what makes the consumer of a process of the final reads."""

    def script(
        self, plan: Plan, topic: CreatedTopic, bootstrap: str, *, clock: RunClock, live: Path
    ) -> Script:
        """Return the clients of a scripted run."""

    def clock(self, start_ns: int) -> RunClock:
        """Return a run's clock, which may be read outside of its life, too.

        Args:
            start_ns: `CLOCK_MONOTONIC` of this machine at the run's start.
        """

    def event(self) -> Event:
        """Return an event that its life can wait for, and that a signal may set."""

    def play(self, life: Callable[[], None], *, story_s: float = 0.0) -> None:
        """Live a life in this world; what it raises is raised.

        Args:
            life: Is called, once.
            story_s: How long the steps of its story may wait.
        """


class RealWorld:
    """Processes, sockets and threads; real time."""

    draws = True

    def hosts(self, plan: Plan, paths: RunPaths) -> Hosts:
        """Return machines of the system's own, or hosts of the plan's kind."""
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
        """Return the brokers of the plan's system, for which all is there."""
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
        """Return worker processes, with the client library that the plan wants."""
        library, java = client_library(plan), java_client(plan)
        return Fleet(plan, topics, bootstrap, clock=clock, paths=paths, library=library, java=java)

    script = Script
    reader = staticmethod(final_reader)

    def clock(self, start_ns: int) -> RunClock:
        """Return this machine's."""
        return RunClock(start_ns=start_ns)

    def event(self) -> Event:
        """Return a thread's, without a lock."""
        return SignalledEvent()

    def play(self, life: Callable[[], None], *, story_s: float = 0.0) -> None:  # noqa: ARG002 - each wait has a limit of its own here
        """Live it here and now."""
        life()


def world_of(plan: Plan) -> World:
    """Return where a plan is played."""
    if not plan.is_simulated:
        return RealWorld()
    from harness.simulated.world import SimulatedWorld  # noqa: PLC0415 - greenlets for few

    return SimulatedWorld(plan)
