"""The one clock of a run, and the one way to wait.

All times of a record are nanoseconds of `CLOCK_MONOTONIC` since the run's start, so that clients,
nemesis and observers, which are different processes on one machine, can be put in order.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from results.record.runtime import Event, new_event, runtime

T = TypeVar("T")

NS_PER_S = 1_000_000_000


class WaitTimeoutError(TimeoutError):
    """Something that was waited for did not come within its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunClock:
    """Nanoseconds since the run's start.

    Attributes:
        start_ns: `CLOCK_MONOTONIC` at the run's start; the same number in every process of the run.
    """

    start_ns: int

    @classmethod
    def starting_now(cls) -> "RunClock":
        """Return a clock whose zero is this moment."""
        return cls(start_ns=runtime().monotonic_ns())

    def now_ns(self) -> int:
        """Return the nanoseconds since the run's start."""
        return runtime().monotonic_ns() - self.start_ns


def seconds(time_ns: float) -> str:
    """Return `17.490 s`, cut off rather than rounded, as checkers' sentences have it."""
    return f"{int(time_ns) // 1_000_000 / 1000:.3f} s"


def stopwatch_s() -> float:
    """Return seconds on a clock that never goes back, for limits and durations only."""
    return runtime().monotonic_ns() / NS_PER_S


def unix_s() -> float:
    """Return seconds since 1970: to compare a broker's wall clock with ours, never for order."""
    return runtime().unix_s()


def utc_now_text() -> str:
    """Return the wall clock as `20261121T104500Z`: for names of runs, never for order."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def pause_until(deadline_s: float, stop: Event | None = None) -> bool:
    """Wait until `stopwatch_s()` reaches the deadline; pacing, where there is nothing to observe.

    Args:
        deadline_s: The moment, in seconds of `stopwatch_s`.
        stop: Ends the wait early when set.

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
    """Ask `probe` again and again until its answer is truthy.

    Args:
        probe: Returns what was waited for, or something falsy.
        timeout_s: The limit, in seconds.
        what: What is waited for, as the end of the sentence "waited 30 s for ...".
        interval_s: Between two questions, in seconds.
        stop: Ends the wait early when set.

    Returns:
        The first truthy answer.

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
