"""Decide which runs can have a level. The level sets how hard the fault schedule is."""

from typing import Protocol

TOP_LEVEL = 6
"""The hardest level; `nemesis/levels.py` defines each level."""


class Asked(Protocol):
    """The fields of a plan that decide whether it can have a level."""

    @property
    def level(self) -> int:
        """The requested level of fault density; 0 for the default schedule of faults."""

    @property
    def faults(self) -> object:
        """Handwritten faults; None if there are none."""

    @property
    def scenario(self) -> object:
        """The scenario; None for an ordinary run."""

    @property
    def runs_already(self) -> bool:
        """Whether the run uses a cluster that is already running."""


def level_refusal(plan: Asked) -> str | None:
    """Return why the requested level is impossible; None if it is possible."""
    if not plan.level:
        return None
    refusals = {
        "faults written by hand have no level; remove the level or the faults": (
            plan.faults is not None
        ),
        "in a scenario the steps are the faults; remove the level": plan.scenario is not None,
        "an attached cluster gets only one fault at a time; remove the level": (plan.runs_already),
    }
    why = next((sentence for sentence, holds in refusals.items() if holds), None)
    return f"level: {why}" if why else None
