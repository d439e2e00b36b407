"""Patches of Kafka: each `edits/NAME.toml` adds one bug to one class of Kafka 4.3.1."""

import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from benchmarks.broken_kafka.compiling import compiled, source_of
from checkers.protocol import Promise

FOLDER = Path(__file__).with_name("edits")
PLANS: Mapping[str, tuple[str, ...]] = {
    "log": ("--time-limit", "40"),
    "txn": ("--workload", "txn", "--time-limit", "40"),
    "groups": ("--workload", "groups", "--time-limit", "40"),
    "shares": ("--workload", "shares", "--time-limit", "40"),
    "hasty": ("--nemesis-interval", "2", "--time-limit", "40"),
    "leadership": ("--nemesis", "leadership,kill", "--time-limit", "60"),
    "quorum": ("--nemesis", "leadership,partition", "--time-limit", "60"),
    "controllers": ("--nemesis", "leadership,pause,kill", "--time-limit", "60"),
}
"""The plans: options of `logquake run` without system and seed, by the plan's name.

One plan serves all patches of an area. Link cuts hit brokers only. So the plans that cut nodes off
from the controller quorum use brokers that are also controllers.
"""
MODES: Mapping[str, str] = {"controllers": ":controllers"}
"""The metadata mode of a plan, as a suffix of `--system`, if it is not the default mode."""


class DoesNotApplyError(ValueError):
    """The class does not contain the text to replace, or contains it more than once."""


class Patch(BaseModel):
    """A patch that adds one bug to one class of Kafka.

    Attributes:
        name: The name of the patch's file.
        area: The area of Kafka that the patch changes: `replication`.
        breaks: The effect of the bug, in a sentence.
        promise: The member of `checkers.protocol.Promise` that the bug breaks.
        plan: A name in `PLANS`.
        artifact: The Maven artifact whose sources contain the class: `kafka-storage`.
        source: The path of the class in that artifact's sources.
        find: The text to replace. The class contains it exactly once.
        put: The new text.
        unfound: Why no run finds this bug, as a person explained it; an empty string if a run finds
            it, or if no person has explained it yet.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    area: str
    breaks: str
    promise: str
    plan: str
    artifact: str
    source: str
    find: str
    put: str
    unfound: str = ""

    @property
    def digest(self) -> str:
        """Return a hash that changes if the patch or its plan changes."""
        parts = (self.source, self.find, self.put, *PLANS[self.plan], MODES.get(self.plan, ""))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

    def applied(self) -> str:
        """Return the source text of the class with the bug.

        Raises:
            DoesNotApplyError: The class does not have the text to replace exactly once.
            UserError: The sources of Kafka cannot be downloaded.
        """
        text = source_of(self.artifact, self.source)
        if (times := text.count(self.find)) != 1:
            raise DoesNotApplyError(
                f"{self.name}: what it replaces is {times} times in {self.source}; it must be once"
            )
        return text.replace(self.find, self.put)

    def compiled(self, folder: Path) -> Path:
        """Compile the patched class, and return a folder for `--system kafka:4.3.1+FOLDER`.

        Raises:
            DoesNotApplyError: The class does not have the text to replace exactly once.
            DoesNotCompileError: A compiler rejected the class.
            UserError: A needed file cannot be downloaded.
        """
        made = folder / f"{self.name}-{self.digest}"
        if not made.is_dir():
            compiled({self.source: self.applied()}, made)
        return made


def load_patches(folder: Path = FOLDER) -> list[Patch]:
    """Return all patches, sorted by area and name.

    Raises:
        ValueError: A file does not have the fields of `Patch`.
    """
    found = [
        Patch.model_validate({"name": file.stem, **tomllib.loads(file.read_text("utf-8"))})
        for file in sorted(folder.glob("*.toml"))
    ]
    for each in found:
        if each.plan not in PLANS or each.promise not in Promise.__members__:
            raise ValueError(f"{each.name}: no such plan or promise: {each.plan}, {each.promise}")
    areas = list(dict.fromkeys(AREAS))
    return sorted(found, key=lambda each: (areas.index(each.area), each.name))


AREAS = (
    "replication", "leader epochs", "elections", "the quorum", "producers' state", "transactions",
    "groups' commits", "share groups", "log loading and closing", "crashes",
)  # fmt: skip
