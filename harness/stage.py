"""The stage: the process that plays a run inside the brokers' network, from start to collection.

`harness.staging` starts `python -m harness.stage RUN_FOLDER RESULT_FD START_NS` inside the hosts'
namespaces. So this process, the clients and the observer are on the brokers' network. The stage
reads the plan from the run's folder.

The stage writes to RESULT_FD. An empty line means that the stage now handles signals. The last line
is a JSON object: how the run ended, how many signals were handled (`heard`), and whether the
milestones record the end (`noted`). If the stage failed before it had a clock, it cannot add the
end to the milestones, so the parent process does this. In every case, faults are healed and hosts
are taken down.
"""

import errno
import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from cluster.protocol import ClusterError, FullDiskError, UserError
from harness.endings import Ending, StageResult, note, noted, noted_unplayed
from harness.interrupt import LISTENING, ONCE, TWICE, Interrupts, die_with_parent
from harness.life import Life
from harness.scenarios.choices import waits_s
from harness.scenarios.deeds import ScenarioError
from harness.scenarios.life import ScriptedLife
from harness.world import World, world_of
from results.record.clock import RunClock, WaitTimeoutError
from results.record.milestones import INTERRUPTED, Milestone
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from workloads.fleet import FleetError


def main() -> None:
    """Play a run. The arguments are the run's folder, a file descriptor, and the start time."""
    paths = RunPaths(Path(sys.argv[1]))
    result_fd = int(sys.argv[2])
    start_ns = int(sys.argv[3])
    die_with_parent()
    with os.fdopen(result_fd, "w", encoding="utf-8") as pipe:
        try:
            plan = plan_from(load_plan(paths.plan))
            world = world_of(plan)
        except Exception as failed:  # noqa: BLE001 - as in `outcome`
            result = result_of(failed, paths)
            json.dump({**asdict(result), "heard": 0, "noted": False}, pipe)
            return
        interrupts = Interrupts(world.event)
        result = play(
            plan,
            paths,
            world.clock(start_ns),
            world=world,
            interrupts=interrupts,
            listening=lambda: print(end=LISTENING, file=pipe, flush=True),
        )
        json.dump({**asdict(result), "heard": interrupts.settle(), "noted": True}, pipe)


def play(
    plan: Plan,
    paths: RunPaths,
    clock: RunClock,
    *,
    world: World,
    interrupts: Interrupts,
    listening: Callable[[], None],
) -> StageResult:
    """Play a run, undo all changes, and return the result, even if the run failed.

    Args:
        plan: The run's plan.
        paths: The run's folder.
        clock: The run's clock.
        world: Real time and machines, or virtual time.
        interrupts: The object that receives the signals.
        listening: The function to call when this process begins to handle signals.
    """
    interrupts.listen()
    if interrupts.finish.is_set():  # The signal came, and was answered, during the start.
        return noted_unplayed(paths, clock)
    console = Console(stderr=os.environ.get("LOGQUAKE_STDERR") == "1", soft_wrap=True)

    def interrupted() -> None:
        note(paths, Milestone(name=INTERRUPTED, at_ns=clock.now_ns()))
        console.print(f"  {ONCE}", markup=False, highlight=False)

    interrupts.tell(interrupted, lambda: console.print(f"  {TWICE}", markup=False, highlight=False))
    listening()
    return outcome(plan, paths, clock, world=world, console=console, interrupts=interrupts)


def outcome(
    plan: Plan,
    paths: RunPaths,
    clock: RunClock,
    *,
    world: World,
    console: Console,
    interrupts: Interrupts,
) -> StageResult:
    """Play a run's phases; return how the run ended, and record an early end.

    Args:
        plan: The run's plan.
        paths: The run's folder.
        clock: The run's clock.
        world: Real time and machines, or virtual time.
        console: The terminal.
        interrupts: The first and the second Ctrl-C.
    """
    try:
        live(plan, paths, clock, world=world, console=console, interrupts=interrupts)
    except Exception as failed:  # noqa: BLE001 - every error becomes a result
        result = result_of(failed, paths)
        if isinstance(failed, ScenarioError) and interrupts.finish.is_set():
            result = replace(result, ending=Ending.INTERRUPTED)
        return noted(paths, clock, result)
    if interrupts.finish.is_set():
        early = StageResult(ending=Ending.INTERRUPTED, sentence="ended early by Ctrl-C")
        return noted(paths, clock, early)
    return StageResult(ending=Ending.PLAYED)


def live(
    plan: Plan,
    paths: RunPaths,
    clock: RunClock,
    *,
    world: World,
    console: Console,
    interrupts: Interrupts,
) -> None:
    """Play a run's phases. Then run all registered cleanups, even if the phases failed.

    Args:
        plan: The run's plan.
        paths: The run's folder.
        clock: The run's clock.
        world: Real time and machines, or virtual time.
        console: The terminal.
        interrupts: The first and the second Ctrl-C.
    """
    life = ScriptedLife if plan.scenario else Life

    def lived() -> None:
        with ExitStack() as undo:
            life(
                plan,
                paths,
                clock,
                world=world,
                console=console,
                interrupts=interrupts,
                undo=undo,
            ).live()

    world.play(lived, story_s=waits_s(plan) if plan.scenario else 0.0)


def result_of(failed: Exception, paths: RunPaths) -> StageResult:
    """Return the result of a run that an exception ended.

    Args:
        failed: The exception.
        paths: The run's folder.
    """
    match failed:
        case UserError() | PlanError():
            full = isinstance(failed, FullDiskError)
            return StageResult(ending=Ending.USER, sentence=str(failed), disk_full=full)
        case ClusterError() | WaitTimeoutError() | FleetError():
            return StageResult(ending=Ending.CLUSTER, sentence=str(failed))
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return StageResult(ending=Ending.USER, sentence=_disk_full(paths), disk_full=True)
        case _:
            traceback.print_exception(failed)
            sentence = f"{type(failed).__name__}: {failed}"
            return StageResult(ending=Ending.INTERNAL, sentence=sentence)


def _disk_full(paths: RunPaths) -> str:
    return (
        f"the disk of {paths.root} is full; free some space (a default run takes about 100 MB) or"
        " name another folder with --store"
    )


if __name__ == "__main__":
    main()
