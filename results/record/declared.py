"""The capabilities that a system declares: which observations and which faults are possible.

Kafka and the reference cluster permit all observations and all faults. For any other system,
`system.json` of the run declares the limits. The judge then skips the checks that need data which
the system does not provide.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from results.record.atomic import write_atomically
from results.record.plan import Plan
from results.record.reading import read_bytes


class Sight(StrEnum):
    """Data of a system that can be observed besides its clients' data."""

    REPLICA_LOGS = "replica-logs"
    """Each replica's records, in files of Kafka's format, after the last client has ended."""
    BROKER_LOGS = "broker-logs"
    """Log messages of brokers about their own actions, for example truncations."""
    CHECKPOINTS = "checkpoints"
    """The checkpoint files next to the logs, for example with the start of each leader epoch."""
    METADATA_LOG = "metadata-log"
    """The metadata log of the controller quorum."""
    LEADER_EPOCHS = "leader-epochs"
    """The leader of each partition in each epoch, and the ISR, as brokers report them."""
    HIGH_WATERMARKS = "high-watermarks"
    """The log end offset and the high watermark of each replica."""
    QUORUM = "quorum"
    """The leader of the controller quorum in each epoch."""
    ENDS = "ends"
    """Whether a broker ended or hung without a fault."""


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
"""Phrases for data that cannot be observed."""
_FILES = (Sight.REPLICA_LOGS, Sight.BROKER_LOGS, Sight.CHECKPOINTS, Sight.METADATA_LOG)
SHOWN_BY_FILES = frozenset(_FILES)
"""Data that is in the nodes' files after the last client has ended."""
_REST = (Sight.LEADER_EPOCHS, Sight.HIGH_WATERMARKS, Sight.QUORUM, Sight.ENDS)
AS_FAR_AS = "As far as "
"""Beginning of a sentence about the limits of a verdict."""


def in_words(sights: Iterable[Sight]) -> str:
    """Return kinds of data as a phrase, in fixed order: `its replica logs or its metadata log`."""
    wanted = frozenset(sights)
    return _listed([words for each, words in IN_WORDS.items() if each in wanted], "or")


def _listed(words: Sequence[str], joint: str) -> str:
    *most, last = words
    return f"{', '.join(most)} {joint} {last}" if most else last


def reach_without(sights: frozenset[Sight]) -> tuple[str, ...]:
    """Return sentences about the limits of a verdict when some data cannot be observed.

    Args:
        sights: Kinds of data that the run's checks need and that cannot be observed.

    Returns:
        The first sentence begins with `AS_FAR_AS`. The result is empty if nothing is missing.
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
    """The contents of `system.json`.

    Attributes:
        what: Readable name of the system: `kfake of franz-go`.
        sees: Data that can be observed.
        cannot: For each missing ability, the reason why the faults that need this ability are
            impossible.
        notes: Further sentences for the verdict.
        unread: Settings of brokers or topics that the system could not report. The checks that
            depend on these settings are skipped, and the verdict says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1
    what: str = Field(default="", max_length=200)
    sees: frozenset[Sight] = frozenset(Sight)
    cannot: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unread: frozenset[str] = frozenset()


class DeclaredError(ValueError):
    """An error: a run's `system.json` cannot be read."""


def dump_declared(declared: Declared, path: Path) -> None:
    """Write a run's `system.json`.

    Raises:
        StoreError: The file cannot be written.
    """
    write_atomically(path, declared.model_dump_json(indent=1) + "\n")


def load_declared(path: Path, plan: Plan) -> Declared:
    """Return the capabilities that the system of a run declared.

    For Kafka and the reference cluster the file may be missing.

    Raises:
        DeclaredError: The file is missing or invalid.
    """
    try:
        return Declared.model_validate_json(read_bytes(path))
    except FileNotFoundError as absent:
        if not plan.named.is_strange:
            return Declared()
        raise DeclaredError(
            f"{path.name} is missing, so it is not known what the system can show"
        ) from absent
    except (OSError, ValidationError) as damaged:
        raise DeclaredError(f"{path.name} cannot be read") from damaged
