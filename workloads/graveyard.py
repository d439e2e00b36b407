"""Where clients go that nobody uses any more: closing one takes as long as a broker is silent."""

from collections.abc import Callable
from typing import NoReturn

from results.record.runtime import Queue, new_queue, start


class Graveyard:
    """Closes clients one after the other, in a task aside."""

    def __init__(self) -> None:
        self._endings: Queue[Callable[[], None]] = new_queue()
        start(self._dig, "graveyard")

    def bury(self, end: Callable[[], None]) -> None:
        """Take a client's last call."""
        self._endings.put(end)

    def _dig(self) -> NoReturn:
        while True:
            self._endings.get()()
