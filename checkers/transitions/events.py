"""Collect the transitions that the area modules find, with their times."""

from collections.abc import Iterator

import numpy as np

from checkers.columns import NEVER, NONE, Ints
from checkers.facts import NOTED, RunFacts
from checkers.layout import RUN, Place

UNTIMED = NONE
"""The time of a transition whose time is unknown."""


class Events:
    """The transitions of one place.

    Times are in nanoseconds since the run's start, or `UNTIMED` if unknown.

    Args:
        place: A partition, the quorum's log, a coordinating partition, or the run.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._times: dict[tuple[str, str], list[Ints]] = {}

    def add(self, name: str, time_ns: int = UNTIMED, *, of: str = "") -> None:
        """Add one transition."""
        self.add_all(name, np.array([time_ns], dtype=np.int64), of=of)

    def add_all(self, name: str, times: Ints, *, of: str = "") -> None:
        """Add a transition that happened at several times.

        Args:
            name: The name in the catalogue.
            times: The times.
            of: A voter or group. The transitions of one voter or group are paired only with each
                other. "" means neither a voter nor a group.
        """
        if len(times):
            self._times.setdefault((name, of), []).append(times)

    def items(self) -> Iterator[tuple[str, str, Ints]]:
        """Yield each transition's name, voter or group, and times; an unknown time is `UNTIMED`."""
        for name, of in sorted(self._times):
            times = np.concatenate(self._times[name, of])
            yield name, of, np.where(times >= 0, times, UNTIMED)


class Places:
    """The transitions that one group's rows show, in several places."""

    def __init__(self) -> None:
        self._events: dict[Place, Events] = {}

    def at(self, topic: str, partition: int = 0) -> Events:
        """Return the collection of a place's transitions. Without a topic, the place is the run."""
        place = (topic, "", partition) if topic else RUN
        return self._events.setdefault(place, Events(place))

    def found(self) -> list[Events]:
        """Return the collections of all places, ordered by place."""
        return [self._events[place] for place in sorted(self._events)]


def end_of_run_ns(facts: RunFacts) -> int:
    """Return the time at which the brokers' stop began. Logquake causes all later transitions."""
    noted = facts.milestone(NOTED) or facts.milestone("stopped")
    return noted.at_ns if noted is not None else NEVER


def bucket(count: int, *names: str) -> str:
    """From ascending names such as `2-9` and `10+`, return the bucket that contains a count."""
    for name in names:
        least, _, most = name.rstrip("+").partition("-")
        if count <= int(most or least) or name.endswith("+"):
            return name
    return names[-1]
