"""Work that waits: done in threads aside, its results taken in the crew's own thread."""

import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")


class Aside:
    """Threads for calls that wait for a broker, so that the loop never does.

    Args:
        threads: How many at most; none is started before there is work for it.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(max(1, threads), thread_name_prefix="aside")
        self._ended: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def do(self, work: Callable[[], _Result], done: Callable[[_Result], None]) -> None:
        """Start some work; `done` is called with its result, from `serve`, exactly one time."""

        def ended(future: Future[_Result]) -> None:
            # What the work raised is raised again there: a bug must not be lost with its thread.
            self._ended.put(lambda: done(future.result()))

        self._pool.submit(work).add_done_callback(ended)

    def serve(self, timeout_s: float) -> None:
        """Wait for results, at most that long, and hand on all that are there."""
        while True:
            try:
                hand_on = self._ended.get(block=timeout_s > 0, timeout=timeout_s or None)
            except queue.Empty:
                return
            hand_on()
            timeout_s = 0
