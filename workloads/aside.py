"""Run blocking calls in separate tasks, and handle their results in the crew's own loop."""

from collections.abc import Callable
from functools import partial
from queue import Empty
from typing import NoReturn, TypeVar

from results.record.runtime import Queue, new_queue, start

_Result = TypeVar("_Result")
_Work = Callable[[], Callable[[], None]]
"""A blocking call. It returns a function that handles the call's result."""


class Aside:
    """Tasks for calls that wait for a broker, so that the crew's loop never waits.

    Args:
        tasks: The maximum number of tasks. A task is started only when there is work for it.
    """

    def __init__(self, tasks: int) -> None:
        self._most, self._started = max(1, tasks), 0
        self._open = 0
        self._works: Queue[_Work] = new_queue()
        self._ended: Queue[Callable[[], None]] = new_queue()

    def do(self, work: Callable[[], _Result], done: Callable[[_Result], None]) -> None:
        """Start some work. Later, `serve` calls `done` with the result, exactly once."""
        self._open += 1
        if self._started < min(self._most, self._open):
            self._started += 1
            start(self._toil, f"aside-{self._started}")
        self._works.put(lambda: partial(done, work()))

    def serve(self, timeout_s: float) -> None:
        """Wait for a result, at most until the timeout, and handle all results that are there."""
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
    """In the crew's loop, raise the error of a finished task, so that no error is lost."""
    raise error
