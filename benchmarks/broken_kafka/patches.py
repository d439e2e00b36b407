"""The patches: `edits/NAME.toml` has one edit of one class of Kafka 4.3.1, and what it breaks."""

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
"""What `logquake run` is given, beside the system and the seed: by name, for whole areas.

Cuts are dealt to brokers, so only brokers that are controllers as well are cut off from the quorum.
"""
MODES: Mapping[str, str] = {"controllers": ":controllers"}
"""Of a plan: who keeps the metadata, where that is not as usual."""


class DoesNotApplyError(ValueError):
    """The text that a patch replaces is not in its class, or more than once."""


class Patch(BaseModel):
    """One mistake in one class.

    Attributes:
        name: Of its file.
        area: What it is about: `replication`.
        breaks: What goes wrong, in a sentence.
        promise: Which of `checkers.protocol.Promise` it breaks.
        plan: One of `PLANS`.
        artifact: In whose sources the class is: `kafka-storage`.
        source: The class, by its path there.
        find: What is replaced; it is there once.
        put: By what.
        unfound: Why it is not found, as a person looked into it; empty: it is, or nobody has.
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
        """Changes with what is played."""
        parts = (self.source, self.find, self.put, *PLANS[self.plan], MODES.get(self.plan, ""))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

    def applied(self) -> str:
        """Return the text of the class with its mistake.

        Raises:
            DoesNotApplyError: It is another class than the patch was made for.
            UserError: Its sources cannot be fetched.
        """
        text = source_of(self.artifact, self.source)
        if (times := text.count(self.find)) != 1:
            raise DoesNotApplyError(
                f"{self.name}: what it replaces is {times} times in {self.source}; it must be once"
            )
        return text.replace(self.find, self.put)

    def compiled(self, folder: Path) -> Path:
        """Compile the class; return a folder for `--system kafka:4.3.1+FOLDER`.

        Raises:
            DoesNotApplyError: It is another class than the patch was made for.
            DoesNotCompileError: A compiler refused.
            UserError: What is needed cannot be fetched.
        """
        made = folder / f"{self.name}-{self.digest}"
        if not made.is_dir():
            compiled({self.source: self.applied()}, made)
        return made


def load_patches(folder: Path = FOLDER) -> list[Patch]:
    """Return all patches, by area and name.

    Raises:
        ValueError: A file is not as `Patch` has it.
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
