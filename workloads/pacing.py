"""Open-loop pacing: arrivals on a schedule, whether or not a process is free to take them.

A closed loop would offer less just when the cluster is slow, and so hide it (coordinated omission).
Here an arrival that finds no free process waits a moment, and is then counted as missed.
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
    """Arrivals of one phase within one window: what was offered, and missed of it."""

    window_ns: int
    phase: Phase
    offered: int
    missed: int


class Arrivals:
    """The schedule of one worker; pure: it is told the time.

    Args:
        rate: Ops a second that this worker offers; 0: whatever can be taken.
        start_ns: The first arrival.
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
        """Let the arrivals come whose time has come, and give up those that waited too long."""
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
        """Take the oldest arrival that waits, if there is one; without a rate there always is."""
        if self._rate == 0:
            self._count(now_ns, phase).offered += 1
            self.offered += 1
            return True
        if not self._waiting:
            return False
        self._waiting.popleft()
        return True

    def give_up(self) -> None:
        """Miss all that wait: no further op is started."""
        while self._waiting:
            self._miss(*self._waiting.popleft())

    def next_ns(self) -> int:
        """Return when the next arrival is due."""
        return self._start_ns + int(self._scheduled * NS_PER_S / self._rate) if self._rate else 0

    def closed(self, now_ns: int | None = None) -> list[ArrivalCount]:
        """Return, once each, the windows that no arrival can change any more (None: all)."""
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
    """Something that happens at drawn times, as often at any rate.

    Args:
        random: The workload's.
        mean_s: From one time to the next, on average.
    """

    def __init__(self, random: Random, *, mean_s: float) -> None:
        self._random = random
        self._mean_s = mean_s
        self._due_ns = self._drawn_ns(0)

    def due(self, now_ns: int) -> bool:
        """Tell whether its time has come; if so, draw the next one."""
        if now_ns < self._due_ns:
            return False
        self._due_ns = self._drawn_ns(now_ns)
        return True

    def _drawn_ns(self, now_ns: int) -> int:
        return now_ns + round(self._random.expovariate(1 / self._mean_s) * NS_PER_S)
