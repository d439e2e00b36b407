"""An event in virtual time that a signal may set, at whatever the process is doing."""

from cluster.reference.simulator.agenda import Agenda
from cluster.reference.simulator.tasks import VirtualEvent

HEED_NS = 100_000_000


class SignalledEvent(VirtualEvent):
    """As `threading.Event`; set by a signal's handler, it wakes whoever waits within 0.1 s.

    A handler runs between any two steps of the simulation, so it must not touch what is to come:
    it leaves a note, which is looked for as virtual time passes, as long as somebody waits and
    something is to come. A look that is always to come would hide that nothing else is.

    Args:
        agenda: Virtual time.
    """

    def __init__(self, agenda: Agenda) -> None:
        super().__init__(agenda)
        self._agenda, self._noted = agenda, False
        self._waiting, self._heeds = 0, False

    def set(self) -> None:
        """Set it; whoever waits is woken a little later."""
        self._noted = True

    def clear(self) -> None:
        """Take it back."""
        self._noted = False
        super().clear()

    def is_set(self) -> bool:
        """Tell whether it is set."""
        return self._noted

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or for so many virtual seconds; tell whether it is."""
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
