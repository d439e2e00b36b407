"""Handle Ctrl-C in a run's command and in its stage, and kill the stage if its parent dies.

The stage is the child process that plays the run. The first Ctrl-C ends the main phase early. The
run still heals its faults, recovers, does its final reads and is judged. The second Ctrl-C skips
everything except healing and stopping.

After each signal, a sentence tells the user what happens next. While the stage listens for signals,
the stage prints this sentence. At other times, the command prints it. After a signal that comes
before the stage listens, no cluster is started. After a signal that comes after the stage's end,
the run is not judged.

If the parent dies, this module kills the stage. The stage's hosts then end all processes that they
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
"""The line that a stage writes to its parent when it begins to handle signals."""
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
"""A function that prints a sentence and can be called inside a signal handler."""


def at_once(console: Console) -> Answer:
    """Return a function that prints on a console, even during another print.

    The function prints nothing if the console is quiet.
    """

    def answer(sentence: str) -> None:
        if not console.quiet:
            start = "\n" if console.is_terminal else ""  # The terminal has printed `^C`.
            with suppress(OSError, ValueError):  # The terminal may be closed.
                os.write(console.file.fileno(), f"{start}{sentence}\n".encode())

    return answer


@contextmanager
def postponed() -> Iterator[None]:
    """Postpone signals. A process that starts meanwhile receives them as soon as it listens."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Interrupts:
    """Two events: the first signal sets one, and the second signal sets the other.

    Args:
        event: The function that creates an event, in real or virtual time. A signal handler may set
            the event.

    Attributes:
        finish: The event that the first signal sets. It means: start no new work, and end in the
            usual way.
        abandon: The event that the second signal sets. It means: only heal and stop.
    """

    def __init__(self, event: Callable[[], Event] = SignalledEvent) -> None:
        self.finish, self.abandon = event(), event()
        self._numbers = count(1)
        self._came: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._said: threading.Semaphore | None = None

    def listen(self) -> None:
        """Handle SIGINT, SIGTERM and SIGHUP from now on, including postponed signals."""
        for number in SIGNALS:
            signal.signal(number, self._interrupt)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def tell(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Start a thread that reports each signal at once, because signal handlers must not print.

        Args:
            first: The function that reports the first signal.
            second: The function that reports the second signal.
        """
        said = self._said = threading.Semaphore(0)

        def heed() -> None:
            for say in (first, second):
                self._came.get()
                say()
                said.release()

        threading.Thread(target=heed, name="interrupts", daemon=True).start()

    def settle(self) -> int:
        """Ignore further signals, wait for the reports of earlier ones, and return their count."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        heard = self.finish.is_set() + self.abandon.is_set()
        if self._said is not None:
            for _ in range(heard):
                self._said.acquire(timeout=ANSWER_LIMIT_S)
        return heard

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signal's
        # The handler may interrupt a wait for these events, or itself, so it takes no lock.
        came = next(self._numbers)
        if came > 1:
            self.abandon.set()
        self.finish.set()
        self._came.put(came)


class Cut(KeyboardInterrupt):
    """The exception that interrupts the current work after a signal."""


class _State(Enum):
    """The states of a run's command. The state decides how the command responds to a signal."""

    BEGINNING = auto()
    STAGE = auto()
    HOSTS = auto()
    CUT = auto()


class Answers:
    """The handler of all signals to a run's command, after the run's folder has been created.

    Attributes:
        early: Whether a signal came before the stage listened. Then no cluster is started.
        late: Whether a signal came after the stage's end. Then the run is not judged.

    Args:
        run: The name of the run on the command line.
        say: The function that prints a sentence.
        stage_is_heard: Whether the user sees the output of the stage. If False, this object prints
            the sentences of the stage.
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
        """Install the signal handlers, except for ignored signals (SIGHUP under nohup)."""
        taken = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._take) for number in taken}
        self._told_before, sys.unraisablehook = sys.unraisablehook, self._unraisable
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Restore the signal handlers; but if a signal ended the block, ignore further signals."""
        self._over.set()
        if self._insisting is not None:  # Its last signal must be handled here.
            self._insisting.join()
        sys.unraisablehook = self._told_before
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if interrupted else handler)

    def begins(self, stage: "subprocess.Popen[bytes]") -> None:
        """Pass signals on to a stage, too. The stage receives the signals when it listens."""
        self._stage = stage

    def hand_on(self) -> None:
        """From now on, let the stage respond to signals, because the stage listens for signals."""
        self._state = _State.STAGE

    def stage_ended(self, heard: int) -> None:
        """From now on, respond to signals here, because the stage has ended.

        Args:
            heard: The number of signals that the stage has handled.
        """
        missed = min(self._handed, 2) > heard
        self._stage, self._state, self._came = None, _State.HOSTS, 0
        if missed:
            self._take(signal.SIGINT, None)

    def cut(self, answer: str, then: str) -> None:
        """From now on, let the first signal interrupt the current work with a `KeyboardInterrupt`.

        Args:
            answer: The sentence that is printed at once.
            then: The message of the `KeyboardInterrupt`. It names the missing step and the command
                for this step.

        Raises:
            KeyboardInterrupt: A signal has come since the stage's end.
        """
        self._then = then
        if self._state is _State.CUT and self._came:  # The last step has swallowed the `Cut`.
            raise self._made()
        if self.late:
            raise KeyboardInterrupt(then)
        self._cut, self._came, self._state = answer, 0, _State.CUT

    def heeded(self) -> None:
        """Record that the interrupted work has ended, so that no other work is interrupted."""
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
        # A local name in the handler would keep the `Cut` alive: its traceback holds that frame.
        made = Cut(self._then)
        self._raised = weakref.ref(made)
        return made

    def _unraisable(self, what: "sys.UnraisableHookArgs") -> None:
        """Report an exception that cannot be caught. Ignore a `Cut`: it is raised again."""
        if not issubclass(what.exc_type, Cut):
            self._told_before(what)

    def _is_swallowed(self) -> bool:
        return self._raised is not None and self._raised() is None

    def _insist(self) -> None:
        """Interrupt again each time a library has swallowed the `Cut`."""
        while not self._over.wait(INSIST_S):
            if self._is_swallowed():
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _answer(self, sentence: str) -> None:
        """Print a sentence after the first signal; end the command after the second signal."""
        if self._came == 1:
            self._say(sentence)
        elif self._came == 2:  # noqa: PLR2004 - the second
            raise KeyboardInterrupt(
                f"{self._run} was not judged; logquake heal undoes its remaining changes, and"
                f" logquake check {self._run} judges it"
            )


def die_with_parent() -> None:
    """Kill this process when its standard input closes, i.e. when its parent dies."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="parent", daemon=True).start()
