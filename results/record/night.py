"""The file `night.json`: the suite entry to which a run belongs, or the failed run that it reruns.

A suite writes the file before the run starts. So the run is part of the nightly run even if the
suite dies. `logquake repro` writes the file after a run has finished, without a suite name. An
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
        night: Id of the nightly run: `20261122T010000Z`. Ids sort by time. Empty if there is none.
        entry: Entry of the suite's matrix, unique in the suite:
            `log/kafka:4.3.1/namespace/partition+kill#3`; empty if none.
        why: Whether the run was planned, or measures how often a failure recurs.
        repeats: Id of the failed run that this run reruns; empty for a planned run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    suite: str = ""
    night: str = ""
    entry: str = ""
    why: Why = Why.PLANNED
    repeats: str = ""
