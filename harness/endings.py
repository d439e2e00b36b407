"""How a run's stage ended, and how that is noted: what those need who only start a stage."""

import sys
from dataclasses import dataclass
from enum import StrEnum

from results.record.clock import RunClock
from results.record.milestones import INTERRUPTED, Milestone, append_milestone
from results.record.paths import RunPaths


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
        disk_full: Whether that is a full disk, which is no fault of the system.
    """

    ending: Ending
    sentence: str = ""
    disk_full: bool = False


def noted(paths: RunPaths, clock: RunClock, result: StageResult) -> StageResult:
    """Note in the milestones that a run ended early, and return how."""
    detail = {"kind": result.ending.value, "sentence": result.sentence}
    note(paths, Milestone(name="failed", at_ns=clock.now_ns(), detail=detail))
    return result


def noted_unplayed(paths: RunPaths, clock: RunClock) -> StageResult:
    """Note in the milestones that a run was interrupted before its cluster started."""
    note(paths, Milestone(name=INTERRUPTED, at_ns=clock.now_ns()))
    sentence = "it was interrupted before its cluster started"
    return noted(paths, clock, StageResult(ending=Ending.INTERRUPTED, sentence=sentence))


def note(paths: RunPaths, milestone: Milestone) -> None:
    """Append a milestone to a run's, if its disk lets us."""
    try:
        append_milestone(paths.milestones, milestone)
    except OSError as refused:  # A full disk: the result still reaches the session by its pipe.
        print(f"{milestone.name!r} could not be noted: {refused}", file=sys.stderr)  # noqa: T201 - the last resort
