"""How a run's stage ended. The stage is the process that plays the run inside the run's network.

This module is separate from the stage, so that the parent process need not import the stage.
"""

import sys
from dataclasses import dataclass
from enum import StrEnum

from results.record.clock import RunClock
from results.record.milestones import INTERRUPTED, Milestone, append_milestone
from results.record.paths import RunPaths


class Ending(StrEnum):
    """The ways in which the stage can end."""

    PLAYED = "played"
    INTERRUPTED = "interrupted"
    CLUSTER = "cluster"
    USER = "user"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """The result that the stage sends to the session, its parent process.

    Attributes:
        ending: How the run ended: at its planned end, or early because of Ctrl-C, a failed cluster,
            an error that the user can fix, or a bug of Logquake.
        sentence: Why the run was not played to the end.
        disk_full: Whether a full disk ended the run, which is not a fault of the system.
    """

    ending: Ending
    sentence: str = ""
    disk_full: bool = False


def noted(paths: RunPaths, clock: RunClock, result: StageResult) -> StageResult:
    """Record in the milestones that a run ended early, and return the result."""
    detail = {"kind": result.ending.value, "sentence": result.sentence}
    note(paths, Milestone(name="failed", at_ns=clock.now_ns(), detail=detail))
    return result


def noted_unplayed(paths: RunPaths, clock: RunClock) -> StageResult:
    """Record in the milestones that a run was interrupted before its cluster started."""
    note(paths, Milestone(name=INTERRUPTED, at_ns=clock.now_ns()))
    sentence = "the run was interrupted before its cluster started"
    return noted(paths, clock, StageResult(ending=Ending.INTERRUPTED, sentence=sentence))


def note(paths: RunPaths, milestone: Milestone) -> None:
    """Append a milestone to a run's milestones; if it cannot be stored, print an error."""
    try:
        append_milestone(paths.milestones, milestone)
    except OSError as refused:  # The disk is full. The session still gets the result by its pipe.
        print(f"{milestone.name!r} could not be noted: {refused}", file=sys.stderr)  # noqa: T201 - the last resort
