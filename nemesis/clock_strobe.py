"""The fault `clock-strobe`: a broker's wall clock jumps back and forth until the heal."""

from nemesis.background import Background
from nemesis.clocks import ASK_INTERVAL_S, TOLERANCE_S, ShiftedClocks
from nemesis.cluster_effects import ClockEffect, ClockTrueEffect
from nemesis.in_words import InWords
from nemesis.protocol import FAILURES, Aim, Patience, Site
from results.record.clock import pause_until, stopwatch_s
from results.record.runtime import new_event

JUMPS_S = (-3.0, -1.5, 1.5, 3.0)
PERIODS_S = (0.05, 0.2, 0.5, 1.0)
"""Seconds between two jumps of the clock."""


class ClockStrobe(ShiftedClocks):
    """A fault that makes clocks alternate between right and wrong.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site)
        self._aim = aim
        self._jump_s = aim.rng.choice(JUMPS_S)
        self._period_s = aim.rng.choice(PERIODS_S)
        self._over = new_event()
        self._background = Background()

    def inject(self) -> None:
        """Start the clock jumps."""
        self.note_before()
        self._background.start(self._strobe, "clock-strobe")

    def confirm(self, patience: Patience) -> ClockEffect | None:
        """Confirm that each clock was right at one time, and wrong by the jump at another."""
        told: dict[str, tuple[float, ...]] = dict.fromkeys(self.targets, ())

        def jump() -> bool:
            for node in self.targets:
                told[node] = (*told[node], self.ahead_s(node))
            return all(self._was_both(said) for said in told.values())

        what = "the brokers' clocks to jump back and forth"
        if not self.come_to(jump, patience, what=what, interval_s=ASK_INTERVAL_S / 2):
            self._background.raise_failure()
            return None
        return self.shown(self._jump_s, 1.0, told)

    def heal(self) -> None:
        """End the jumps, and set all clocks to the true time. Idempotent."""
        self._over.set()
        self._background.join()
        super().heal()

    def confirm_healed(self, patience: Patience) -> ClockTrueEffect | None:
        """Confirm that each clock is right again. See `ShiftedClocks`."""
        self._background.raise_bugs()
        return super().confirm_healed(patience)

    def _was_both(self, said: tuple[float, ...]) -> bool:
        wrong = any(abs(ahead_s - self._jump_s) < TOLERANCE_S for ahead_s in said)
        return wrong and any(abs(ahead_s) < TOLERANCE_S for ahead_s in said)

    def _strobe(self) -> None:
        wrong = False
        while not self._over.is_set() and not self._aim.is_late:
            wrong = not wrong
            offset_s = self._jump_s if wrong else 0.0
            for node in self.targets:
                try:
                    self.hosts.set_clock(node, offset_s=offset_s)
                except FAILURES as failed:  # No connection. A later jump may succeed.
                    self._background.note(failed)
            pause_until(stopwatch_s() + self._period_s, self._over)


SAYS = {
    "clock-strobe": InWords(
        does="a broker's clock jumps back and forth",
        injected="like `clock-offset`, by a separate thread",
        proven="like `clock-offset`, several times",
        undone="like `clock-offset`",
    ),
}
