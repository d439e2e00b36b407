"""The fault `clock-offset`: a broker's wall clock jumps, and stays wrong until the heal.

The clock jumps back by up to hours, or forward by a few seconds. Jumps forward are short, because
the heal must then set the clock back. If a clock is set back by an hour, Kafka's timers stop for
that hour, because a timer never goes back. Such timers control the quorum's elections and requests
in flight. If the fault set a clock back, the heal is a jump forward, and all timers fire at once.
"""

from random import Random

from nemesis.clocks import TOLERANCE_S, ShiftedClocks
from nemesis.cluster_effects import ClockEffect
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site

FORWARD_S = (1.5, 3.0)
BACK_S = (2.0, 30.0, 600.0, 3000.0, 4 * 3600.0)
"""By how many seconds a clock can jump back: from about a broker's session timeout to hours. After
a jump of more than an hour, clients' timestamps seem to be in the future, and brokers reject them
by default (`message.timestamp.after.max.ms`, since 4.0)."""
BACK_SHARE = 0.7


class ClockOffset(ShiftedClocks):
    """A fault that makes clocks jump.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site)
        self._offset_s = drawn_offset_s(aim.rng)

    def inject(self) -> None:
        """Make the clocks jump."""
        self.note_before()
        for node in self.targets:
            self.hosts.set_clock(node, offset_s=self._offset_s)

    def confirm(self, patience: Patience) -> ClockEffect | None:
        """Confirm that each broker's clock is wrong by the planned offset."""
        told: dict[str, tuple[float, ...]] = {}

        def are_off() -> bool:
            for node in self.targets:
                told[node] = (self.ahead_s(node),)
            return all(abs(said[0] - self._offset_s) < TOLERANCE_S for said in told.values())

        if not self.come_to(are_off, patience, what="the brokers' clocks to jump"):
            return None
        return self.shown(self._offset_s, 1.0, told)


def drawn_offset_s(rng: Random) -> float:
    """Return a random offset in steps of a tenth of a second. Most offsets set the clock back."""
    if rng.random() < BACK_SHARE:
        return -round(rng.choice(BACK_S) * rng.uniform(1.0, 1.2), 1)
    return round(rng.uniform(*FORWARD_S), 1)


SAYS = {
    "clock-offset": InWords(
        does="a broker's wall clock jumps and stays wrong until the heal",
        injected="libfaketime's file of that node",
        proven="the broker's timestamps in its own log, compared with Logquake's clock",
        undone="the file contains 0; the same measurement",
    ),
}
