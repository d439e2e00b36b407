"""Which runs have a level: how dense their faults are dealt, and how many of them overlap."""

from typing import Protocol

TOP_LEVEL = 6
"""The hardest; `nemesis/levels.py` says what each one is."""


class Asked(Protocol):
    """What of a plan decides it."""

    @property
    def level(self) -> int:
        """0: as faults are dealt by default."""

    @property
    def faults(self) -> object:
        """Those written by hand; None: there are none."""

    @property
    def scenario(self) -> object:
        """None: it is an ordinary run."""

    @property
    def runs_already(self) -> bool:
        """Whether the cluster is somebody's, and runs already."""


def level_refusal(plan: Asked) -> str | None:
    """Return why a run has no level, None if it has, or is asked for none."""
    if not plan.level:
        return None
    refusals = {
        "faults written by hand come as they are written; leave it or them out": (
            plan.faults is not None
        ),
        "a story's steps are its faults; leave it out": plan.scenario is not None,
        "a cluster that runs already is its owner's, and has one fault at a time; leave it out": (
            plan.runs_already
        ),
    }
    why = next((sentence for sentence, holds in refusals.items() if holds), None)
    return f"level: {why}" if why else None
