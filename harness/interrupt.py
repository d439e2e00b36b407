"""Ctrl-C, once and twice, in the stage of a run and in its command; and the end of the parent.

The first Ctrl-C ends the main phase early: the run still heals, recovers, reads to the end and is
judged. The second one skips what is left but the healing. While the stage listens, it answers, by
its own console. Before and after that the command answers: before, no cluster is started; after,
the run is not judged. The parent's end kills this process, whose hosts then end all that they
started (`cluster.hosts.agent`).
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from itertools import count
from types import FrameType
from typing import Self

from rich.console import Console

from harness.signalled import SignalledEvent
from results.record.runtime import Event

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ANSWER_LIMIT_S = 5.0
INSIST_S = 0.2
LISTENING = "\n"
"""A stage writes it to its command when it begins to answer signals."""
BEGINNING = (
    "interrupted: no cluster is started, and the run ends within a few seconds (Ctrl-C again: end"
    " at once, without a verdict)"
)
HOSTS = (
    "interrupted: the run has ended and is not judged; its hosts are still checked, for 20 s at"
    " most (Ctrl-C again: end at once)"
)
ONCE = (
    "interrupted: no more faults; the faults are healed, the brokers recover and stop, and the"
    " record is judged, usually within a minute (Ctrl-C again: heal and stop only)"
)
TWICE = "interrupted again: only healing and stopping are left; the verdict will be unknown"
JUDGING = (
    "interrupted: the judgement ends without a verdict, usually within 10 s (Ctrl-C again changes"
    " nothing)"
)
DRAWING = "interrupted: the drawing ends, usually within a second (Ctrl-C again changes nothing)"
KEEPING = (
    "interrupted: no cluster is kept; the processes that were started are stopped (the"
    " verdict is kept)"
)


Answer = Callable[[str], None]
"""Prints a sentence, inside of a signal handler."""


def at_once(console: Console) -> Answer:
    """Return what prints on a console, which may be in the middle of a print; or says nothing."""

    def answer(sentence: str) -> None:
        if not console.quiet:
            start = "\n" if console.is_terminal else ""  # The terminal has printed `^C`.
            with suppress(OSError, ValueError):  # It may be gone, or be none.
                os.write(console.file.fileno(), f"{start}{sentence}\n".encode())

    return answer


@contextmanager
def postponed() -> Iterator[None]:
    """Postpone signals; a process that is started meanwhile takes them when it listens."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Interrupts:
    """Two events that the signals set.

    Args:
        event: Makes an event of the world whose life waits for them; a handler may set it.

    Attributes:
        finish: Set by the first signal: no new work, but an orderly end.
        abandon: Set by the second: heal and stop, nothing more.
    """

    def __init__(self, event: Callable[[], Event] = SignalledEvent) -> None:
        self.finish, self.abandon = event(), event()
        self._numbers = count(1)
        self._came: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._said: threading.Semaphore | None = None

    def listen(self) -> None:
        """Take SIGINT, SIGTERM and SIGHUP from now on, and those that were postponed."""
        for number in SIGNALS:
            signal.signal(number, self._interrupt)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def tell(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Have a thread of its own say at once that a signal came: handlers must not print."""
        said = self._said = threading.Semaphore(0)

        def heed() -> None:
            for say in (first, second):
                self._came.get()
                say()
                said.release()

        threading.Thread(target=heed, name="interrupts", daemon=True).start()

    def settle(self) -> int:
        """Take no more signals, and see that those taken are answered; return how many: 0 to 2."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        heard = self.finish.is_set() + self.abandon.is_set()
        if self._said is not None:
            for _ in range(heard):
                self._said.acquire(timeout=ANSWER_LIMIT_S)
        return heard

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signal's
        # It may interrupt a wait for what it sets, and itself: nothing here takes a lock.
        came = next(self._numbers)
        if came > 1:
            self.abandon.set()
        self.finish.set()
        self._came.put(came)


class Cut(KeyboardInterrupt):
    """Ends work that a signal cut short."""


class _State(Enum):
    """Who answers a signal, and how."""

    BEGINNING = auto()
    STAGE = auto()
    HOSTS = auto()
    CUT = auto()


class Answers:
    """Answers each signal that a run's command gets, from its folder's making to its end.

    Attributes:
        early: A signal came before the stage listened: no cluster is to be started.
        late: A signal came after the stage's end: the run is not to be judged.

    Args:
        run: The run, as it is typed after a command.
        say: Prints a sentence.
        stage_is_heard: Whether the stage's own answers reach the user; otherwise they are given
            here, in its place.
    """

    def __init__(self, run: str, say: Answer, *, stage_is_heard: bool = True) -> None:
        self.early = self.late = False
        self._stage_is_heard = stage_is_heard
        self._run, self._say = run, say
        self._state = _State.BEGINNING
        self._stage: subprocess.Popen[bytes] | None = None
        self._came = self._handed = 0
        self._cut = self._then = ""
        self._raised: weakref.ref[Cut] | None = None
        self._told_before = sys.unraisablehook
        self._over = threading.Event()
        self._insisting: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Take signals; one that is ignored, as SIGHUP under nohup, stays so."""
        taken = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._take) for number in taken}
        self._told_before, sys.unraisablehook = sys.unraisablehook, self._unraisable
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Restore the handlers; or ignore signals, if one ended the block."""
        self._over.set()
        if self._insisting is not None:  # Its last signal is ours to take.
            self._insisting.join()
        sys.unraisablehook = self._told_before
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if interrupted else handler)

    def begins(self, stage: "subprocess.Popen[bytes]") -> None:
        """Hand signals to a stage too, which takes them when it listens."""
        self._stage = stage

    def hand_on(self) -> None:
        """Leave the answers to the stage: it listens."""
        self._state = _State.STAGE

    def stage_ended(self, heard: int) -> None:
        """Answer again: the stage has ended, and answered so many signals."""
        missed = min(self._handed, 2) > heard
        self._stage, self._state, self._came = None, _State.HOSTS, 0
        if missed:
            self._take(signal.SIGINT, None)

    def cut(self, answer: str, then: str) -> None:
        """Let the first signal from now on end the work, by a `KeyboardInterrupt`.

        Args:
            answer: What is printed at once.
            then: The message of the `KeyboardInterrupt`: what was not done, and how to do it.

        Raises:
            KeyboardInterrupt: A signal came since the stage's end.
        """
        self._then = then
        if self._state is _State.CUT and self._came:  # The last part swallowed it, and has ended.
            raise self._made()
        if self.late:
            raise KeyboardInterrupt(then)
        self._cut, self._came, self._state = answer, 0, _State.CUT

    def heeded(self) -> None:
        """Note that the work that was cut has ended: nothing is cut any more."""
        self._over.set()

    def _take(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signal's
        self._came += 1
        if self._stage is not None and self._stage.poll() is None:
            self._stage.send_signal(signal.SIGINT)
            self._handed += 1
        match self._state:
            case _State.STAGE:
                if not self._stage_is_heard and self._came <= 2:  # noqa: PLR2004 - the second
                    self._say(ONCE if self._came == 1 else TWICE)
            case _State.BEGINNING:
                self._answer(BEGINNING)
                self.early = True
            case _State.HOSTS:
                self._answer(HOSTS)
                self.late = True
            case _State.CUT:
                if self._came == 1:
                    self._say(self._cut)
                    self._insisting = threading.Thread(target=self._insist, daemon=True)
                    self._insisting.start()
                    raise self._made()
                if self._is_swallowed() and not self._over.is_set():
                    raise self._made()

    def _made(self) -> Cut:
        # A name in the handler's own frame would keep it, by its traceback, for ever.
        made = Cut(self._then)
        self._raised = weakref.ref(made)
        return made

    def _unraisable(self, what: "sys.UnraisableHookArgs") -> None:
        """Report an exception that cannot be caught, but no cut: a cut is raised again."""
        if not issubclass(what.exc_type, Cut):
            self._told_before(what)

    def _is_swallowed(self) -> bool:
        return self._raised is not None and self._raised() is None

    def _insist(self) -> None:
        """Cut again whenever a library has swallowed the exception: the user was answered."""
        while not self._over.wait(INSIST_S):
            if self._is_swallowed():
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _answer(self, sentence: str) -> None:
        """Answer the first signal by a sentence, and the second by the end of the command."""
        if self._came == 1:
            self._say(sentence)
        elif self._came == 2:  # noqa: PLR2004 - the second
            raise KeyboardInterrupt(
                f"{self._run} was not judged; logquake heal undoes its remaining changes, and"
                f" logquake check {self._run} judges it"
            )


def die_with_parent() -> None:
    """Kill this process as soon as standard input, a pipe that the parent holds, is closed."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="parent", daemon=True).start()
