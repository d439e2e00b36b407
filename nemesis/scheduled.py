"""A fault to come, and how long it is held when it is dealt."""

from dataclasses import dataclass
from random import Random

from nemesis.aftermath import Strikes
from results.record.plan import Plan

MIN_HOLD_S = 4.2
"""Brokers' sessions end after 3 s without a heartbeat; a shorter fault would move no leader."""
CALM_S = 0.5
"""Between what a fault and its aftermath take and the next fault, or the end of the main phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledFault:
    """One fault to come.

    Attributes:
        fault_id: Counted from 1.
        at_s: Seconds from the start of the main phase.
        kind: A name in the registry.
        target: A role expression; who that is turns out at the moment of the fault.
        hold_s: Seconds from its confirmation to its heal.
        lane: Dealt faults of one lane wait for each other; lanes run side by side.
        when: A state that is waited for from `at_s` on (`nemesis.triggers`); None: none.
        strikes: Whom it hits rather than the target, if there is anybody; None: the target.
    """

    fault_id: int
    at_s: float
    kind: str
    target: str
    hold_s: float
    lane: int = 0
    when: str | None = None
    strikes: Strikes | None = None

    @property
    def aims_at(self) -> str:
        """Whom it is for, in words: `recovered, else leader(log-0,1)`."""
        return self.target if self.strikes is None else f"{self.strikes}, else {self.target}"


def drawn_hold_s(plan: Plan, rng: Random) -> float:
    """Return how long a dealt fault is held: most of the interval, and no shorter than a session.

    Args:
        plan: Of the run.
        rng: Draws.
    """
    hold_s = max(MIN_HOLD_S, rng.uniform(0.6, 0.9) * plan.nemesis_interval_s)
    # Sends must outlive the fault, or each of them would end unknown.
    return min(hold_s, 0.8 * plan.delivery_timeout_s)
