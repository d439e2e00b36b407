"""A node's own clock: it begins anywhere, may run too fast or too slow, and may jump."""

from dataclasses import dataclass

PPM = 1_000_000
WALL_CLOCK_S = 1_700_000_000
"""Virtual time zero on wall clocks: any would do, and it is the same in every run."""


@dataclass(slots=True, kw_only=True)
class NodeClock:
    """A node's only clock; whole numbers only, so that every machine counts alike.

    Attributes:
        true_ns: What it would show at virtual time zero if nobody had touched it.
        shown_ns: What it showed at `since_ns`.
        since_ns: Virtual time at which its rate was last changed.
        drift_ppm: How much too fast it runs, in millionths.
    """

    true_ns: int = 0
    shown_ns: int = 0
    since_ns: int = 0
    drift_ppm: int = 0

    def read(self, now_ns: int) -> int:
        """Return what it shows at a moment of virtual time."""
        passed = now_ns - self.since_ns
        if self.drift_ppm:
            passed += passed * self.drift_ppm // PPM
        return self.shown_ns + passed

    def lasting(self, own_ns: int) -> int:
        """Return how much virtual time passes until it has counted so many nanoseconds.

        Rounded up: who is woken before its deadline waits for the rest, which would be no time.
        """
        if self.drift_ppm:
            return -(-own_ns * PPM // (PPM + self.drift_ppm))
        return own_ns

    def drift(self, now_ns: int, ppm: int) -> None:
        """Have it run at another rate from now on; timers that are set keep their moments."""
        self.shown_ns, self.since_ns, self.drift_ppm = self.read(now_ns), now_ns, ppm

    def ahead_ns(self, now_ns: int) -> int:
        """Return by how much it is ahead of the truth."""
        return self.read(now_ns) - self.true_ns - now_ns

    def jump(self, now_ns: int, ahead_ns: int, ppm: int = 0) -> int:
        """Have it be so far ahead of the truth from now on, and run at a rate.

        Returns:
            How far it jumped; back, if below zero.
        """
        jumped_ns = ahead_ns - self.ahead_ns(now_ns)
        self.drift(now_ns, ppm)
        self.shown_ns += jumped_ns
        return jumped_ns
