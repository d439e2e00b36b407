"""An event that a signal's handler may set, whatever it interrupts."""

import os
import select
import weakref
from contextlib import suppress
from math import ceil


class SignalledEvent:
    """As `threading.Event`, without a lock.

    A handler runs between any two steps of the main thread, which may be in the middle of a wait
    for the very event, or of an earlier handler's `set`. It would wait for ever for a lock that
    these hold, as `threading.Event` and `threading.Semaphore` have one. So whoever waits does so
    for a pipe, into which `set` writes.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._end, self._start = os.pipe()
        for each in (self._end, self._start):
            os.set_blocking(each, False)
            closing = weakref.finalize(self, os.close, each)
            closing.atexit = False  # Threads that nobody joins may wait until the very end.

    def set(self) -> None:
        """Set it, and wake whoever waits."""
        self._is_set = True
        with suppress(BlockingIOError):  # It was set a thousand times: the pipe is full.
            os.write(self._start, b"!")

    def clear(self) -> None:
        """Take it back."""
        self._is_set = False
        with suppress(BlockingIOError):
            while os.read(self._end, select.PIPE_BUF):
                pass
        if self._is_set:  # By a handler meanwhile, whose byte is gone.
            self.set()

    def is_set(self) -> bool:
        """Tell whether it is set."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or for so many seconds; tell whether it is."""
        if not self._is_set:
            pipe = select.poll()
            pipe.register(self._end, select.POLLIN)
            # Rounded up: whoever waits again until a moment is there must get there.
            pipe.poll(None if timeout is None else ceil(timeout * 1000))
        return self._is_set
