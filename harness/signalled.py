"""An event that a signal handler can set safely, at any moment."""

import os
import select
import weakref
from contextlib import suppress
from math import ceil


class SignalledEvent:
    """An event like `threading.Event`, but without a lock.

    A signal handler may interrupt the main thread at any point: in a wait for this event, or in a
    call of `set` by an earlier handler. With `threading.Event` or `threading.Semaphore`,
    the thread would hold a lock at these points, and the handler would wait for that lock forever.
    So a waiting thread reads from a pipe, and `set` writes into the pipe.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._end, self._start = os.pipe()
        for each in (self._end, self._start):
            os.set_blocking(each, False)
            closing = weakref.finalize(self, os.close, each)
            closing.atexit = False  # Daemon threads may still wait at the interpreter's end.

    def set(self) -> None:
        """Set the event, and wake the threads that wait for it."""
        self._is_set = True
        with suppress(BlockingIOError):  # The pipe is full after a thousand calls.
            os.write(self._start, b"!")

    def clear(self) -> None:
        """Clear the event."""
        self._is_set = False
        with suppress(BlockingIOError):
            while os.read(self._end, select.PIPE_BUF):
                pass
        if self._is_set:  # A handler has set the event meanwhile, but the loop has read its byte.
            self.set()

    def is_set(self) -> bool:
        """Return whether the event is set."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set or the timeout is over; return whether the event is set."""
        if not self._is_set:
            pipe = select.poll()
            pipe.register(self._end, select.POLLIN)
            # Rounded up, so that a repeated wait reaches its deadline.
            pipe.poll(None if timeout is None else ceil(timeout * 1000))
        return self._is_set
