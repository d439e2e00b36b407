"""Ctrl-C, once and twice, and the end of the parent.

The first Ctrl-C ends the main phase early: the run still heals, recovers, reads to the end and is
judged. The second one skips what is left but the healing. The parent's end kills this process,
whose hosts then end all that they started (`cluster.hosts.agent`).
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType


class Interrupts:
    """Two events that the signals set.

    Attributes:
        finish: Set by the first signal: no new work, but an orderly end.
        abandon: Set by the second: heal and stop, nothing more.
    """

    def __init__(self) -> None:
        self.finish = threading.Event()
        self.abandon = threading.Event()

    def listen(self) -> None:
        """Take SIGINT, SIGTERM and SIGHUP from now on."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._interrupt)

    def tell(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Have a thread of its own say at once that a signal came: handlers must not print."""

        def heed() -> None:
            for event, say in ((self.finish, first), (self.abandon, second)):
                event.wait()
                say()

        threading.Thread(target=heed, name="interrupts", daemon=True).start()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signal's
        if self.finish.is_set():
            self.abandon.set()
        self.finish.set()


def die_with_parent() -> None:
    """Kill this process as soon as standard input, a pipe that the parent holds, is closed."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="parent", daemon=True).start()
