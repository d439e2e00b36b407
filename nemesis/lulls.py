"""Times of a main phase in which no dealt fault begins (`nemesis.levels` says why, and when)."""

from nemesis.levels import after_lull
from results.record.clock import stopwatch_s


class Lulls:
    """The lulls of one run.

    Args:
        each_s: How long each is; 0: there are none.
    """

    def __init__(self, each_s: float) -> None:
        self.each_s = each_s
        self._began_s: float | None = None

    def begin(self, began_s: float) -> None:
        """Note when the main phase began, in seconds of `stopwatch_s`."""
        self._began_s = began_s

    def is_now(self) -> bool:
        """Tell whether no fault may begin now."""
        if self._began_s is None:
            return False
        at_s = stopwatch_s() - self._began_s
        return after_lull(at_s, self.each_s) > at_s
