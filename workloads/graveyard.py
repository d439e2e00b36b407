"""Where clients go that nobody uses any more: closing one takes as long as a broker is silent."""

import queue
import threading
from collections.abc import Callable


class Graveyard:
    """Closes clients one after the other, in a thread aside."""

    def __init__(self) -> None:
        self._endings: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._dig, name="graveyard", daemon=True).start()

    def bury(self, end: Callable[[], None]) -> None:
        """Take a client's last call."""
        self._endings.put(end)

    def _dig(self) -> None:
        while True:
            self._endings.get()()
