"""How simulated clients send requests to brokers, and how long they wait for responses."""

from collections.abc import Callable, Iterator
from itertools import count

from cluster.reference.machine import Request

MS = 1_000_000
WORK = "work"
"""The name of the timer that wakes a simulated client when another task calls the client."""
BACKOFF_NS = 100 * MS
ANSWERED_NS = 10_000 * MS
"""The request timeout in nanoseconds, as in real clients (`socket.timeout.ms`)."""

Taker = Callable[[int, object], None]
"""A function that receives the time and a response; None means that no response came."""


class Questions:
    """The requests in flight. Each has a function that receives the response.

    Args:
        numbers: The source of request numbers. All `Questions` of one machine share it.
    """

    def __init__(self, numbers: Iterator[int] | None = None) -> None:
        self._numbers = count(1) if numbers is None else numbers
        self._takers: dict[int, Taker] = {}

    def ask(self, to: int, message: object, taker: Taker, limit_ns: int = ANSWERED_NS) -> Request:
        """Return a new request to a broker. The function `taker` receives the response."""
        number = next(self._numbers)
        self._takers[number] = taker
        return Request(number=number, to=to, message=message, timeout_ns=limit_ns)

    def has(self, number: int) -> bool:
        """Return whether a request with this number is in flight."""
        return number in self._takers

    def answered(self, now: int, number: int, message: object) -> None:
        """Pass a response to the function that was registered for it."""
        self._takers.pop(number)(now, message)
