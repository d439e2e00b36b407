"""A run in virtual time: the usual phases, on simulated machines, from one seed."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path

from cluster.protocol import Hosts
from cluster.reference.simulator.machines import SimulatedMachines
from cluster.reference.simulator.simulation import Simulation
from cluster.reference.simulator.tasks import Tasks
from cluster.systems.system import Deployment
from cluster.systems.virtual import virtual_cluster
from harness.simulated.channel import questions_over
from harness.simulated.clock import VirtualClock
from harness.simulated.signalled import SignalledEvent
from harness.simulated.worker import ClientHosts, SimulatedWorker, numbers_of
from results.record.clock import NS_PER_S, RunClock
from results.record.nodes import machines
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.runtime import Event, within
from results.record.topics import CreatedTopic
from workloads.fleet import Fleet
from workloads.protocol import LoneSender, Reader
from workloads.scripted import Script

BESIDES_S = 600.0
"""The virtual time for phases whose length is not in the plan: starts, stops, final reads, and
faults that last longer than the main phase."""
_CHANNELS, _LONE = 99, 100
"""The numbers of two kinds of `ClientHosts`. They are larger than all workers' numbers. Each lone
client has its own number."""


class SimulatedWorld:
    """An implementation of `harness.world.World` by a simulation. Time passes only in `play`.

    Args:
        plan: The run's plan.

    Attributes:
        simulation: The simulation.
    """

    draws = False

    def __init__(self, plan: Plan) -> None:
        self.simulation = Simulation(plan.seed)
        self._plan = plan
        self._tasks = Tasks(self.simulation.agenda)
        self._makers = count(_LONE)

    def hosts(self, plan: Plan, paths: RunPaths) -> Hosts:
        """Return simulated machines."""
        return SimulatedMachines(self.simulation, machines(plan), paths.node, disk_mb=plan.disk_mb)

    def cluster(
        self, plan: Plan, hosts: Hosts, paths: RunPaths, *, say: Callable[[str], object]
    ) -> Deployment:
        """Return the reference cluster's brokers."""
        del say
        return virtual_cluster(plan, hosts, paths, self.simulation.streams.of("ids"))

    def clients(
        self,
        plan: Plan,
        topics: Sequence[CreatedTopic],
        bootstrap: str,
        *,
        clock: RunClock,
        paths: RunPaths,
    ) -> Fleet:
        """Return workers that are tasks, with simulated clients."""
        worker = partial(SimulatedWorker, simulation=self.simulation)
        return Fleet(plan, topics, bootstrap, clock=clock, paths=paths, worker=worker)

    def reader(self, plan: Plan, bootstrap: str) -> Callable[[int], Reader]:
        """Return a function that makes simulated consumers."""
        return self._clients(plan, bootstrap).reader

    def script(
        self, plan: Plan, topic: CreatedTopic, bootstrap: str, *, clock: RunClock, live: Path
    ) -> Script:
        """Return the clients of a scripted run."""
        return Script(
            plan, topic, bootstrap, clock=clock, live=live, sender=self._sender, reader=self.reader
        )

    def clock(self, start_ns: int) -> RunClock:
        """Return a clock of virtual time, which begins at zero."""
        del start_ns
        return VirtualClock(agenda=self.simulation.agenda)

    def event(self) -> Event:
        """Return an event in virtual time."""
        return SignalledEvent(self.simulation.agenda)

    def play(self, life: Callable[[], None], *, story_s: float = 0.0) -> None:
        """Let virtual time pass until the run's phases are over.

        Raises:
            TaskError: The run hangs.
        """
        limit_s = longest_s(self._plan) + story_s
        machines = ClientHosts(self.simulation, self._plan, [], first=_CHANNELS)
        with within(self._tasks), questions_over(machines):
            try:
                self._tasks.run(life, "life", limit_ns=round(limit_s * NS_PER_S))
            finally:
                self._tasks.end()

    def _sender(self, plan: Plan, bootstrap: str) -> LoneSender:
        return self._clients(plan, bootstrap).producer(lone=True)

    def _clients(self, plan: Plan, bootstrap: str) -> ClientHosts:
        brokers = numbers_of(bootstrap)
        return ClientHosts(self.simulation, plan, brokers, first=next(self._makers))


def longest_s(plan: Plan) -> float:
    """Return how long a run may take, in virtual seconds, without the waits of a scenario.

    The limit is the sum of the phases' lengths and of all timeouts.
    """
    budgets = plan.budgets
    phases_s = plan.warmup_s + plan.time_limit_s + 2 * (budgets.heal_s + budgets.isr_s)
    traffic_s = 2 * (budgets.unavailable_s + plan.hanging_after_s) + budgets.group_s
    return phases_s + traffic_s + plan.delivery_timeout_s + BESIDES_S
