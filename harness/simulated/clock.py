"""The run's clock where time is virtual."""

from dataclasses import dataclass

from cluster.reference.simulator.agenda import Agenda
from results.record.clock import RunClock


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualClock(RunClock):
    """Nanoseconds since the simulation's start."""

    agenda: Agenda
    start_ns: int = 0

    def now_ns(self) -> int:
        """Return virtual time."""
        return self.agenda.now
