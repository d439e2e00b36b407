"""The journal of a suite's night. Each event gets a line before the night continues.

`STORE/.suites/<suite>/<night>/journal.jsonl` is only appended to, and synced. If a crash cut off a
line, the event of that line counts as not done. A resumed night begins a new line.
`harness.suites.night` computes the night's state from the lines.
"""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from results.record.atomic import append_synced, store_error
from results.record.clock import unix_s
from results.record.night import Why
from results.record.plan_parts import PlannedFault
from results.record.reading import read_bytes
from results.record.terms import Validity
from results.wording.inert import inert

RunId = Annotated[str, Field(pattern=r"^([^/.\x00][^/\x00]*/[^/.\x00][^/\x00]*)?$")]
"""A regex for an empty text or a run id: `<name>/<UTC time>-<seed>`. A path that leads out of the
store does not match."""


class _Line(BaseModel):
    """The common field of all lines: the time, in seconds since 1970."""

    model_config = ConfigDict(frozen=True)

    at: float = Field(default_factory=unix_s)


class Begun(_Line):
    """The night began."""

    event: Literal["begun"] = "begun"
    suite: str
    night: str
    budget_s: float
    guided: bool | None = None
    """For a hunt: whether earlier runs guide its choices; None if this was not recorded."""


class Planned(_Line):
    """A run is planned."""

    event: Literal["planned"] = "planned"
    item: int
    entry: str
    seed: int
    why: Why = Why.PLANNED
    repeats: str = ""
    """For a rerun: the run id of the failed run."""
    lasts_s: float = 0
    """The length of warm-up and main phase in the plan."""
    takes_s: float = 0
    """The estimated time from the start of the run to its verdict; 0 means no estimate."""
    measured: bool = False
    """Whether the estimate comes from runs in the store."""
    plan: dict[str, Any] = Field(default_factory=dict)
    """For a run of a hunt: the complete plan of the run, without the seed. It is empty if the plan
    comes from an entry."""
    parent: str = ""
    """For a run of a hunt that reuses faults: the id of the run whose faults were changed. It is
    empty if the faults are random."""
    otherwise: tuple[str, ...] = ()
    """For a control run: each difference from the failed run except the system, in sentences."""


class Started(_Line):
    """A run has a folder; no process of the run has started."""

    event: Literal["started"] = "started"
    item: int
    run_id: RunId


class Played(_Line):
    """A run was played, and its files are on disk."""

    event: Literal["played"] = "played"
    item: int
    run_id: RunId
    sentence: str = ""
    """Why the run was not played to its end; empty if the run reached its end."""
    main_at: float = 0
    """When the main phase began, in seconds since 1970. 0 means that the run had no main phase, or
    that its begin is not known."""
    main_s: float = 0
    """The length of the main phase."""
    dropped: tuple[str, ...] = ()
    """Sentences that say which faults of the plan the schedule left out, and why."""


class CutShort(_Line):
    """A run died with its night. The run was healed, is not judged, and will be played again."""

    event: Literal["cut-short"] = "cut-short"
    item: int
    run_id: RunId
    healed: tuple[str, ...] = ()
    """Sentences that say what the heal did."""
    left: tuple[str, ...] = ()
    """Sentences about changes that the heal could not undo. `logquake heal` tries again."""


class Judged(_Line):
    """A run has its verdict."""

    event: Literal["judged"] = "judged"
    item: int
    run_id: RunId
    valid: Validity
    allowed: bool = False
    """Whether the verdict is valid although anomalies were found, because all of them are
    allowed."""
    as_expected: bool | None = None
    """For a scenario: whether it ended as expected. None means that this is unknown, or that the
    run is no scenario."""
    signature: str = ""
    """The key of the failure's signature; empty if nothing failed."""
    sentence: str = ""
    """A description of the failure."""
    reason: str = ""
    """A sentence with the first broken guarantee and the ids in it, or with the reason why the
    verdict is unknown."""


class Reached(_Line):
    """The transitions that a run of a hunt reached, and the faults that took effect in it.

    The line has only those transitions and successions that are in no earlier line of the journal.
    For a rerun, the line has none of them.
    """

    event: Literal["reached"] = "reached"
    item: int
    transitions: tuple[str, ...] = ()
    successions: tuple[tuple[str, str], ...] = ()
    broken: tuple[str, ...] = ()
    """The broken promises, without their consequences."""
    faults: tuple[PlannedFault, ...] = ()


class Unplayed(_Line):
    """A run has no verdict, and will get none tonight."""

    event: Literal["unplayed"] = "unplayed"
    item: int
    sentence: str
    run_id: RunId = ""


class LeftOut(_Line):
    """A run is not played, because the night is over."""

    event: Literal["left-out"] = "left-out"
    item: int
    sentence: str = "the budget was used up before its turn"
    """Why the run is not played."""


class Stopped(_Line):
    """The night was stopped before its end. The same command resumes it."""

    event: Literal["stopped"] = "stopped"
    sentence: str
    """Why the night was stopped."""


class Resumed(_Line):
    """The night was resumed."""

    event: Literal["resumed"] = "resumed"


class Dropped(_Line):
    """Retention deleted runs of this night or of earlier nights."""

    event: Literal["dropped"] = "dropped"
    run_ids: tuple[RunId, ...]


class Ended(_Line):
    """The night is over."""

    event: Literal["ended"] = "ended"


Line = (
    Begun | Planned | Started | Played | CutShort | Judged | Reached | Unplayed | LeftOut | Stopped
    | Resumed | Dropped | Ended
)  # fmt: skip
MAX_JOURNAL_BYTES = 256 << 20
"""The journal's size limit. A night of ten thousand runs writes a tenth of this size."""
_WORDS = ("sentence", "reason", "healed", "left", "dropped")
"""The fields whose texts may contain paths or other foreign text with invalid characters."""
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="event")])


class Journal:
    """The writer of a night's journal. Only one process at a time may use it.

    Args:
        path: The journal's file. The first written line creates the file and its folder, because
            every folder with a journal counts as a night.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def write(self, *lines: Line) -> None:
        """Append lines. When this method returns, they are on disk.

        Raises:
            StoreError: The journal cannot be written.
        """
        text = b"".join(_dumped(line) + b"\n" for line in lines)
        with self._lock:
            append_synced(self._path, text)


def _dumped(line: Line) -> bytes:
    try:
        return _LINE.dump_json(line)
    except PydanticSerializationError:
        # A path that is not UTF-8 has a lone surrogate, which must not end the night.
        told = {name: _told(getattr(line, name)) for name in _WORDS if hasattr(line, name)}
        return _LINE.dump_json(line.model_copy(update=told))


def _told(words: str | tuple[str, ...]) -> str | tuple[str, ...]:
    return inert(words) if isinstance(words, str) else tuple(map(inert, words))


def load_journal(path: Path) -> list[Line]:
    """Return the lines of a journal; none if there is no journal."""
    try:
        return list(lines_of(read_bytes(path, max_bytes=MAX_JOURNAL_BYTES).split(b"\n")))
    except FileNotFoundError:
        return []
    except OSError as refused:
        raise store_error(path, refused) from refused


def lines_of(texts: Iterable[bytes]) -> Iterable[Line]:
    """Yield all readable lines, but not a line that was cut off."""
    for text in texts:
        try:
            yield _LINE.validate_json(text)
        except ValidationError:
            continue
