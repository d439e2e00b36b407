"""An event in virtual time that a signal handler can set safely."""

from cluster.reference.simulator.agenda import Agenda
from cluster.reference.simulator.tasks import VirtualEvent

HEED_NS = 100_000_000


class SignalledEvent(VirtualEvent):
    """An event like `threading.Event`. A signal handler can set it; tasks notice this within 0.1 s.

    The agenda is the simulation's queue of timed events. A signal handler may interrupt the
    simulation between any two steps, so it must not change the agenda. The handler sets a flag
    instead. While a task waits for the event, an entry of the agenda checks that flag every 0.1 s
    of virtual time. The checks stop when the agenda has no other entries. Otherwise a simulation
    that hangs would seem to run.

    Args:
        agenda: The agenda of virtual time.
    """

    def __init__(self, agenda: Agenda) -> None:
        super().__init__(agenda)
        self._agenda, self._noted = agenda, False
        self._waiting, self._heeds = 0, False

    def set(self) -> None:
        """Set the event. The tasks that wait for it continue a little later."""
        self._noted = True

    def clear(self) -> None:
        """Clear the event."""
        self._noted = False
        super().clear()

    def is_set(self) -> bool:
        """Return whether the event is set."""
        return self._noted

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the event, at most for a virtual timeout; return whether the event is set."""
        self._waiting += 1
        try:
            self._look_later()
            return self._noted or super().wait(timeout) or self._noted
        finally:
            self._waiting -= 1

    def _look_later(self) -> None:
        if not self._heeds:
            self._heeds = True
            self._agenda.after(HEED_NS, self._heed)

    def _heed(self) -> None:
        self._heeds = False
        if self._noted:
            super().set()
        elif self._waiting and self._agenda.next_ns() is not None:
            self._look_later()
