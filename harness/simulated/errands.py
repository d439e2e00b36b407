"""What takes virtual time: generators that yield how many seconds they wait.

A run, and each of its faults, is told as on real hosts, from top to bottom; in place of a wait
stands a `yield`. `yield from until(...)` waits for a state, with a limit as everywhere.
"""

from collections.abc import Callable, Generator

from cluster.reference.simulator.agenda import Agenda
from results.record.clock import NS_PER_S

Steps = Generator[float, None, None]
"""Yields seconds of virtual time."""


class Errand:
    """Something that is under way in virtual time.

    Args:
        agenda: Virtual time.
        steps: What is done.
    """

    def __init__(self, agenda: Agenda, steps: Steps) -> None:
        self._agenda, self._steps = agenda, steps
        self._waits = 0
        self.over = False
        agenda.after(0, self._go_on, self._waits)

    def hasten(self) -> None:
        """End the wait that it is in."""
        self._agenda.after(0, self._go_on, self._waits)

    def _go_on(self, wait: int) -> None:
        if wait != self._waits:
            return  # That wait was ended early.
        self._waits += 1
        try:
            seconds = next(self._steps)
        except StopIteration:
            self.over = True
        else:
            delay_ns = max(0, round(seconds * NS_PER_S))
            self._agenda.after(delay_ns, self._go_on, self._waits)


def until(
    agenda: Agenda, probe: Callable[[], bool], *, limit_s: float, interval_s: float = 0.1
) -> Generator[float, None, bool]:
    """Wait until a probe is true; return whether it became so within the limit."""
    deadline_ns = agenda.now + round(limit_s * NS_PER_S)
    while not probe():
        if agenda.now >= deadline_ns:
            return False
        yield interval_s
    return True
