"""What a run was played for: one entry of one night of a suite, or a repeat (`night.json`).

A suite writes it before the run starts, so that a run whose suite died is still known as that
night's. `logquake repro` writes it behind a run that came to its end, and names no suite. An
ordinary run has none.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Why(StrEnum):
    """Why a suite played a run."""

    PLANNED = "planned"
    SAME_SEED = "same-seed"
    FRESH_SEED = "fresh-seed"
    CONTROL = "control"

    @property
    def words(self) -> str:
        """Why, for people."""
        return _WORDS[self]


_WORDS = {
    Why.PLANNED: "entry of the suite",
    Why.SAME_SEED: "repeat with the same seed",
    Why.FRESH_SEED: "repeat with a new seed",
    Why.CONTROL: "the same plan on the control system",
}


class Night(BaseModel):
    """One run's place in a night.

    Attributes:
        suite: The suite's name; empty: none played it.
        night: The night's id, which sorts by time: `20261122T010000Z`; empty: none.
        entry: The matrix entry, unique in its suite: `log/kafka:4.3.1/namespace/partition+kill#3`;
            empty: none.
        why: As planned, or to measure how often a failure recurs.
        repeats: The run id of the failed run that is repeated; empty if planned.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    suite: str = ""
    night: str = ""
    entry: str = ""
    why: Why = Why.PLANNED
    repeats: str = ""
