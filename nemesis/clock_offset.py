"""The fault `clock-offset`: a broker's wall clock jumps, and stays wrong until the heal.

Far back, up to hours, or a few seconds forward. The heal is a jump as well, and that is why it goes
no further forward: a clock that is set back by an hour stops Kafka's timers for that hour (of the
quorum's elections, of requests in flight), since they never go back themselves. A broker whose
clock was set back is healed by a jump forward, at which all timers go off at once.
"""

from random import Random

from nemesis.clocks import TOLERANCE_S, ShiftedClocks
from nemesis.cluster_effects import ClockEffect
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site

FORWARD_S = (1.5, 3.0)
BACK_S = (2.0, 30.0, 600.0, 3000.0, 4 * 3600.0)
"""From around the sessions of brokers to hours. From an hour on, messages of clients come from a
future that brokers refuse by default (`message.timestamp.after.max.ms`, since 4.0)."""
BACK_SHARE = 0.7


class ClockOffset(ShiftedClocks):
    """Clocks that jumped.

    Args:
        aim: Which fault this is.
        site: Where.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site)
        self._offset_s = drawn_offset_s(aim.rng)

    def inject(self) -> None:
        """Let the clocks jump."""
        self.note_before()
        for node in self.targets:
            self.hosts.set_clock(node, offset_s=self._offset_s)

    def confirm(self, patience: Patience) -> ClockEffect | None:
        """See that each broker is off by what was meant."""
        told: dict[str, tuple[float, ...]] = {}

        def are_off() -> bool:
            for node in self.targets:
                told[node] = (self.ahead_s(node),)
            return all(abs(said[0] - self._offset_s) < TOLERANCE_S for said in told.values())

        if not self.come_to(are_off, patience, what="the brokers' clocks to jump"):
            return None
        return self.shown(self._offset_s, 1.0, told)


def drawn_offset_s(rng: Random) -> float:
    """Return an offset to the tenth of a second: mostly back."""
    if rng.random() < BACK_SHARE:
        return -round(rng.choice(BACK_S) * rng.uniform(1.0, 1.2), 1)
    return round(rng.uniform(*FORWARD_S), 1)


SAYS = {
    "clock-offset": InWords(
        does="a broker's wall clock jumps, and stays wrong",
        injected="libfaketime's file of that node",
        proven="the time that the broker writes into its own log, against ours",
        undone="the file says 0; the same measure",
    ),
}
