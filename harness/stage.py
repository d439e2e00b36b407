"""The part of a run that lives inside of its network: from the first start to the last file collected.

`python -m harness.stage RUN_FOLDER RESULT_FD`, started by `harness.session` through the hosts' prefix,
so that this process, the clients and the observer are on the brokers' network. The plan is read from
the run's folder. How it ended is written to RESULT_FD as one JSON object; what happened is in the
record. Whatever happens, faults are healed and hosts are taken down.
"""

import errno
import json
import os
import sys
import traceback
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from rich.console import Console

from cluster.protocol import ClusterError, UserError
from harness.interrupt import Interrupts, die_with_parent
from harness.life import Life
from results.record.clock import RunClock, WaitTimeoutError
from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.plan import PlanError, load_plan, plan_from


class Ending(StrEnum):
    """How the stage ended."""

    PLAYED = "played"
    INTERRUPTED = "interrupted"
    CLUSTER = "cluster"
    USER = "user"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """What the stage tells the session.

    Attributes:
        ending: How it ended: played to the end, cut short by Ctrl-C, because the cluster failed,
            because of something that the user can mend, or by a bug of ours.
        sentence: Why, if it was not played to the end.
    """

    ending: Ending
    sentence: str = ""


def main() -> None:
    """Play the run whose folder is the first argument; the second is the result's descriptor."""
    paths = RunPaths(Path(sys.argv[1]))
    result_fd = int(sys.argv[2])
    start_ns = int(sys.argv[3])
    die_with_parent()
    result = play(paths, RunClock(start_ns=start_ns))
    with os.fdopen(result_fd, "w", encoding="utf-8") as pipe:
        json.dump(asdict(result), pipe)


def play(paths: RunPaths, clock: RunClock) -> StageResult:
    """Play a run; every failure ends as a result, after everything was undone."""
    interrupts = Interrupts()
    interrupts.listen()
    console = Console(stderr=os.environ.get("LOGQUAKE_STDERR") == "1", soft_wrap=True)
    try:
        plan = plan_from(load_plan(paths.plan))
        with ExitStack() as undo:
            Life(plan, paths, clock, console=console, interrupts=interrupts, undo=undo).live()
    except (UserError, PlanError) as mendable:
        return _ended(paths, clock, Ending.USER, str(mendable))
    except (ClusterError, WaitTimeoutError) as failed:
        return _ended(paths, clock, Ending.CLUSTER, str(failed))
    except OSError as refused:
        if refused.errno in {errno.ENOSPC, errno.EDQUOT}:
            return _ended(paths, clock, Ending.USER, _disk_full(paths))
        traceback.print_exc()
        return _ended(paths, clock, Ending.INTERNAL, f"{type(refused).__name__}: {refused}")
    except Exception as bug:  # noqa: BLE001 - the interpreter of the run
        traceback.print_exc()
        return _ended(paths, clock, Ending.INTERNAL, f"{type(bug).__name__}: {bug}")
    if interrupts.finish.is_set():
        return _ended(paths, clock, Ending.INTERRUPTED, "ended early by Ctrl-C")
    return StageResult(ending=Ending.PLAYED)


def _ended(paths: RunPaths, clock: RunClock, ending: Ending, sentence: str) -> StageResult:
    detail = {"kind": ending.value, "sentence": sentence}
    try:
        append_milestone(
            paths.milestones, Milestone(name="failed", at_ns=clock.now_ns(), detail=detail)
        )
    except OSError as unwritable:  # A full disk: the result still reaches the session by its pipe.
        print(f"the end of the run could not be noted: {unwritable}", file=sys.stderr)  # noqa: T201
    return StageResult(ending=ending, sentence=sentence)


def _disk_full(paths: RunPaths) -> str:
    return (
        f"the disk of {paths.root} is full; free some room (a default run takes about 100 MB)"
        " or name another folder with --store"
    )


if __name__ == "__main__":
    main()
