"""The heal of everything: once, on every way out of a run, and told in its milestones.

On the way that a run takes as a rule it comes between the main phase and the recovery. On a way out
by an error (a full disk, brokers that nobody reaches, a bug of ours) it comes before the record is
closed and the hosts are taken down: what their end undoes as well would be told by nobody.
"""

from typing import Protocol

from nemesis.sweep import HEAL_LIMIT_S, HealReport

EARLY_LIMIT_S = 20.0
"""On a way out by an error: nothing waits for brokers that are taken down next."""


class Reach(Protocol):
    """What notes milestones: `Arena.reach`."""

    def __call__(self, name: str, *, failed: str, **detail: str) -> None:
        """Note one, what of it did not come to be, and what else is worth knowing of it."""


class Heal(Protocol):
    """What heals everything: `Nemesis.heal_all`."""

    def __call__(self, *, limit_s: float) -> HealReport:
        """Heal; wait at most so long for each of: faults, brokers."""


class Healing:
    """Heals everything once.

    Args:
        heal: Does it.
        reach: Notes the milestone `healed`.
    """

    def __init__(self, heal: Heal, reach: Reach) -> None:
        self._heal, self._reach = heal, reach
        self._is_done = False

    def now(self, *, limit_s: float = HEAL_LIMIT_S) -> HealReport:
        """Heal everything, and note what came of it."""
        report = self._heal(limit_s=limit_s)
        undone = {"undone": "yes"} if report.failed and report.undone else {}
        self._reach("healed", failed="; ".join(report.failed), **undone)
        self._is_done = True
        return report

    def if_not_yet(self) -> None:
        """Heal everything if the run ends before it came to that; no failure gets out of it."""
        if self._is_done:
            return
        try:
            self.now(limit_s=EARLY_LIMIT_S)
        except Exception as failed:  # noqa: BLE001 - the run's own error is the one to be told
            self._note(f"{type(failed).__name__}: {failed}")

    def _note(self, why: str) -> None:
        try:
            self._reach("healed", failed=why)
        except OSError:
            return  # On a full disk there is no milestone, which says the same.
