"""What will happen, in the order of virtual time: the one heap of a simulation."""

import gc
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

Deed = Callable[..., object]
_OBJECTS_BETWEEN_SEARCHES = 100_000


class Agenda:
    """Virtual time, and what is to come.

    Two things of one moment happen in the order in which they were noted, so that no order hangs
    on anything but the seed.

    Attributes:
        now: Nanoseconds since the simulation's start.
        happened: How many deeds were done.
    """

    __slots__ = ("_heap", "_noted", "happened", "now")

    def __init__(self) -> None:
        self.now = 0
        self.happened = 0
        self._heap: list[tuple[int, int, Deed, tuple[Any, ...]]] = []
        self._noted = 0

    def at(self, time_ns: int, deed: Deed, *args: object) -> None:
        """Have `deed(*args)` done at a moment; one that is past already: at once, after others."""
        self._noted += 1
        heappush(self._heap, (max(time_ns, self.now), self._noted, deed, args))

    def coming(self, time_ns: int, deed: Deed, *args: object) -> None:
        """Have `deed(*args)` done at a moment that is not past: what most is noted by."""
        self._noted += 1
        heappush(self._heap, (time_ns, self._noted, deed, args))

    def after(self, delay_ns: int, deed: Deed, *args: object) -> None:
        """Have `deed(*args)` done in so many nanoseconds."""
        self._noted += 1
        heappush(self._heap, (self.now + delay_ns, self._noted, deed, args))

    def hasten(self, deed: Deed, by_ns: int) -> None:
        """Have all that is noted of a deed done earlier by so much, but not before now."""
        heap = self._heap
        for place, (time_ns, noted, what, args) in enumerate(heap):
            if what == deed:
                heap[place] = (max(self.now, time_ns - by_ns), noted, what, args)
        heapify(heap)

    def run_until(self, end_ns: int) -> None:
        """Let time pass up to a moment, with all that happens meanwhile.

        What a simulation throws away hardly ever refers to itself in a circle. The search for such
        circles, at every 700th new object, takes a tenth of its time: here it is made seldom.
        """
        heap, done = self._heap, 0
        usual, *further = gc.get_threshold()
        if usual:  # 0: nobody is to search at all.
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
        """Return when the next deed is due, None if there is none."""
        return self._heap[0][0] if self._heap else None
