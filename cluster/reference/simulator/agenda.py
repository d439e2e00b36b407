"""The agenda of a simulation: all scheduled calls, in the order of virtual time."""

import gc
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

Deed = Callable[..., object]
_OBJECTS_BETWEEN_SEARCHES = 100_000


class Agenda:
    """Virtual time, and the scheduled calls.

    Two calls at the same time are made in the order in which they were scheduled. So the order
    depends only on the seed.

    Attributes:
        now: Nanoseconds since the simulation's start.
        happened: The number of calls made.
    """

    __slots__ = ("_heap", "_noted", "happened", "now")

    def __init__(self) -> None:
        self.now = 0
        self.happened = 0
        self._heap: list[tuple[int, int, Deed, tuple[Any, ...]]] = []
        self._noted = 0

    def at(self, time_ns: int, deed: Deed, *args: object) -> None:
        """Schedule `deed(*args)` at a time.

        If this time is past, the call is due now. Calls that are already due come first.
        """
        self._noted += 1
        heappush(self._heap, (max(time_ns, self.now), self._noted, deed, args))

    def coming(self, time_ns: int, deed: Deed, *args: object) -> None:
        """Schedule `deed(*args)` as `at` does. This is faster, but the time must not be past."""
        self._noted += 1
        heappush(self._heap, (time_ns, self._noted, deed, args))

    def after(self, delay_ns: int, deed: Deed, *args: object) -> None:
        """Schedule `deed(*args)` after some nanoseconds."""
        self._noted += 1
        heappush(self._heap, (self.now + delay_ns, self._noted, deed, args))

    def hasten(self, deed: Deed, by_ns: int) -> None:
        """Move all scheduled calls of a function to an earlier time, at the earliest to now."""
        heap = self._heap
        for place, (time_ns, noted, what, args) in enumerate(heap):
            if what == deed:
                heap[place] = (max(self.now, time_ns - by_ns), noted, what, args)
        heapify(heap)

    def run_until(self, end_ns: int) -> None:
        """Make all calls up to a time.

        The garbage of a simulation almost never contains reference cycles. Python searches for
        cycles at every 700th new object. This would take a tenth of the run time, so searches are
        made rare here.
        """
        heap, done = self._heap, 0
        usual, *further = gc.get_threshold()
        if usual:  # 0 means that searches are switched off.
            gc.set_threshold(max(usual, _OBJECTS_BETWEEN_SEARCHES), *further)
        try:
            while heap and heap[0][0] <= end_ns:
                self.now, _, deed, args = heappop(heap)
                done += 1
                deed(*args)
        finally:
            self.happened += done
            gc.set_threshold(usual, *further)
        self.now = max(self.now, end_ns)

    def next_ns(self) -> int | None:
        """Return the time of the next call; None if there is none."""
        return self._heap[0][0] if self._heap else None
