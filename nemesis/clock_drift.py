"""The fault `clock-drift`: a broker's wall clock runs too slow or too fast.

A slow clock runs at half or three quarters of the right speed. On real hosts the clock changes in
many small steps a second, so it usually jumps by less than some hundredths of a second. The clock
is at most a quarter too fast, because the heal sets it back by the whole difference. Kafka's timers
then stop for as long as this difference (see `clock_offset`). With default settings, this time is
shorter than every recovery timeout, even after the longest scheduled fault.
"""

from nemesis.clocks import TOLERANCE_S, ShiftedClocks
from nemesis.cluster_effects import ClockEffect
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site

RATES = (0.5, 0.75, 1.25)
SHOWN_S = 1.0
"""A drift is confirmed if the clock is wrong by the expected amount, and by at least these
seconds."""


class ClockDrift(ShiftedClocks):
    """A fault that makes clocks too fast or too slow.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site)
        self._rate = aim.rng.choice(RATES)

    def inject(self) -> None:
        """Start the drift of the clocks."""
        self.note_before()
        for node in self.targets:
            self.hosts.set_clock(node, offset_s=0.0, rate=self._rate)

    def confirm(self, patience: Patience) -> ClockEffect | None:
        """Confirm that each broker's clock drifts at the planned rate."""
        told: dict[str, tuple[float, ...]] = dict.fromkeys(self.targets, ())

        def drift() -> bool:
            for node in self.targets:
                told[node] = (*told[node], self.ahead_s(node))
            return all(self._drifts(node, said[-1]) for node, said in told.items())

        if not self.come_to(drift, patience, what="the brokers' clocks to drift"):
            return None
        return self.shown(0.0, self._rate, told)

    def _drifts(self, node: str, ahead_s: float) -> bool:
        expected_s = self.hosts.clock_offset_s(node)
        return abs(ahead_s) >= SHOWN_S and abs(ahead_s - expected_s) < TOLERANCE_S


SAYS = {
    "clock-drift": InWords(
        does="a broker's clock runs too fast or too slow",
        injected="like `clock-offset`",
        proven="like `clock-offset`, several times",
        undone="like `clock-offset`",
    ),
}
