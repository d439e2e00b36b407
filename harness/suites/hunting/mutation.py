"""Change a fault schedule a little, because its run reached something new.

A person would try such changes, too. A fault comes earlier or later, lasts longer or shorter, or
has another target or kind. One fault is added or removed. Or one fault is repeated, just after its
heal.

Faults that destroy records are left out. In a random schedule, such a fault waits until no other
fault is in force and every ISR is full (`nemesis/turns.py`). But in a written schedule, it comes at
its written time. So it could coincide with another fault, and destroy acknowledged records although
no broker made a mistake.
"""

import math
from collections.abc import Callable, Sequence
from random import Random

from nemesis.decks import Targets
from nemesis.registry import KINDS
from results.record.plan import Plan
from results.record.plan_parts import PlannedFault

MOST_CHANGES = 3
MOST_FAULTS = 40
SHIFT_S = 4.0
AFTER_S = 2.0
STRETCH = (0.3, 2.5)
SHORTEST_S = 0.3
MILLI = 1000

Faults = tuple[PlannedFault, ...]
Change = Callable[["Mutation", Faults], Faults]


def changeable(faults: Faults) -> Faults:
    """Return the faults that may be changed: all faults that destroy no records."""
    return tuple(each for each in faults if not KINDS[each.kind].when_whole)


class Mutation:
    """An object that changes the schedules of one plan.

    Args:
        plan: The plan, whose nodes, partitions and main phase limit the faults.
        kinds: The allowed kinds of faults.
        rng: The source of random numbers.
    """

    def __init__(self, plan: Plan, kinds: Sequence[str], rng: Random) -> None:
        self._kinds, self._rng = [kind for kind in kinds if not KINDS[kind].when_whole], rng
        self._targets = Targets(plan, rng)
        self._until_s = plan.time_limit_s
        self._longest_s = 0.8 * plan.delivery_timeout_s

    def of(self, faults: Faults) -> Faults:
        """Return a schedule with one to three changes, ordered by the faults' times."""
        faults = changeable(faults)
        for _ in range(self._rng.randint(1, MOST_CHANGES)):
            change = self._rng.choice(_CHANGES)
            faults = change(self, faults)
        within = (_rounded(self._at(each, each.at_s)) for each in faults)
        return tuple(sorted(within, key=lambda each: (each.at_s, each.kind)))

    def shift(self, faults: Faults) -> Faults:
        """Move a fault by some seconds."""
        by_s = self._rng.uniform(-SHIFT_S, SHIFT_S)
        return self._with(faults, lambda fault: self._at(fault, fault.at_s + by_s))

    def stretch(self, faults: Faults) -> Faults:
        """Make a fault last longer or shorter."""
        factor = self._rng.uniform(*STRETCH)

        def held(fault: PlannedFault) -> PlannedFault:
            hold_s = min(max(fault.hold_s * factor, SHORTEST_S), self._longest_s, self._until_s)
            return self._at(fault.model_copy(update={"hold_s": hold_s}), fault.at_s)

        return self._with(faults, held)

    def aim(self, faults: Faults) -> Faults:
        """Give a fault another target. In half of the cases, take the target of another fault."""
        others = [each.target for each in faults]

        def aimed(fault: PlannedFault) -> PlannedFault:
            common = self._rng.random() < 1 / 2
            target = self._rng.choice(others) if common else self._targets.next_for(fault.kind)
            return fault.model_copy(update={"target": target})

        return self._with(faults, aimed)

    def exchange(self, faults: Faults) -> Faults:
        """Replace a fault by a fault of a random kind."""
        return self._with(faults, lambda fault: self._new(fault.at_s, fault.hold_s))

    def add(self, faults: Faults) -> Faults:
        """Add a fault at a random time."""
        if len(faults) >= MOST_FAULTS:
            return faults
        hold_s = self._rng.choice([each.hold_s for each in faults] or [SHIFT_S])
        return (*faults, self._new(self._rng.uniform(0, self._until_s), hold_s))

    def repeat(self, faults: Faults) -> Faults:
        """Add a copy of a fault, soon after that fault's heal."""
        if not faults or len(faults) >= MOST_FAULTS:
            return faults
        first = self._rng.choice(faults)
        at_s = first.at_s + first.hold_s + self._rng.uniform(0, AFTER_S)
        return (*faults, self._at(first, at_s))

    def drop(self, faults: Faults) -> Faults:
        """Remove a fault, but never the last one."""
        if len(faults) <= 1:
            return faults
        left = self._rng.randrange(len(faults))
        return faults[:left] + faults[left + 1 :]

    def _with(self, faults: Faults, change: Callable[[PlannedFault], PlannedFault]) -> Faults:
        if not faults:
            return faults
        at = self._rng.randrange(len(faults))
        return (*faults[:at], change(faults[at]), *faults[at + 1 :])

    def _new(self, at_s: float, hold_s: float) -> PlannedFault:
        kind = self._rng.choice(self._kinds)
        hold_s = min(hold_s, self._longest_s, self._until_s)
        fault = PlannedFault(kind=kind, target=self._targets.next_for(kind), hold_s=hold_s)
        return self._at(fault, at_s)

    def _at(self, fault: PlannedFault, at_s: float) -> PlannedFault:
        """Return a fault at the given time, or at the nearest time that the main phase allows."""
        latest_s = max(0.0, self._until_s - fault.hold_s)
        return fault.model_copy(update={"at_s": min(max(at_s, 0.0), latest_s)})


_CHANGES: tuple[Change, ...] = (
    Mutation.shift, Mutation.stretch, Mutation.aim, Mutation.exchange, Mutation.add,
    Mutation.repeat, Mutation.drop,
)  # fmt: skip


def _rounded(fault: PlannedFault) -> PlannedFault:
    """Return a fault with times rounded down to milliseconds, so that it ends in the main phase."""

    def down(seconds: float) -> float:
        return math.floor(seconds * MILLI) / MILLI

    return fault.model_copy(update={"at_s": down(fault.at_s), "hold_s": down(fault.hold_s)})
