"""Control a suite's night: start runs, get verdicts, rerun failures, and keep the journal.

Only this process writes the journal. It writes each event before it acts on the event. So after a
kill, the night can resume from the journal (`resumed`). The processes of the runs and of the judge
die with this process.
"""

import queue
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path

from harness.suites.choosing import estimate_s, next_item
from harness.suites.journal import (
    CutShort,
    Ended,
    Journal,
    Judged,
    LeftOut,
    Line,
    Played,
    Started,
    Stopped,
    Unplayed,
)
from harness.suites.judging import Judge, JudgeEvent, NotJudged, WasJudged
from harness.suites.night import Item, NightState, Phase, folded
from harness.suites.nights import NightFolder
from harness.suites.playing import Died, HasFolder, Order, Play, PlayEvent, WasPlayed, WasRefused
from harness.suites.repeats import measured
from harness.suites.slots import Slots, place_of
from harness.suites.source import Source
from harness.suites.suite import Suite
from results.record.atomic import StoreError
from results.record.clock import unix_s
from results.record.night import Night
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError
from results.record.story import load_story
from results.record.terms import Validity
from results.verdict_json import read_verdict
from results.wording.amounts import duration
from results.wording.headline import ALLOWED, headline

TICK_S = 0.5
INTERRUPTED = "the night was interrupted"
MAX_DEATHS = 2
"""After this number of deaths of its process in one night, a run is given up."""
LIMIT_FACTOR, LIMIT_S = 3.0, 300.0
"""The time limit of a run is the length of its plan times `LIMIT_FACTOR`, plus `LIMIT_S`."""

Change = Callable[[NightState, Line], None]
Event = PlayEvent | JudgeEvent


@dataclass(slots=True, kw_only=True)
class Conductor:
    """The conductor of one night: it starts runs, gets their verdicts, and reruns failures.

    Attributes:
        suite: The suite.
        source: The provider of the night's runs.
        store: The folder of runs.
        folder: The night's folder.
        slots: How many runs are in progress at once.
        deadline: The time at which the budget is spent, in seconds since 1970; 0 means that no more
            runs start.
        changed: The function that receives each line that is written to the journal.
        state: The night's current state.
    """

    suite: Suite
    source: Source
    store: Path
    folder: NightFolder
    slots: Slots
    deadline: float
    changed: Change = lambda _state, _line: None
    state: NightState = field(default_factory=NightState)
    _journal: Journal = field(init=False)
    _judge: Judge = field(init=False)
    _events: "queue.SimpleQueue[Event]" = field(default_factory=queue.SimpleQueue)
    _plays: dict[int, Play] = field(default_factory=dict)
    _places: dict[int, str] = field(default_factory=dict)
    _has_more: bool = True
    """Whether the source may still add runs."""
    _finishes: bool = False
    """Whether `finish` was called. A signal handler sets this, and must not take a lock."""
    _asked: Iterator[int] = field(default_factory=partial(count, 1))
    """A counter of calls of `finish`. It has no lock, because signal handlers may interrupt each
    other."""
    _deaths: dict[int, int] = field(default_factory=dict)
    _told_of_repeats: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Open the journal, and read it."""
        self._journal = Journal(self.folder.journal)
        self.state = self.folder.state()
        events: queue.SimpleQueue[JudgeEvent] = self._events  # type: ignore[assignment]  # It puts some of ours.
        self._judge = Judge(
            engine=self.suite.engine, store=self.store, folder=self.folder.root, events=events
        )

    def write(self, *lines: Line) -> None:
        """Write lines to the journal, and pass them on to `changed`."""
        if not lines:
            return
        self._journal.write(*lines)
        # A planned run may turn out to have no main phase, so ask the source again.
        self._has_more |= any(isinstance(each, Unplayed | Played) for each in lines)
        for line in lines:
            self.state = folded([line], self.state)
            self.changed(self.state, line)

    def finish(self) -> None:
        """Start no more runs, and let current runs end. A second call interrupts current runs."""
        asked = next(self._asked)
        self._finishes = True
        if asked > 1:
            for play in list(self._plays.values()):
                play.interrupt()

    def lead(self) -> None:
        """Play the night to its end.

        Raises:
            StoreError: The journal cannot be written, so the night must stop.
        """
        try:
            self._judge.open()
            for item in self.state.having(Phase.PLAYED):
                self._judge.judge(item.run_id)
            for item in self.state.having(Phase.JUDGED):
                if item.reached is None:  # The night died before this line.
                    self.write(*self.source.seen(item, self.state, self.store))
            self.write(*self.source.owed(self.state))
            while self._step():
                pass
            left = self.state.having(Phase.WAITING)
            if left and self._finishes:
                self.write(Stopped(sentence=INTERRUPTED))
            else:
                lines = [LeftOut(item=each.number, sentence=self._no_time(each)) for each in left]
                self.write(*lines, Ended())
            self._write_pages_anew()
        finally:
            self._judge.close()

    def _no_time(self, item: Item) -> str:
        """Return why a run was not played before the night's end."""
        if not self.deadline:
            return "the night was not resumed"
        left_s = self.deadline - unix_s()
        if left_s <= 0:
            return "the budget was used up before its turn"
        needs_s = estimate_s(self.state, item)
        return (
            f"{duration(round(left_s))} of the budget were left, but the entry needs about"
            f" {duration(round(needs_s))}"
        )

    def _step(self) -> bool:
        """Start all runs that can start, handle one event, and return whether the night goes on."""
        while self._has_room() and self._start_next():
            pass
        if not self._plays and not self.state.having(Phase.PLAYED):
            return False
        try:
            event = self._events.get(timeout=TICK_S)
        except queue.Empty:
            for play in self._plays.values():
                play.end_if_late()
            self._judge.end_if_late()
            return True
        self._take(event)
        self._write_pages_anew()
        return True

    def _has_room(self) -> bool:
        return self.slots.free([play.part() for play in self._plays.values()])

    def _start_next(self) -> bool:
        if self._finishes:
            return False
        taken = {self._places[number] for number in self._plays if self._places[number]}
        for item in self.state.having(Phase.WAITING):
            if item.number not in self._places:
                plan = self._plan(item)
                self._places[item.number] = place_of(plan) if plan else ""
        turn = next_item(
            _without(self.state, self._plays),
            share=self.suite.repeat.share,
            left_s=self.deadline - unix_s(),
            places=self._places,
            taken=taken,
            more=self._has_more,
        )
        waits = any(not each.repeated for each in self.state.having(Phase.WAITING))
        if turn is None and self._has_more and not waits:
            return self._draw()
        if turn is not None:
            self._start(turn)
        return turn is not None

    def _draw(self) -> bool:
        """Plan another run if it fits in the budget; return whether a run was planned."""
        left_s = self.deadline - unix_s()
        drawn = self.source.draw(self.state) if left_s > 0 else None
        if drawn is None or estimate_s(self.state, Item(planned=drawn)) > left_s:
            self._has_more = False
            if drawn is not None and not self.state.items:
                self.write(drawn)  # The run becomes `LeftOut`, with the reason.
            return bool(self.state.having(Phase.WAITING))
        self.write(drawn)
        return True

    def _plan(self, item: Item) -> Plan | None:
        try:
            return self.source.plan(item.planned)
        except PlanError:
            return None

    def _start(self, item: Item) -> None:
        planned = item.planned
        try:
            plan = self.source.plan(planned)
            sentence = "this night's suite has no such entry in this version of Logquake"
        except PlanError as refused:
            plan, sentence = None, str(refused)
        if plan is None:  # Another version of Logquake began the night.
            self.write(Unplayed(item=item.number, sentence=sentence))
            return
        night = Night(
            suite=self.suite.name,
            night=self.folder.night,
            entry=planned.entry,
            why=planned.why,
            repeats=planned.repeats,
        )
        order = Order(
            item=item.number,
            plan=plan,
            night=night,
            limit_s=LIMIT_FACTOR * planned.lasts_s + LIMIT_S,
        )
        events: queue.SimpleQueue[PlayEvent] = self._events  # type: ignore[assignment]  # It puts some of ours.
        play = Play(order, self.store, self.folder.log, events)
        play.start()  # Start it before it can be interrupted; this thread reads its events.
        self._plays[item.number] = play

    def _take(self, event: Event) -> None:
        match event:
            case HasFolder():
                self.write(Started(item=event.item, run_id=event.run_id))
                self._plays[event.item].go()
            case WasPlayed():
                self._plays.pop(event.item)
                self.write(
                    Played(
                        item=event.item,
                        run_id=event.run_id,
                        sentence=event.sentence,
                        main_at=event.main_at,
                        main_s=event.main_s,
                        dropped=event.dropped,
                    )
                )
                self._judge.judge(event.run_id)
            case WasRefused():
                self._plays.pop(event.item)
                self.write(Unplayed(item=event.item, sentence=event.sentence))
            case Died():
                self._died(event)
            case WasJudged():
                self._judged(event)
            case NotJudged():
                self._not_judged(event)

    def _died(self, event: Died) -> None:
        """Handle the death of a run's process: play the run again, or give it up."""
        self._plays.pop(event.item)
        self._deaths[event.item] = self._deaths.get(event.item, 0) + 1
        if event.run_id:
            self.write(
                CutShort(item=event.item, run_id=event.run_id, healed=event.healed, left=event.left)
            )
        if self._deaths[event.item] >= MAX_DEATHS:
            why = event.healed[0] if event.healed else "its process ended"
            sentence = f"the entry could not run: {why}; see {self.folder.log}"
            self.write(Unplayed(item=event.item, sentence=sentence, run_id=event.run_id))

    def _judged(self, event: WasJudged) -> None:
        for item in self._played_as(event.run_id):
            judged = Judged(
                item=item.number,
                run_id=event.run_id,
                valid=event.valid,
                allowed=event.allowed,
                as_expected=event.as_expected,
                signature=event.signature,
                sentence=event.sentence,
                reason=event.reason,
            )
            self.write(judged, *self.source.seen(item, self.state, self.store))
        self.write(*self.source.owed(self.state))

    def _not_judged(self, event: NotJudged) -> None:
        """Give up a run that was not judged. But if its stored verdict is invalid, that counts."""
        known = known_verdict(RunPaths(self.store / event.run_id))
        if known is not None and known.valid is Validity.INVALID:
            self._judged(replace(known, reason=event.sentence))
            return
        for item in self._played_as(event.run_id):
            self.write(Unplayed(item=item.number, sentence=event.sentence, run_id=event.run_id))

    def _write_pages_anew(self) -> None:
        """Rewrite the pages of runs whose reruns are complete."""
        for run_id in sorted(measured(self.state) - self._told_of_repeats):
            self._judge.write_page(run_id)
            self._told_of_repeats.add(run_id)

    def _played_as(self, run_id: str) -> list[Item]:
        return [each for each in self.state.having(Phase.PLAYED) if each.run_id == run_id]


def known_verdict(paths: RunPaths) -> WasJudged | None:
    """Read the verdict in a run's folder, but compute no signature; None if there is no verdict."""
    try:
        verdict, story = read_verdict(paths.verdict), load_story(paths.story)
    except (StoreError, ValueError):
        return None
    if verdict is None:
        return None
    return WasJudged(
        run_id=paths.run_id,
        valid=verdict.valid,
        allowed=headline(verdict).tone == ALLOWED,
        as_expected=story.as_expected if story else None,
        signature="",
        sentence="",
        reason="",
    )


def _without(state: NightState, plays: Mapping[int, Play]) -> NightState:
    """Return the night's state without runs that are about to start and have no folder yet."""
    starting = [n for n in plays if state.items[n].phase is Phase.WAITING]
    if not starting:
        return state
    moved = {n: each for n, each in state.items.items() if n not in starting}
    return replace(state, items=moved)
