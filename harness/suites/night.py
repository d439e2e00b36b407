"""Compute the state of a suite's night from the lines of its journal. This is a pure function."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from harness.suites.journal import (
    Begun,
    CutShort,
    Dropped,
    Ended,
    Judged,
    LeftOut,
    Line,
    Planned,
    Played,
    Reached,
    Resumed,
    Started,
    Stopped,
    Unplayed,
)
from results.record.night import Why
from results.record.terms import VALIDITY_RANK, Validity
from results.wording.headline import ALLOWED


class Phase(StrEnum):
    """The phases of a planned run."""

    WAITING = "waiting"
    UNDER_WAY = "under way"
    PLAYED = "played"
    JUDGED = "judged"
    UNPLAYED = "unplayed"
    LEFT_OUT = "left out"


OVER = frozenset({Phase.JUDGED, Phase.UNPLAYED, Phase.LEFT_OUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One planned run of a night.

    Attributes:
        planned: The journal's line that planned the run.
        phase: The current phase.
        run_id: The id of the run that counts; an empty string if no run has started.
        cut_short: Earlier runs of this item that died with the night's process.
        left: Sentences about changes of these dead runs that no heal could undo.
        started_at, played_at, judged_at: Times in seconds since 1970. 0 means that this has not
            happened yet.
        main_at: The time at which the main phase began, in seconds since 1970.
        main_s: The length of the main phase.
        dropped: Sentences that say which faults the schedule left out, and why.
        judged: The verdict.
        reached: For a run of a hunt: what the run reached.
        sentence: The reason why the item was not played, did not reach its end, or has no verdict.
    """

    planned: Planned
    phase: Phase = Phase.WAITING
    run_id: str = ""
    cut_short: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    started_at: float = 0
    played_at: float = 0
    judged_at: float = 0
    main_at: float = 0
    main_s: float = 0
    dropped: tuple[str, ...] = ()
    judged: Judged | None = None
    reached: Reached | None = None
    sentence: str = ""

    @property
    def number(self) -> int:
        """The item's number in the night."""
        return self.planned.item

    @property
    def entry(self) -> str:
        """The name of the item's entry."""
        return self.planned.entry

    @property
    def repeated(self) -> bool:
        """Whether the item is a rerun."""
        return self.planned.why is not Why.PLANNED

    @property
    def outcome(self) -> Validity | None:
        """The outcome that counts. A scenario is valid if it ended as expected.

        None means no outcome.
        """
        if self.phase is Phase.UNPLAYED:
            return Validity.UNKNOWN
        if self.judged is None:
            return None
        if self.judged.as_expected is None:
            return self.judged.valid
        if self.judged.as_expected:
            return Validity.VALID
        return max(self.judged.valid, Validity.UNKNOWN, key=VALIDITY_RANK.__getitem__)

    @property
    def tone(self) -> str:
        """The word that selects the colour of an item: the outcome, `allowed`, or the phase."""
        if self.outcome is None:
            return self.phase.value
        found = self.judged is not None and self.judged.allowed
        return ALLOWED if found and self.outcome is Validity.VALID else self.outcome.value

    @property
    def took_s(self) -> float:
        """How long the run was played."""
        return max(0.0, self.played_at - self.started_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightState:
    """The current state of a suite's night.

    Attributes:
        suite, night: The names of the suite and the night.
        begun_at: When the night began, in seconds since 1970.
        guided: For a hunt: whether earlier runs guide its choices; None means that the journal does
            not record this.
        budget_s: How long the night may last.
        items: The runs by number, in the order of the night. Reruns are added for failures.
        spans: The times during which a process played the night, as (start, end).
        ended: Whether the night is over.
        stopped: Why an unfinished night was stopped; an empty string if it goes on or was killed.
        dropped: The runs that retention deleted.
    """

    suite: str = ""
    night: str = ""
    begun_at: float = 0
    budget_s: float = 0
    guided: bool | None = None
    items: dict[int, Item] = field(default_factory=dict)
    spans: tuple[tuple[float, float], ...] = ()
    ended: bool = False
    stopped: str = ""
    dropped: tuple[str, ...] = ()

    @property
    def deadline(self) -> float:
        """The time at which the budget is spent, in seconds since 1970."""
        return self.begun_at + self.budget_s

    @property
    def active_s(self) -> float:
        """How long processes have played the night in total."""
        return sum(end - start for start, end in self.spans)

    @property
    def planned(self) -> list[Item]:
        """The items that are not reruns, one for each entry."""
        return [each for each in self.items.values() if not each.repeated]

    def having(self, *phases: Phase) -> list[Item]:
        """Return the items in the given phases, in order."""
        return [each for each in self.items.values() if each.phase in phases]

    @property
    def worst(self) -> Validity:
        """The worst outcome; `unknown` if there is no outcome."""
        outcomes = [each.outcome for each in self.items.values() if each.outcome is not None]
        return max(outcomes, key=VALIDITY_RANK.__getitem__, default=Validity.UNKNOWN)


def folded(lines: Iterable[Line], state: NightState | None = None) -> NightState:
    """Return the night's state after some lines of its journal.

    Args:
        lines: The lines, in order.
        state: The state before these lines; None means an empty state.
    """
    state = state or NightState()
    for line in lines:
        state = _with(state, line)
    return state


def _with(state: NightState, line: Line) -> NightState:
    state = replace(state, spans=_spans(state.spans, line))
    match line:
        case Begun():
            return replace(
                state,
                suite=line.suite,
                night=line.night,
                begun_at=line.at,
                budget_s=line.budget_s,
                guided=line.guided,
            )
        case Planned():
            return _put(state, state.items.get(line.item) or Item(planned=line))
        case Resumed() | Ended():
            return replace(state, ended=isinstance(line, Ended), stopped="")
        case Stopped():
            return replace(state, stopped=line.sentence)
        case Dropped():
            return replace(state, dropped=(*state.dropped, *line.run_ids))
        case _:
            item = state.items.get(line.item)
            return state if item is None else _put(state, _moved(item, line))


def _moved(
    item: Item, line: Started | Played | CutShort | Judged | Reached | Unplayed | LeftOut
) -> Item:
    """Return an item after one more line. A finished item never changes."""
    if isinstance(line, Reached):  # It comes after the verdict.
        return replace(item, reached=item.reached or line)
    if item.phase in OVER:
        return item
    match line:
        case Started():
            return replace(item, phase=Phase.UNDER_WAY, run_id=line.run_id, started_at=line.at)
        case CutShort():
            return replace(
                item,
                phase=Phase.WAITING,
                run_id="",
                cut_short=(*item.cut_short, line.run_id),
                left=(*item.left, *(f"{line.run_id}: {each}" for each in line.left)),
                started_at=0,
            )
        case Played():
            return replace(
                item,
                phase=Phase.PLAYED,
                played_at=line.at,
                # Old journals have no `main_at`. The phase has ended by the time of this line.
                main_at=line.main_at or line.at - line.main_s,
                main_s=line.main_s,
                dropped=line.dropped,
                sentence=line.sentence,
            )
        case _:
            return _over(item, line)


def _over(item: Item, line: Judged | Unplayed | LeftOut) -> Item:
    match line:
        case Judged():
            return replace(item, phase=Phase.JUDGED, judged=line, judged_at=line.at)
        case Unplayed():
            return replace(item, phase=Phase.UNPLAYED, sentence=line.sentence, judged_at=line.at)
        case LeftOut():
            return replace(item, phase=Phase.LEFT_OUT, sentence=line.sentence)


def _put(state: NightState, item: Item) -> NightState:
    return replace(state, items={**state.items, item.number: item})


def _spans(spans: Sequence[tuple[float, float]], line: Line) -> tuple[tuple[float, float], ...]:
    """Extend the last span to the time of this line; if the night was resumed, begin a new one."""
    if not spans or isinstance(line, Resumed):
        return (*spans, (line.at, line.at))
    *before, (start, end) = spans
    return (*before, (start, max(end, line.at)))
