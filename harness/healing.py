"""Heal all faults of a run exactly once, however the run ends, and record the result.

Usually the heal comes between the main phase and the recovery. After an error (a full disk,
unreachable brokers, a bug of Logquake) the heal must come before two other steps. One step closes
the run's record, to which nothing can be added later. The other step takes down the hosts, which
also ends the faults.
"""

from typing import Protocol

from nemesis.sweep import HEAL_LIMIT_S, HealReport

EARLY_LIMIT_S = 20.0
"""The heal's time limit after an error. It is short, because the brokers are about to stop."""


class Reach(Protocol):
    """A function that records milestones, like `Arena.reach`."""

    def __call__(self, name: str, *, failed: str, **detail: str) -> None:
        """Append a milestone. If there are details or a failure, store them with the milestone."""


class Heal(Protocol):
    """A function that heals all faults, like `Nemesis.heal_all`."""

    def __call__(self, *, limit_s: float) -> HealReport:
        """Heal all faults.

        The limit applies to the healing of the faults, and again to the wait for the brokers.
        """


class Healing:
    """An object that heals all faults of a run exactly once.

    Args:
        heal: The function that heals all faults.
        reach: The function that records the milestone `healed`.
    """

    def __init__(self, heal: Heal, reach: Reach) -> None:
        self._heal, self._reach = heal, reach
        self._is_done = False

    def now(self, *, limit_s: float = HEAL_LIMIT_S) -> HealReport:
        """Heal all faults, and record the result."""
        report = self._heal(limit_s=limit_s)
        undone = {"undone": "yes"} if report.failed and report.undone else {}
        self._reach("healed", failed="; ".join(report.failed), **undone)
        self._is_done = True
        return report

    def if_not_yet(self) -> None:
        """Heal all faults if that has not happened yet. This method never raises an error."""
        if self._is_done:
            return
        try:
            self.now(limit_s=EARLY_LIMIT_S)
        except Exception as failed:  # noqa: BLE001 - the run's own error is reported
            self._note(f"{type(failed).__name__}: {failed}")

    def _note(self, why: str) -> None:
        try:
            self._reach("healed", failed=why)
        except OSError:
            return  # The missing milestone then shows the failure.
