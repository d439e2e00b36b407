"""The runs in progress in a suite's night, with one process and one thread for each run."""

import json
import queue
import threading
from dataclasses import dataclass, field
from pathlib import Path

from cluster.hosts.heal import Healed
from harness.dead_runs import heal_dead_run
from harness.endings import note
from harness.suites.lines import GO, Child, Words
from harness.suites.slots import Part
from results.record.clock import stopwatch_s
from results.record.milestones import Milestone, load_milestones
from results.record.night import Night
from results.record.paths import RunPaths
from results.record.plan import Plan

MODULE = "harness.suites.player"
CUT_SHORT = "cut-short"
ENDING = frozenset({"final-reads", "noted", "stopped", "collected", "failed"})
"""Milestones that come after a run's clients have ended."""
START_LIMIT_S = 60.0
"""How long, at most, other runs wait until a starting run has started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HasFolder:
    """The event that the folder of a run exists, and that the run waits for `Play.go`."""

    item: int
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WasPlayed:
    """The event that a run was played. It may have ended early."""

    item: int
    run_id: str
    sentence: str
    main_at: float
    main_s: float
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WasRefused:
    """The event that a run could not be played, for a reason that the user can fix."""

    item: int
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The event that a run's process died. The run was healed, except for the changes in `left`."""

    item: int
    run_id: str
    healed: tuple[str, ...]
    left: tuple[str, ...] = ()


PlayEvent = HasFolder | WasPlayed | WasRefused | Died


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One run to play.

    Attributes:
        item: The run's number in the night.
        plan: The plan, from the run's entry.
        night: The night's data, which are stored in the run's folder.
        limit_s: How long the run may take. After this time, it is ended.
    """

    item: int
    plan: Plan
    night: Night
    limit_s: float


@dataclass(slots=True)
class Play:
    """One run in progress.

    Args:
        order: The run to play.
        store: The folder of runs.
        log: The file for the process's error output.
        events: The queue that receives the run's events.
    """

    order: Order
    store: Path
    log: Path
    events: "queue.SimpleQueue[PlayEvent]"
    begun_s: float = field(default_factory=stopwatch_s)
    _child: Child = field(init=False)
    _run_id: str = ""
    _part: Part = Part.STARTING

    def start(self) -> None:
        """Start the run's process."""
        self._child = Child(MODULE, self.log)
        threading.Thread(target=self._watch, name=f"item {self.order.item}", daemon=True).start()

    def go(self) -> None:
        """Let the run begin, because its id is in the journal."""
        self._child.tell(GO)

    def part(self) -> Part:
        """Return the run's phase: starting, at work (main phase), or ending (no clients run)."""
        if self._part is Part.ENDING:
            return self._part
        reached: set[str] = set()
        if self._run_id:
            milestones = load_milestones(RunPaths(self.store / self._run_id).milestones)
            reached = {each.name for each in milestones}
        if reached & ENDING:  # The rest of the run is not timed.
            self._part = Part.ENDING
        elif "main" in reached or stopwatch_s() - self.begun_s > START_LIMIT_S:
            self._part = Part.AT_WORK
        return self._part

    def interrupt(self) -> None:
        """Make the run end its main phase now."""
        self._child.interrupt()

    def end_if_late(self) -> bool:
        """Kill the run if it takes longer than its limit; return whether the run was killed."""
        if stopwatch_s() - self.begun_s < self.order.limit_s:
            return False
        self._child.kill()
        return True

    def _watch(self) -> None:
        plan = self.order.plan.model_dump(mode="json", exclude_unset=True)
        words = {
            "plan": plan,
            "store": str(self.store.absolute()),
            "night": self.order.night.model_dump(mode="json"),
        }
        self._child.tell(json.dumps(words))
        last: Words = {}
        for answer in self._child.answers():
            last = answer
            if "run_id" in answer and "ending" not in answer:
                self._run_id = str(answer["run_id"])
                self.events.put(HasFolder(item=self.order.item, run_id=self._run_id))
        status = self._child.close()
        event: PlayEvent = Died(item=self.order.item, run_id=self._run_id, healed=())
        try:
            event = self._end(last, status)
        finally:  # The conductor must always get an event.
            self.events.put(event)

    def _end(self, last: Words, status: int) -> PlayEvent:
        item = self.order.item
        if "ending" in last:
            main_at, main_s, dropped = last["main_at"], last["main_s"], last["dropped"]
            assert isinstance(main_at, int | float)
            assert isinstance(main_s, int | float)
            assert isinstance(dropped, list)
            return WasPlayed(
                item=item,
                run_id=self._run_id,
                sentence=str(last["sentence"]),
                main_at=main_at,
                main_s=main_s,
                dropped=tuple(map(str, dropped)),
            )
        if "refused" in last:
            return WasRefused(item=item, sentence=str(last["refused"]))
        healed = heal(self.store, self._run_id) if self._run_id else Healed()
        how = f"its process exited with status {status}"
        return Died(item=item, run_id=self._run_id, healed=(how, *healed.done), left=healed.failed)


def heal(store: Path, run_id: str) -> Healed:
    """Undo what a dead run left behind; return sentences on what was done, and on what failed."""
    paths = RunPaths(store / run_id)
    return heal_dead_run(paths) if paths.root.is_dir() else Healed()


def note_cut_short(paths: RunPaths, *, at_ns: int) -> None:
    """Record in a run's milestones that the run died with its night, and never gets a verdict."""
    detail = {"kind": CUT_SHORT, "sentence": "the run died with its night and was rerun"}
    note(paths, Milestone(name="failed", at_ns=at_ns, detail=detail))
