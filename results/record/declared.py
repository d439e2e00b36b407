"""What a system declares of itself: what can be seen of it, and what cannot be done to it.

Of Kafka and of the reference cluster all can be seen and done. Of another system what it declared
lies in `system.json` of a run: its judge asks for no more.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from results.record.atomic import write_atomically
from results.record.plan import Plan
from results.record.reading import read_bytes


class Sight(StrEnum):
    """What may be seen of a system beyond what its clients see."""

    REPLICA_LOGS = "replica-logs"
    """Each replica's records, in files of Kafka's format, after the last client has ended."""
    CHECKPOINTS = "checkpoints"
    """The files beside them, such as where leader epochs begin."""
    METADATA_LOG = "metadata-log"
    """The log of the controllers' quorum."""
    LEADER_EPOCHS = "leader-epochs"
    """Who leads a partition in which epoch, and the in-sync replicas, as brokers tell."""
    HIGH_WATERMARKS = "high-watermarks"
    """Of each replica: where its log ends, and what it takes for committed."""
    QUORUM = "quorum"
    """Who leads the controllers in which epoch."""
    ENDS = "ends"
    """That a broker ended, or stood still, by itself."""


IN_WORDS: Mapping[Sight, str] = {
    Sight.REPLICA_LOGS: "its replicas' logs",
    Sight.CHECKPOINTS: "its checkpoint files",
    Sight.METADATA_LOG: "its metadata log",
    Sight.LEADER_EPOCHS: "its leader epochs",
    Sight.HIGH_WATERMARKS: "its replicas' high watermarks",
    Sight.QUORUM: "its controllers' quorum",
    Sight.ENDS: "whether a broker of it ended by itself",
}
"""What cannot be read, or told, where a system does not show it."""


class Declared(BaseModel):
    """What `system.json` holds.

    Attributes:
        what: The system for people: `kfake of franz-go`.
        sees: What can be seen of it.
        cannot: Why a fault's need is not there, by the name of the ability.
        notes: What else a verdict has to say, in sentences: settings that could not be read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1
    what: str = Field(default="", max_length=200)
    sees: frozenset[Sight] = frozenset(Sight)
    cannot: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()


class DeclaredError(ValueError):
    """What a run's system declared cannot be read."""


def dump_declared(declared: Declared, path: Path) -> None:
    """Write `system.json` of a run.

    Raises:
        StoreError: It cannot be written.
    """
    write_atomically(path, declared.model_dump_json(indent=1) + "\n")


def load_declared(path: Path, plan: Plan) -> Declared:
    """Return what the system of a run declared.

    Kafka and the reference cluster need not have declared anything.

    Raises:
        DeclaredError: It is not there, or is something else.
    """
    try:
        return Declared.model_validate_json(read_bytes(path))
    except FileNotFoundError as absent:
        if not plan.named.is_strange:
            return Declared()
        raise DeclaredError(f"{path.name} is missing, which says what can be seen") from absent
    except (OSError, ValidationError) as damaged:
        raise DeclaredError(f"{path.name} cannot be read") from damaged
