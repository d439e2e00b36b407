"""The journal of a night: what was done, a line each, on disk before anything else happens.

`STORE/.suites/<suite>/<night>/journal.jsonl` is only ever appended to, and synced. A line that a
crash cut off had not been done; whoever goes on begins a new line. What the lines add up to is told
by `harness.suites.night`.
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
"""`<name>/<UTC time>-<seed>`, or none; whatever leads out of the store is none of ours."""


class _Line(BaseModel):
    """What all lines have: when, in seconds since 1970."""

    model_config = ConfigDict(frozen=True)

    at: float = Field(default_factory=unix_s)


class Begun(_Line):
    """The night began."""

    event: Literal["begun"] = "begun"
    suite: str
    night: str
    budget_s: float
    guided: bool | None = None
    """Of a hunt: whether what was reached decides what is drawn; None: nobody noted it."""


class Planned(_Line):
    """A run is to be played."""

    event: Literal["planned"] = "planned"
    item: int
    entry: str
    seed: int
    why: Why = Why.PLANNED
    repeats: str = ""
    """The run id of the failed run that is repeated."""
    lasts_s: float = 0
    """As far as the plan says: warm-up and main phase."""
    takes_s: float = 0
    """From its start to its verdict, as estimated; 0: it was not."""
    measured: bool = False
    """Whether runs of the store say so."""
    plan: dict[str, Any] = Field(default_factory=dict)
    """Of a run that a hunt drew: its plan, whole but for the seed; empty: its entry has it."""
    parent: str = ""
    """The run id of the run whose faults a hunt changed; empty: they are dealt."""
    otherwise: tuple[str, ...] = ()
    """Of a control's run: what else than the system is not as in the run that failed, in sentences.
    """


class Started(_Line):
    """A run has a folder, and nothing of it was started yet."""

    event: Literal["started"] = "started"
    item: int
    run_id: RunId


class Played(_Line):
    """A run was played, and all of it is on disk."""

    event: Literal["played"] = "played"
    item: int
    run_id: RunId
    sentence: str = ""
    """Why, if not to its end."""
    main_at: float = 0
    """When its main phase began, in seconds since 1970; 0: it had none, or nobody noted it."""
    main_s: float = 0
    """How long its main phase was."""
    dropped: tuple[str, ...] = ()
    """Which faults its plan asks for and its schedule left out, and why, in sentences."""


class CutShort(_Line):
    """A run died with its night; it was healed, is not judged, and is played anew."""

    event: Literal["cut-short"] = "cut-short"
    item: int
    run_id: RunId
    healed: tuple[str, ...] = ()
    """What was done, in sentences."""
    left: tuple[str, ...] = ()
    """What it left behind that could not be undone: `logquake heal` is for that."""


class Judged(_Line):
    """A run has its verdict."""

    event: Literal["judged"] = "judged"
    item: int
    run_id: RunId
    valid: Validity
    allowed: bool = False
    """Of a valid verdict: whether anomalies were found, and each is allowed."""
    as_expected: bool | None = None
    """Of a scenario: whether it ended as it is told; None: it is none, or nobody could say."""
    signature: str = ""
    """The key of what it is filed under; empty if nothing failed."""
    sentence: str = ""
    """What failed, in words."""
    reason: str = ""
    """The first broken guarantee with its ids, or why the verdict is unknown."""


class Reached(_Line):
    """What a run of a hunt reached, and which faults took effect in it.

    Of transitions and successions it has those that no earlier line of the journal has, and none
    if the run repeats another one.
    """

    event: Literal["reached"] = "reached"
    item: int
    transitions: tuple[str, ...] = ()
    successions: tuple[tuple[str, str], ...] = ()
    broken: tuple[str, ...] = ()
    """The promises that it broke, without their symptoms."""
    faults: tuple[PlannedFault, ...] = ()


class Unplayed(_Line):
    """There is no verdict, and there will be none tonight."""

    event: Literal["unplayed"] = "unplayed"
    item: int
    sentence: str
    run_id: RunId = ""


class LeftOut(_Line):
    """A run is not played, because the night is over."""

    event: Literal["left-out"] = "left-out"
    item: int
    sentence: str = "the budget was spent before its turn"
    """Why."""


class Stopped(_Line):
    """The night was stopped before its end; the same command goes on with it."""

    event: Literal["stopped"] = "stopped"
    sentence: str
    """Why."""


class Resumed(_Line):
    """The night goes on."""

    event: Literal["resumed"] = "resumed"


class Dropped(_Line):
    """Runs of this or earlier nights that retention removed."""

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
"""A night of ten thousand runs writes a tenth of it."""
_WORDS = ("sentence", "reason", "healed", "left", "dropped")
"""Of lines: what others may have said."""
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="event")])


class Journal:
    """Appends to a night's journal; used by one process at a time.

    Args:
        path: The file. The first line that is written creates it and its folder, because a folder
            with a journal counts as a night.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def write(self, *lines: Line) -> None:
        """Append lines; they are on disk when this returns.

        Raises:
            StoreError: The disk refuses.
        """
        text = b"".join(_dumped(line) + b"\n" for line in lines)
        with self._lock:
            append_synced(self._path, text)


def _dumped(line: Line) -> bytes:
    try:
        return _LINE.dump_json(line)
    except PydanticSerializationError:
        # Half of a surrogate pair, of a path that is no UTF-8: no reason to end a night.
        told = {name: _told(getattr(line, name)) for name in _WORDS if hasattr(line, name)}
        return _LINE.dump_json(line.model_copy(update=told))


def _told(words: str | tuple[str, ...]) -> str | tuple[str, ...]:
    return inert(words) if isinstance(words, str) else tuple(map(inert, words))


def load_journal(path: Path) -> list[Line]:
    """Return the lines of a journal; none if there is none."""
    try:
        return list(lines_of(read_bytes(path, max_bytes=MAX_JOURNAL_BYTES).split(b"\n")))
    except FileNotFoundError:
        return []
    except OSError as refused:
        raise store_error(path, refused) from refused


def lines_of(texts: Iterable[bytes]) -> Iterable[Line]:
    """Yield what can be read; a line that was cut off is left out."""
    for text in texts:
        try:
            yield _LINE.validate_json(text)
        except ValidationError:
            continue
