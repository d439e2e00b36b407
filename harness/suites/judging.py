"""The judge of a suite's night: a process with one engine judges each run after the run's end."""

import json
import os
import queue
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path

from harness.suites.lines import ALONE, END, ENGINE, PAGE, Child, Words
from results.record.clock import stopwatch_s
from results.record.terms import Validity

MODULE = "harness.suites.bench"
LIMIT_S = 1800.0
"""A judge must respond within this number of seconds if runs are waiting."""
END_LIMIT_S = 120.0
"""How long the judge may take at the end to write the remaining pages."""
MAX_DEATHS = 3
"""If the judge has died this number of times while it judged a run, the run is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WasJudged:
    """The event that a run has its verdict and its page.

    Attributes:
        run_id: The run.
        valid: The verdict.
        allowed: Whether the verdict is valid only because all anomalies are allowed.
        as_expected: For a scenario: whether the run ended as expected.
        signature, sentence: The failure's signature and description; an empty string if nothing
            failed.
        reason: A sentence with the reason for the verdict. If the cause is known, a second sentence
            names it.
    """

    run_id: str
    valid: Validity
    allowed: bool
    as_expected: bool | None
    signature: str
    sentence: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotJudged:
    """The event that a run could not be judged."""

    run_id: str
    sentence: str


JudgeEvent = WasJudged | NotJudged


@dataclass(slots=True)
class Judge:
    """The judge of a night.

    Args:
        engine: auto, spark or local.
        store: The folder of runs.
        folder: The night's folder, for the log and for temporary files.
        events: The queue that receives the judge's results.
    """

    engine: str
    store: Path
    folder: Path
    events: "queue.SimpleQueue[JudgeEvent]"
    starts: int = 0
    """How often the engine was started. More than once means that the engine died."""
    _child: Child | None = None
    _asked: bool = False
    _waiting: dict[Path, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _why: str = ""
    _heard_s: float = field(default_factory=stopwatch_s)

    @property
    def scratch(self) -> Path:
        """The folder of the engine's temporary files; it is deleted when the engine ends."""
        return self.folder / "scratch"

    def judge(self, run_id: str) -> None:
        """Send a run to the judge, which reports the result later as an event."""
        root = (self.store / run_id).absolute()
        with self._lock:
            self._asked = True
            self._waiting[root] = 0
            if self._child is None:
                self._start()
            else:
                self._order(self._child, root)

    def write_page(self, run_id: str) -> None:
        """Ask the judge to rewrite a run's page, if the engine runs.

        The judge sends no response.
        """
        root = (self.store / run_id).absolute()
        with self._lock:
            if self._child is not None:
                self._asked = True
                self._child.tell(json.dumps({"root": str(root), PAGE: True}))

    def open(self) -> None:
        """Start the engine, so that it is ready when the first run ends."""
        with self._lock:
            if self._child is None:
                self._start()

    def end_if_late(self) -> None:
        """If runs wait and the judge does not respond, kill the judge, so that a new one starts."""
        with self._lock:
            if self._child is not None and self._waiting:
                if stopwatch_s() - self._heard_s > LIMIT_S:
                    self._child.kill()
            else:
                self._heard_s = stopwatch_s()

    def close(self) -> None:
        """End the engine, and remove its temporary files."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            if not self._asked:
                child.kill()  # It may still be starting, but is not needed.
            child.tell(json.dumps({END: True}))
            child.close(END_LIMIT_S)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _start(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        self.starts += 1
        self._heard_s = stopwatch_s()
        settings = {"TMPDIR": str(self.scratch.absolute()), ENGINE: self.engine}
        child = Child(MODULE, self.folder / "judge.log", settings)
        self._child = child
        for root in self._waiting:
            self._order(child, root)
        threading.Thread(target=self._watch, args=(child,), name="judge", daemon=True).start()

    def _watch(self, child: Child) -> None:
        try:
            for answer in child.answers():
                self._heard_s = stopwatch_s()
                if "given_up" in answer:
                    self._given_up(answer)
                elif "root" in answer:
                    self._found(answer)
                elif "failed" in answer:
                    self._why = str(answer["failed"])
        finally:
            with self._lock:
                if self._child is child:  # The judge ended by itself.
                    self._child = None
                    child.kill()
                    child.close()
                    self._again()

    def _found(self, answer: Words) -> None:
        root = Path(str(answer["root"]))
        with self._lock:
            if self._waiting.pop(root, None) is None:
                return
        told = answer["as_expected"]
        self.events.put(
            WasJudged(
                run_id=self._run_id(root),
                valid=Validity(str(answer["valid"])),
                allowed=bool(answer["allowed"]),
                as_expected=told if isinstance(told, bool) else None,
                signature=str(answer["signature"]),
                sentence=str(answer["sentence"]),
                reason=str(answer["reason"]),
            )
        )

    def _given_up(self, answer: Words) -> None:
        root = Path(str(answer["root"]))
        with self._lock:
            if self._waiting.pop(root, None) is None:
                return
        self.events.put(NotJudged(run_id=self._run_id(root), sentence=str(answer["given_up"])))

    def _again(self) -> None:
        """Restart a judge that died. Give up the run that it judged, if this happened too often."""
        why = self._why or f"the judge's process exited; see {self.folder / 'judge.log'}"
        first = next(iter(self._waiting), None)
        if first is None:
            return
        self._waiting[first] += 1
        if self._waiting[first] >= MAX_DEATHS:
            del self._waiting[first]
            self.events.put(NotJudged(run_id=self._run_id(first), sentence=why))
        if self._waiting:
            self._start()

    def _order(self, child: Child, root: Path) -> None:
        child.tell(json.dumps({"root": str(root), ALONE: self.starts > 1}))

    def _run_id(self, root: Path) -> str:
        return os.fspath(root.relative_to(self.store.absolute()))
