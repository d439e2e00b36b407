"""The fault `clock-drift`: a broker's wall clock passes at another rate, down to half.

In small steps, many a second: nothing jumps by more than some hundredths of a second. Forward only
by a quarter, because the heal is a jump back by all that came together, for which Kafka's timers
stand still (`clock_offset`): less than any budget of recovery, however long a dealt fault is held.
"""

from nemesis.clocks import TOLERANCE_S, ShiftedClocks
from nemesis.cluster_effects import ClockEffect
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site

RATES = (0.5, 0.75, 1.25)
SHOWN_S = 1.0
"""A clock that is wrong by so much, and as much as it should be by then, does drift."""


class ClockDrift(ShiftedClocks):
    """Clocks that are too fast or too slow.

    Args:
        aim: Which fault this is.
        site: Where.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site)
        self._rate = aim.rng.choice(RATES)

    def inject(self) -> None:
        """Let the clocks drift from now on."""
        self.note_before()
        for node in self.targets:
            self.hosts.set_clock(node, offset_s=0.0, rate=self._rate)

    def confirm(self, patience: Patience) -> ClockEffect | None:
        """See that each broker is off by ever more, as its rate has it."""
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
        does="its clock runs fast or slow",
        injected="as `clock-offset`",
        proven="the same, several times",
        undone="as `clock-offset`",
    ),
}
