"""A node's own clock. It begins at a random time. It may run too fast or too slow, and may jump."""

from dataclasses import dataclass

PPM = 1_000_000
WALL_CLOCK_S = 1_700_000_000
"""The wall-clock time of virtual time zero, an arbitrary constant."""


@dataclass(slots=True, kw_only=True)
class NodeClock:
    """A node's only clock. The clock counts in whole numbers, so every computer gets equal values.

    Attributes:
        true_ns: The time that an untouched clock would show at virtual time zero.
        shown_ns: The time that the clock showed at `since_ns`.
        since_ns: The virtual time of the last change of the clock's rate.
        drift_ppm: How much too fast the clock runs, in millionths.
    """

    true_ns: int = 0
    shown_ns: int = 0
    since_ns: int = 0
    drift_ppm: int = 0

    def read(self, now_ns: int) -> int:
        """Return the clock's time at a virtual time."""
        passed = now_ns - self.since_ns
        if self.drift_ppm:
            passed += passed * self.drift_ppm // PPM
        return self.shown_ns + passed

    def lasting(self, own_ns: int) -> int:
        """Return how much virtual time passes while the clock advances by some nanoseconds.

        The result is rounded up. If it were rounded down, a task could wake before its deadline,
        and then wait for zero time.
        """
        if self.drift_ppm:
            return -(-own_ns * PPM // (PPM + self.drift_ppm))
        return own_ns

    def drift(self, now_ns: int, ppm: int) -> None:
        """Change the clock's rate from now on. Timers that are already set are not moved."""
        self.shown_ns, self.since_ns, self.drift_ppm = self.read(now_ns), now_ns, ppm

    def ahead_ns(self, now_ns: int) -> int:
        """Return the nanoseconds by which the clock is ahead of true time."""
        return self.read(now_ns) - self.true_ns - now_ns

    def jump(self, now_ns: int, ahead_ns: int, ppm: int = 0) -> int:
        """Set how far the clock is ahead of true time, and the rate at which it runs.

        Returns:
            How far the clock jumped. A negative number means that it jumped back.
        """
        jumped_ns = ahead_ns - self.ahead_ns(now_ns)
        self.drift(now_ns, ppm)
        self.shown_ns += jumped_ns
        return jumped_ns
