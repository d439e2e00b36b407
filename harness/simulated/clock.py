"""The run's clock in virtual time."""

from dataclasses import dataclass

from cluster.reference.simulator.agenda import Agenda
from results.record.clock import RunClock


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualClock(RunClock):
    """A clock that counts nanoseconds since the simulation's start."""

    agenda: Agenda
    start_ns: int = 0

    def now_ns(self) -> int:
        """Return the virtual time in nanoseconds."""
        return self.agenda.now
