"""A scheduled fault, and the random length of its hold."""

from dataclasses import dataclass
from random import Random

from nemesis.aftermath import Strikes
from results.record.plan import Plan

MIN_HOLD_S = 4.2
"""The shortest hold in seconds, except for very short faults (`Level.moments`). By default, a
broker's session ends after 3 s without a heartbeat. So a shorter fault may end before the leader
changes."""
CALM_S = 0.5
"""Seconds after a fault and its aftermath, before the main phase ends. At levels without
aftermaths, the lane's next fault begins after this time, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledFault:
    """A scheduled fault.

    Attributes:
        fault_id: The number of the fault, from 1.
        at_s: Seconds from the start of the main phase.
        kind: A name in the registry.
        target: A role expression. Its nodes are determined when the fault starts.
        hold_s: Planned seconds from the confirmation of the fault to its heal.
        lane: The index of the fault's lane. Faults of the same lane wait for each other. Lanes run
            in parallel.
        when: The state that the fault waits for, beginning at `at_s` (`nemesis.triggers`). None
            means that the fault does not wait.
        strikes: The group of nodes that the fault hits instead of the target, if the group is not
            empty. None means that the fault hits the target.
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
        """Return the fault's targets as text: `recovered, else leader(log-0,1)`."""
        return self.target if self.strikes is None else f"{self.strikes}, else {self.target}"


def drawn_hold_s(plan: Plan, rng: Random) -> float:
    """Return the random hold time (s): most of the fault interval, but at least `MIN_HOLD_S`.

    The hold never takes more than 80 % of the delivery timeout.

    Args:
        plan: The plan of the run.
        rng: The source of random choices.
    """
    hold_s = max(MIN_HOLD_S, rng.uniform(0.6, 0.9) * plan.nemesis_interval_s)
    # A send must not time out during the fault, or its outcome would be unknown.
    return min(hold_s, 0.8 * plan.delivery_timeout_s)
