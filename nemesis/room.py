"""Room for faults: a fault may start beside others only if a majority of nodes stays healthy.

If no other fault disables a node, any fault may start. But a fault that must hit a node with
another fault first waits for such a node (`nemesis.runner`). Several lanes request room at the same
time. So a fault keeps the room that it has reserved, even before its target is known. When the
fault ends, or cannot begin, its room becomes free.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nemesis.aftermath import Strikes, is_down, is_held
from nemesis.life import Life
from nemesis.registry import KINDS
from results.record.runtime import new_lock


class Room:
    """The faults that disable nodes now or will soon do so.

    Args:
        lives: All faults of the run.
        nodes: The number of brokers.
    """

    def __init__(self, lives: Sequence[Life], nodes: int) -> None:
        self._lives = lives
        self._spare = max(0, (nodes - 1) // 2 - 1)
        """A new fault may start if at most this many nodes already have a fault."""
        self._kept: list[Life] = []
        self._lock = new_lock()

    def find(self, life: Life, *, alone: bool) -> bool:
        """Reserve room for a fault, and return whether there is room now.

        Args:
            life: The fault.
            alone: Whether a fault that must hit a node with another fault may also start if no
                other fault disables a node.
        """
        with self._lock:
            found = not life.takes or self._is_there(life, alone=alone)
            if found:
                self._kept.append(life)
        return found

    @contextmanager
    def kept(self, life: Life) -> Iterator[None]:
        """Release the reserved room after the block. An active fault still counts after that."""
        try:
            yield
        finally:
            with self._lock:
                self._kept = [each for each in self._kept if each is not life]

    def _is_there(self, life: Life, *, alone: bool) -> bool:
        others = [
            each
            for each in self._lives
            if each is not life and (is_down(each) or (each.takes and each in self._kept))
        ]
        if any(KINDS[each.scheduled.kind].divides for each in (life, *others)):
            return not others  # A divided cluster can lose no node.
        if life.scheduled.strikes is Strikes.STRUCK:  # The fault must hit a node that has a fault.
            ready = [_can_be_struck(each, life) for each in others]
            return ready == [True] or (alone and not others)
        hit = {node for each in others for node in each.hit}
        sought = sum(not each.hit for each in others)
        return len(hit) + sought <= self._spare


def _can_be_struck(held: Life, life: Life) -> bool:
    """Return whether a fault can hit the node of another fault, instead of a further node."""
    within = not {*held.hit}.isdisjoint(life.reach)
    return is_held(held) and within and not _are_alike(held, life)


def _are_alike(one: Life, other: Life) -> bool:
    """Return whether two kinds of faults change the same aspect of a node."""
    aspects = ({*KINDS[each.scheduled.kind].aspects} for each in (one, other))
    return bool(set.intersection(*aspects))
