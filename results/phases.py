"""The durations of a run's phases, from the start of the command to the finished page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from results.record.clock import NS_PER_S
from results.record.milestones import STOPPING, Milestone
from results.record.timings import Timings

_BEGAN, _ZERO, _JUDGING, _JUDGED, _DRAWN = "began", "zero", "judging", "judged", "drawn"
_PHASES = (
    ("from the command to the run's start", _BEGAN, _ZERO),
    ("brokers started", _ZERO, "ready"),
    ("topics created, clients started", "ready", "warmup"),
    ("warm-up", "warmup", "main"),
    ("main phase", "main", "main-ended"),
    ("healed and recovered", "main-ended", "recovered"),
    ("traffic after the recovery", "recovered", STOPPING),
    ("last sends and final reads", STOPPING, "noted"),
    ("brokers stopped", "noted", "stopped"),
    ("files collected", "stopped", "collected"),
    ("hosts looked at", "collected", "audited"),
    ("judge ready", "audited", _JUDGING),
    ("judged", _JUDGING, _JUDGED),
    ("page drawn", _JUDGED, _DRAWN),
)
"""(name, begin, end) of each phase; begin and end are names of moments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPhase:
    """A phase of a run, with its duration."""

    name: str
    seconds: float


def phases(milestones: Sequence[Milestone], timings: Timings) -> list[RunPhase]:
    """Return the phases of a run in order; a phase with an unknown begin or end is left out."""
    at = _moments(milestones, timings)
    return [
        RunPhase(name=name, seconds=(at[end] - at[begin]) / NS_PER_S)
        for name, begin, end in _PHASES
        if begin in at and end in at
    ]


def counted_from(milestones: Sequence[Milestone]) -> str:
    """Return a sentence that says how to compare times of the run with `at_s` of its plan.

    The sentence is empty if the record does not have the start of the main phase.
    """
    main = next((each.at_ns for each in milestones if each.name == "main"), None)
    if main is None:
        return ""
    return (
        f"Times count from the start of the run. The main phase began at {main / NS_PER_S:.1f} s;"
        " at_s of a plan counts from there."
    )


def whole_s(timings: Timings) -> float | None:
    """Return the seconds from the start of the command to the finished page; None if unknown."""
    if timings.began_ns is None or timings.drawn_ns is None:
        return None
    return (timings.drawn_ns - timings.began_ns) / NS_PER_S


def _moments(milestones: Sequence[Milestone], timings: Timings) -> Mapping[str, int]:
    told = {
        _BEGAN: timings.began_ns,
        _JUDGING: timings.judging_ns,
        _JUDGED: timings.judged_ns,
        _DRAWN: timings.drawn_ns,
    }
    reached = {each.name: each.at_ns for each in reversed(milestones)}
    known = {name: at_ns for name, at_ns in told.items() if at_ns is not None}
    return {_ZERO: 0, **reached, **known}
