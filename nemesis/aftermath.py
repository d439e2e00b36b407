"""Whom a fault of a higher level strikes: by what the faults before it have done.

Who has just come back has files to recover, a log to truncate, an epoch to learn; who has just been
elected has told few others. Who is hit already is of no use to anybody: a second fault on it leaves
a majority whole.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from cluster.protocol import ClusterView
from nemesis.targets import TopicPartition

AFTERMATH_S = 10.0
"""So long a fault may be over, and still have an aftermath."""


class Strikes(StrEnum):
    """Whom a fault strikes, if there is anybody; else its target, as that has it."""

    RECOVERED = "recovered"
    """One of those whose fault is just over."""
    ELECTED = "elected"
    """One of those who lead now what the targets of such a fault led."""
    STRUCK = "struck"
    """One of those who have a fault on them."""


class Past(Protocol):
    """A fault as others see it: `nemesis.life.Life`."""

    @property
    def takes(self) -> bool:
        """Whether its nodes cannot be counted upon as long as it is in force."""

    @property
    def confirmed(self) -> bool:
        """Whether an effect was measured."""

    @property
    def in_force(self) -> bool:
        """Whether there is something to heal."""

    @property
    def over_s(self) -> float | None:
        """When it was over, in seconds of `stopwatch_s`; None: it is not."""

    @property
    def hit(self) -> Collection[str]:
        """Its targets; none as long as they are sought."""

    @property
    def of_one(self) -> bool:
        """Whether all of these are one process."""

    @property
    def led(self) -> Collection[TopicPartition]:
        """What they led when it began, and others could lead."""


def struck_by(
    strikes: Strikes,
    faults: Iterable[Past],
    view: ClusterView | None,
    among: Collection[str],
    *,
    now_s: float,
) -> Sequence[str]:
    """Return whom a fault would strike, in order; nobody if nothing was done, or nobody is known.

    Args:
        strikes: Whom it is for.
        faults: All others of the run.
        view: What the cluster says of itself; None if nobody answers.
        among: Those whom it can strike.
        now_s: By `stopwatch_s`.
    """
    known = [*faults]
    if strikes is Strikes.STRUCK:
        held = {node for each in known if is_held(each) for node in each.hit}
        return sorted(held & {*among})
    down = {node for each in known if is_down(each) for node in each.hit}
    for past in _just_over(known, now_s):
        hit = {*past.hit}
        found = hit if strikes is Strikes.RECOVERED else _leaders(past.led, view) - hit
        if free := (found & {*among}) - down:
            return sorted(free)
    return []


def is_down(fault: Past) -> bool:
    """Tell whether a fault keeps its nodes from doing their part."""
    return fault.takes and fault.in_force


def is_held(fault: Past) -> bool:
    """Tell whether a fault is known to keep one process from doing its part, and no other one.

    One that restarts all nodes in turn does not: who is struck beside it need not be the one that
    is away, so that two would be. One without a confirmed effect may have taken nobody yet.
    """
    return is_down(fault) and fault.confirmed and fault.of_one


def _just_over(faults: Iterable[Past], now_s: float) -> Iterator[Past]:
    """Yield the faults that took nodes, had an effect and are just over, the last one first."""
    took = [each for each in faults if each.takes and each.confirmed]
    over = [(each.over_s, each) for each in took if each.over_s is not None]
    for over_s, each in sorted(over, key=lambda pair: pair[0], reverse=True):
        if over_s >= now_s - AFTERMATH_S:
            yield each


def _leaders(places: Collection[TopicPartition], view: ClusterView | None) -> set[str]:
    states = [] if view is None else [view.partitions.get(place) for place in places]
    return {state.leader for state in states if state is not None and state.leader is not None}
