"""Choose a fault's targets at higher levels: nodes that earlier faults of the run have affected.

A node that has just come back has to recover files, truncate a log, and learn a leader epoch. A
newly elected leader may still be unknown to some nodes. A node that already has a fault counts as
disabled, so a second fault on that node leaves the majority healthy.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from cluster.protocol import ClusterView
from nemesis.targets import TopicPartition

AFTERMATH_S = 10.0
"""The number of seconds after a fault's end that count as its aftermath."""


class Strikes(StrEnum):
    """A group of nodes that a fault hits instead of its target, if the group is not empty."""

    RECOVERED = "recovered"
    """A node whose fault has just ended."""
    ELECTED = "elected"
    """A new leader of a partition. The previous leader was hit by a fault that has just ended."""
    STRUCK = "struck"
    """A node that a confirmed fault may disable now."""


class Past(Protocol):
    """The interface for the state of another fault; `nemesis.life.Life` implements it."""

    @property
    def takes(self) -> bool:
        """Return whether the fault can disable its nodes while it is active."""

    @property
    def confirmed(self) -> bool:
        """Return whether an effect was measured."""

    @property
    def in_force(self) -> bool:
        """Return whether the fault was made and has not ended: its heal is not confirmed."""

    @property
    def over_s(self) -> float | None:
        """Return the end time, in seconds by `stopwatch_s`, or None if the fault has not ended."""

    @property
    def hit(self) -> Collection[str]:
        """Return the fault's targets. The result is empty until the targets are chosen."""

    @property
    def of_one(self) -> bool:
        """Return whether all targets of the fault run in one process."""

    @property
    def led(self) -> Collection[TopicPartition]:
        """Return the partitions that the targets led at first and that other nodes can lead."""


def struck_by(
    strikes: Strikes,
    faults: Iterable[Past],
    view: ClusterView | None,
    among: Collection[str],
    *,
    now_s: float,
) -> Sequence[str]:
    """Return the nodes that a fault would hit in an aftermath, sorted. The result may be empty.

    Args:
        strikes: The group of nodes to hit.
        faults: All other faults of the run.
        view: The cluster's metadata. None if no node responds.
        among: The nodes that the fault can hit.
        now_s: The time in seconds by `stopwatch_s`.
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
    """Return whether a fault disables its nodes now."""
    return fault.takes and fault.in_force


def is_held(fault: Past) -> bool:
    """Return whether a fault is known to disable exactly one process at this time.

    Return False for a fault that restarts all nodes in turn. A second fault might hit a node that
    is up, and then two nodes would be down. Also return False for a fault without a confirmed
    effect, because it may not have disabled any node yet.
    """
    return is_down(fault) and fault.confirmed and fault.of_one


def _just_over(faults: Iterable[Past], now_s: float) -> Iterator[Past]:
    """Yield the recently ended faults that disabled nodes and had an effect, the latest first."""
    took = [each for each in faults if each.takes and each.confirmed]
    over = [(each.over_s, each) for each in took if each.over_s is not None]
    for over_s, each in sorted(over, key=lambda pair: pair[0], reverse=True):
        if over_s >= now_s - AFTERMATH_S:
            yield each


def _leaders(places: Collection[TopicPartition], view: ClusterView | None) -> set[str]:
    states = [] if view is None else [view.partitions.get(place) for place in places]
    return {state.leader for state in states if state is not None and state.leader is not None}
