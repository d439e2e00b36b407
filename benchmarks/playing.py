"""A simulated run played in this process: for tests and benchmarks, which look into its machines.

`harness.staging` plays a run of any kind in a child process, and answers signals meanwhile. Here is
the same preparation and the same life, without the child.
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
    """A simulated run that was played, and not judged yet.

    Attributes:
        plan: As it was played.
        paths: Its folder.
        result: How it ended.
        simulation: Where it took place.
        dropped: What of its nemesis was left out, in sentences.
    """

    plan: Plan
    paths: RunPaths
    result: StageResult
    simulation: Simulation
    dropped: tuple[str, ...]

    @property
    def simulated_s(self) -> float:
        """Return how much virtual time it took."""
        return self.simulation.now_ns / NS_PER_S


def play_here(
    plan: Plan, store: Path, *, before: Callable[[Simulation], object] | None = None
) -> PlayedHere:
    """Play a simulated run in this process, into a store.

    Args:
        plan: As asked for.
        store: The folder of runs.
        before: Is given the simulation before anything is on it.

    Raises:
        UserError, PlanError: It cannot be simulated.
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
