"""What a system declares of itself: what can be seen of it, and what cannot be done to it.

Kafka and the reference cluster show all that there is, and take all faults. What another system
declared lies in `system.json` of a run: its judge asks for no more.
"""

from collections.abc import Iterable, Mapping, Sequence
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
    BROKER_LOGS = "broker-logs"
    """What brokers write of their own doing, such as where they cut a log."""
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
    Sight.REPLICA_LOGS: "its replica logs",
    Sight.BROKER_LOGS: "its brokers' own logs",
    Sight.CHECKPOINTS: "its checkpoint files",
    Sight.METADATA_LOG: "its metadata log",
    Sight.LEADER_EPOCHS: "its leader epochs",
    Sight.HIGH_WATERMARKS: "its replicas' high watermarks",
    Sight.QUORUM: "its controllers' quorum",
    Sight.ENDS: "whether a broker ended by itself",
}
"""What cannot be read, or told, where a system does not show it."""
_FILES = (Sight.REPLICA_LOGS, Sight.BROKER_LOGS, Sight.CHECKPOINTS, Sight.METADATA_LOG)
SHOWN_BY_FILES = frozenset(_FILES)
"""What nodes' files show, after the last client has ended."""
_REST = (Sight.LEADER_EPOCHS, Sight.HIGH_WATERMARKS, Sight.QUORUM, Sight.ENDS)
AS_FAR_AS = "As far as "
"""How a sentence begins that says how far a verdict reaches."""


def in_words(sights: Iterable[Sight]) -> str:
    """Return some sights for people, in their order: `its replica logs or its metadata log`."""
    wanted = frozenset(sights)
    return _listed([words for each, words in IN_WORDS.items() if each in wanted], "or")


def _listed(words: Sequence[str], joint: str) -> str:
    *most, last = words
    return f"{', '.join(most)} {joint} {last}" if most else last


def reach_without(sights: frozenset[Sight]) -> tuple[str, ...]:
    """Return how far a verdict reaches where some things cannot be seen, in sentences.

    Args:
        sights: What the checks of a run would have needed.

    Returns:
        First one that begins with `AS_FAR_AS`; none where nothing is missing.
    """
    files, rest = ([each for each in kind if each in sights] for kind in (_FILES, _REST))
    told = []
    if files:
        words = [IN_WORDS[each].removeprefix("its ") for each in files]
        told.append(f"this system's {_listed(words, 'and')} cannot be read.")
    if rest:
        told.append(f"this system does not show {in_words(rest)}.")
    if not told:
        return ()
    who = "clients can see" if Sight.REPLICA_LOGS in sights else "can be seen"
    first, *others = told
    return f"{AS_FAR_AS}{who}: {first}", *(f"{each[0].upper()}{each[1:]}" for each in others)


class Declared(BaseModel):
    """What `system.json` holds.

    Attributes:
        what: The system for people: `kfake of franz-go`.
        sees: What can be seen of it.
        cannot: Why a fault's need is not there, by the name of the ability.
        notes: What else a verdict has to say, in sentences.
        unread: Settings of brokers or topics that the system could not tell: nothing that rests on
            them is promised, and the verdict says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1
    what: str = Field(default="", max_length=200)
    sees: frozenset[Sight] = frozenset(Sight)
    cannot: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unread: frozenset[str] = frozenset()


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
