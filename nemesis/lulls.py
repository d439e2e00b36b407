"""Lulls: periods of the main phase in which no scheduled fault begins. See `nemesis.levels`."""

from nemesis.levels import after_lull
from results.record.clock import stopwatch_s


class Lulls:
    """The lulls of one run.

    Args:
        each_s: The length of each lull in seconds. 0 for no lulls.
    """

    def __init__(self, each_s: float) -> None:
        self.each_s = each_s
        self._began_s: float | None = None

    def begin(self, began_s: float) -> None:
        """Note the start of the main phase, in seconds by `stopwatch_s`."""
        self._began_s = began_s

    def is_now(self) -> bool:
        """Return whether a lull is in progress, so that no fault may begin."""
        if self._began_s is None:
            return False
        at_s = stopwatch_s() - self._began_s
        return after_lull(at_s, self.each_s) > at_s
