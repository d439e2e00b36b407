"""What all machines of simulated clients have in common: how they ask, and how long they wait."""

from collections.abc import Callable, Iterator
from itertools import count

from cluster.reference.machine import Request

MS = 1_000_000
WORK = "work"
"""The timer by which a machine is woken from outside."""
BACKOFF_NS = 100 * MS
ANSWERED_NS = 10_000 * MS
"""As the real clients' (`socket.timeout.ms`)."""

Taker = Callable[[int, object], None]
"""Takes the time and an answer, None if there is none."""


class Questions:
    """Requests that are under way, each with who takes its answer.

    Args:
        numbers: Of requests; two who ask on one machine share them.
    """

    def __init__(self, numbers: Iterator[int] | None = None) -> None:
        self._numbers = count(1) if numbers is None else numbers
        self._takers: dict[int, Taker] = {}

    def ask(self, to: int, message: object, taker: Taker, limit_ns: int = ANSWERED_NS) -> Request:
        """Return a request to a broker, whose answer is handed to a taker."""
        number = next(self._numbers)
        self._takers[number] = taker
        return Request(number=number, to=to, message=message, timeout_ns=limit_ns)

    def has(self, number: int) -> bool:
        """Tell whether a request is one of these."""
        return number in self._takers

    def answered(self, now: int, number: int, message: object) -> None:
        """Hand an answer on."""
        self._takers.pop(number)(now, message)
