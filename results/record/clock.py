"""The clock of a run, and the functions that wait.

All times in a record are nanoseconds of `CLOCK_MONOTONIC` since the run's start. Clients, nemesis
and observers are different processes on one machine, and this clock puts their events in order.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from results.record.runtime import Event, new_event, runtime

T = TypeVar("T")

NS_PER_S = 1_000_000_000


class WaitTimeoutError(TimeoutError):
    """An error: a condition did not become true within its time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunClock:
    """A clock that counts nanoseconds since the run's start.

    Attributes:
        start_ns: `CLOCK_MONOTONIC` at the run's start, equal in every process of the run.
    """

    start_ns: int

    @classmethod
    def starting_now(cls) -> "RunClock":
        """Return a clock that starts now."""
        return cls(start_ns=runtime().monotonic_ns())

    def now_ns(self) -> int:
        """Return the nanoseconds since the run's start."""
        return runtime().monotonic_ns() - self.start_ns


def seconds(time_ns: float) -> str:
    """Return nanoseconds as text: `17.490 s`. Digits are cut off, as in checkers' sentences."""
    return f"{int(time_ns) // 1_000_000 / 1000:.3f} s"


def stopwatch_s() -> float:
    """Return the time of a monotonic clock in seconds, for limits and durations only."""
    return runtime().monotonic_ns() / NS_PER_S


def unix_s() -> float:
    """Return seconds since 1970, to compare with a broker's wall clock; never used for ordering."""
    return runtime().unix_s()


def utc_now_text() -> str:
    """Return the wall clock as `20261121T104500Z`, for names of runs; never used for ordering."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def pause_until(deadline_s: float, stop: Event | None = None) -> bool:
    """Wait until `stopwatch_s()` reaches the deadline, for cases where no condition can be checked.

    Args:
        deadline_s: The deadline, in seconds by `stopwatch_s`.
        stop: An event that ends the wait early.

    Returns:
        True if `stop` was set.
    """
    remaining_s = max(0.0, deadline_s - stopwatch_s())
    return (stop or new_event()).wait(remaining_s)


def wait_until(
    probe: Callable[[], T | None],
    *,
    timeout_s: float,
    what: str,
    interval_s: float = 0.1,
    stop: Event | None = None,
) -> T:
    """Call `probe` repeatedly until it returns a truthy value.

    Args:
        probe: A function that returns the awaited value, or a falsy value.
        timeout_s: Time limit in seconds.
        what: The awaited event, as the end of the sentence "waited 30 s for ...".
        interval_s: Seconds between two calls.
        stop: An event that ends the wait early.

    Returns:
        The first truthy value.

    Raises:
        WaitTimeoutError: The limit was reached, or `stop` was set.
    """
    deadline_s = stopwatch_s() + timeout_s
    while not (answer := probe()):
        if stopwatch_s() >= deadline_s:
            raise WaitTimeoutError(f"waited {timeout_s:g} s for {what}")
        if pause_until(min(deadline_s, stopwatch_s() + interval_s), stop):
            raise WaitTimeoutError(f"was stopped while waiting for {what}")
    return answer
