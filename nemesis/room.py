"""Whether a majority of nodes is whole beside what is in force, and one fault more.

Lanes ask side by side. So whoever has found room keeps it from then on, though its target may still
be sought: until it is over, or does not begin.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nemesis.aftermath import Strikes, is_down, is_held
from nemesis.life import Life
from nemesis.registry import KINDS
from results.record.runtime import new_lock


class Room:
    """Which faults take nodes, or are about to.

    Args:
        lives: All faults of the run.
        nodes: How many brokers there are.
    """

    def __init__(self, lives: Sequence[Life], nodes: int) -> None:
        self._lives = lives
        self._spare = max(0, (nodes - 1) // 2 - 1)
        """So many may be hit beside a fault's own target."""
        self._kept: list[Life] = []
        self._lock = new_lock()

    def find(self, life: Life, *, alone: bool) -> bool:
        """Keep room for a fault; return whether there is any at this moment.

        Args:
            life: The fault.
            alone: Whether one that strikes who is hit already need not wait for somebody.
        """
        with self._lock:
            found = not life.takes or self._is_there(life, alone=alone)
            if found:
                self._kept.append(life)
        return found

    @contextmanager
    def kept(self, life: Life) -> Iterator[None]:
        """Give room up at the end of the block; who is still in force then has it by that."""
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
            return not others  # What divides the nodes leaves none that may be lost.
        if life.scheduled.strikes is Strikes.STRUCK:  # It hits who is hit already.
            ready = [_can_be_struck(each, life) for each in others]
            return ready == [True] or (alone and not others)
        hit = {node for each in others for node in each.hit}
        sought = sum(not each.hit for each in others)
        return len(hit) + sought <= self._spare


def _can_be_struck(held: Life, life: Life) -> bool:
    """Tell whether a fault can strike who is hit by another one, and takes nobody more by that."""
    within = not {*held.hit}.isdisjoint(life.reach)
    return is_held(held) and within and not _are_alike(held, life)


def _are_alike(one: Life, other: Life) -> bool:
    """Tell whether two faults take one aspect in hand: they would do the same to a node twice."""
    aspects = ({*KINDS[each.scheduled.kind].aspects} for each in (one, other))
    return bool(set.intersection(*aspects))
