"""Work that waits: done in tasks aside, its results taken in the crew's own loop."""

from collections.abc import Callable
from functools import partial
from queue import Empty
from typing import NoReturn, TypeVar

from results.record.runtime import Queue, new_queue, start

_Result = TypeVar("_Result")
_Work = Callable[[], Callable[[], None]]
"""Does something, and returns what is to be done with the result."""


class Aside:
    """Tasks for calls that wait for a broker, so that the loop never does.

    Args:
        tasks: How many at most; none is started before there is work for it.
    """

    def __init__(self, tasks: int) -> None:
        self._most, self._started = max(1, tasks), 0
        self._open = 0
        self._works: Queue[_Work] = new_queue()
        self._ended: Queue[Callable[[], None]] = new_queue()

    def do(self, work: Callable[[], _Result], done: Callable[[_Result], None]) -> None:
        """Start some work; `done` is called with its result, from `serve`, exactly one time."""
        self._open += 1
        if self._started < min(self._most, self._open):
            self._started += 1
            start(self._toil, f"aside-{self._started}")
        self._works.put(lambda: partial(done, work()))

    def serve(self, timeout_s: float) -> None:
        """Wait for results, at most that long, and hand on all that are there."""
        while True:
            try:
                hand_on = self._ended.get(block=timeout_s > 0, timeout=timeout_s or None)
            except Empty:
                return
            self._open -= 1
            hand_on()
            timeout_s = 0

    def _toil(self) -> NoReturn:
        while True:
            work = self._works.get()
            try:
                ended = work()
            except Exception as error:  # noqa: BLE001 - raised again where the result is taken
                ended = partial(_raise, error)
            self._ended.put(ended)


def _raise(error: Exception) -> NoReturn:
    """Raise what some work raised: a bug must not be lost with its task."""
    raise error
