"""The suite entry for which a run was executed, or the run that it reruns (`night.json`).

A suite writes the file before the run starts, so that the run belongs to its nightly run even if
the suite dies. `logquake repro` writes it after a run has finished, without a suite name. An
ordinary run has no such file.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Why(StrEnum):
    """The reason for which a suite executed a run."""

    PLANNED = "planned"
    SAME_SEED = "same-seed"
    FRESH_SEED = "fresh-seed"
    CONTROL = "control"

    @property
    def words(self) -> str:
        """The reason as a phrase."""
        return _WORDS[self]


_WORDS = {
    Why.PLANNED: "entry of the suite",
    Why.SAME_SEED: "rerun with the same seed",
    Why.FRESH_SEED: "rerun with a new seed",
    Why.CONTROL: "the same plan on the control system",
}


class Night(BaseModel):
    """The place of a run in a nightly run, i.e. in one execution of a suite.

    Attributes:
        suite: Name of the suite; empty if no suite executed the run.
        night: Id of the nightly run, which sorts by time: `20261122T010000Z`; empty if none.
        entry: Entry of the suite's matrix, unique in the suite:
            `log/kafka:4.3.1/namespace/partition+kill#3`; empty if none.
        why: Whether the run was planned, or measures how often a failure recurs.
        repeats: Id of the failed run that this run reruns; empty if planned.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    suite: str = ""
    night: str = ""
    entry: str = ""
    why: Why = Why.PLANNED
    repeats: str = ""
