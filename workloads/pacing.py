"""Open-loop pacing: ops are due on a schedule, even if no process is free to execute them.

A closed loop would start fewer ops at exactly the times when the cluster is slow. So it would hide
the slowness (coordinated omission). Here, if no process is free for an arrival (an op that is due),
the arrival waits a moment, and then counts as missed.
"""

from collections import deque
from dataclasses import dataclass
from random import Random

from results.record.clock import NS_PER_S
from results.record.terms import Phase

PATIENCE_NS = 100_000_000
WINDOW_NS = 100_000_000


@dataclass(slots=True)
class _Window:
    offered: int = 0
    missed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalCount:
    """The numbers of arrivals and of missed arrivals, for one phase and one time window."""

    window_ns: int
    phase: Phase
    offered: int
    missed: int


class Arrivals:
    """The schedule of one worker's arrivals. It reads no clock: callers pass the time.

    Args:
        rate: The worker's ops per second. 0 means as many as possible.
        start_ns: The time of the first arrival.
    """

    def __init__(self, rate: float, *, start_ns: int) -> None:
        self._rate = rate
        self._start_ns = start_ns
        self._scheduled = 0
        self._waiting: deque[tuple[int, Phase]] = deque()
        self._windows: dict[tuple[int, Phase], _Window] = {}
        self.offered = 0
        self.missed = 0

    def offer(self, now_ns: int, phase: Phase) -> None:
        """Add the arrivals that are due, and drop those that have waited too long."""
        if self._rate == 0:
            return
        due_ns = self.next_ns()
        while due_ns <= now_ns:
            self._waiting.append((due_ns, phase))
            self._count(due_ns, phase).offered += 1
            self.offered += 1
            self._scheduled += 1
            due_ns = self.next_ns()
        while self._waiting and now_ns - self._waiting[0][0] > PATIENCE_NS:
            self._miss(*self._waiting.popleft())

    def take(self, now_ns: int, phase: Phase) -> bool:
        """Remove the oldest waiting arrival.

        Return whether there was one. Always True at rate 0.
        """
        if self._rate == 0:
            self._count(now_ns, phase).offered += 1
            self.offered += 1
            return True
        if not self._waiting:
            return False
        self._waiting.popleft()
        return True

    def give_up(self) -> None:
        """Count all waiting arrivals as missed, because no further op starts."""
        while self._waiting:
            self._miss(*self._waiting.popleft())

    def next_ns(self) -> int:
        """Return the time of the next arrival."""
        return self._start_ns + int(self._scheduled * NS_PER_S / self._rate) if self._rate else 0

    def closed(self, now_ns: int | None = None) -> list[ArrivalCount]:
        """Return the windows that cannot change any more, each only once; for None, all windows."""
        limit_ns = None if now_ns is None else now_ns - WINDOW_NS - 2 * PATIENCE_NS
        done = [key for key in self._windows if limit_ns is None or key[0] <= limit_ns]
        counts = []
        for window_ns, phase in sorted(done):
            count = self._windows.pop((window_ns, phase))
            counts.append(
                ArrivalCount(
                    window_ns=window_ns, phase=phase, offered=count.offered, missed=count.missed
                )
            )
        return counts

    def _miss(self, arrived_ns: int, phase: Phase) -> None:
        self._count(arrived_ns, phase).missed += 1
        self.missed += 1

    def _count(self, at_ns: int, phase: Phase) -> _Window:
        return self._windows.setdefault((at_ns // WINDOW_NS * WINDOW_NS, phase), _Window())


class Recurring:
    """An event at random times. The frequency does not depend on the rate of ops.

    Args:
        random: The workload's random source.
        mean_s: The average seconds between two events.
    """

    def __init__(self, random: Random, *, mean_s: float) -> None:
        self._random = random
        self._mean_s = mean_s
        self._due_ns = self._drawn_ns(0)

    def due(self, now_ns: int) -> bool:
        """Return whether the event is due; if so, choose its next time at random."""
        if now_ns < self._due_ns:
            return False
        self._due_ns = self._drawn_ns(now_ns)
        return True

    def _drawn_ns(self, now_ns: int) -> int:
        return now_ns + round(self._random.expovariate(1 / self._mean_s) * NS_PER_S)
