"""Execution of a simulated run in this process, for tests and benchmarks that read its state.

`harness.staging` executes a run of any kind in a child process, and handles signals meanwhile. This
module prepares and executes the run in the same way, but without the child process.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from cluster.reference.simulator.simulation import Simulation
from harness.endings import StageResult
from harness.interrupt import Interrupts
from harness.simulated.world import SimulatedWorld
from harness.stage import outcome
from harness.staging import describe_run, prepared
from results.record.clock import NS_PER_S
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedHere:
    """A simulated run that has ended and is not judged yet.

    Attributes:
        plan: The completed plan of the run.
        paths: The run's folder.
        result: How the run ended.
        simulation: The simulation in which the run took place.
        dropped: Sentences on faults of the plan that are not possible and were left out.
    """

    plan: Plan
    paths: RunPaths
    result: StageResult
    simulation: Simulation
    dropped: tuple[str, ...]

    @property
    def simulated_s(self) -> float:
        """Return the virtual seconds that the run took."""
        return self.simulation.now_ns / NS_PER_S


def play_here(
    plan: Plan, store: Path, *, before: Callable[[Simulation], object] | None = None
) -> PlayedHere:
    """Execute a simulated run in this process, and write it to a store.

    Args:
        plan: The requested plan.
        store: The folder of runs.
        before: A function that gets the simulation before any machine is in it.

    Raises:
        UserError, PlanError: The plan cannot be simulated.
    """
    ready = prepared(plan, keep=False, say=lambda _: None)
    world = SimulatedWorld(ready.plan)
    if before is not None:
        before(world.simulation)
    with Store(store).create(ready.plan.name, ready.plan.seed) as paths:
        clock = world.clock(0)
        describe_run(ready, paths, clock)
        result = outcome(
            ready.plan,
            paths,
            clock,
            world=world,
            console=Console(quiet=True),
            interrupts=Interrupts(world.event),
        )
    return PlayedHere(
        plan=ready.plan,
        paths=paths,
        result=result,
        simulation=world.simulation,
        dropped=ready.dropped,
    )
