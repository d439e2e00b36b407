"""What is dealt to a schedule: kinds and targets from shuffled decks, so that none is left out.

Chance decides the order and not what comes: a deck is dealt to its end, shuffled anew, and dealt
again. All draws come from the random sources that are handed in.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import TypeVar

from nemesis.registry import KINDS
from nemesis.roster import roster_of
from nemesis.targets import COORDINATOR, ON_CONTROLLERS, PARTITION_ROLES
from results.record.plan import Plan

Card = TypeVar("Card")


def family_deck(families: Mapping[str, Sequence[str]], rng: Random) -> Iterator[str]:
    """Yield kinds: every family once a round, and within a family every kind once a round.

    Args:
        families: The kinds of each family.
        rng: Draws.
    """
    within = {family: endless(kinds, rng) for family, kinds in families.items()}
    for family in endless(list(families), rng):
        yield next(within[family])


def kind_deck(families: Mapping[str, Sequence[str]], rng: Random) -> Iterator[str]:
    """Yield kinds: every kind once a round, and every family once before the rest of its kinds.

    For many families: a family of seven kinds would need seven rounds of all others otherwise.
    """
    while True:
        drawn = {family: shuffled(kinds, rng) for family, kinds in families.items()}
        yield from shuffled([kinds[0] for kinds in drawn.values()], rng)
        yield from shuffled([each for kinds in drawn.values() for each in kinds[1:]], rng)


class Targets:
    """Deals a role expression to each kind: from its own deck if it aims, else the common one.

    Args:
        plan: Of the run; its replication and its partitions decide what roles there are.
        rng: Draws for the common deck; a kind's own deck disturbs nobody's draws.
        led: Whether the system tells who leads its controllers.

    Attributes:
        rng: As above.
    """

    def __init__(self, plan: Plan, rng: Random, *, led: bool = True) -> None:
        self._plan, self.rng, self._led = plan, rng, led
        self._common = _common_roles(plan, rng, led=led)
        self._aimed: dict[str, Iterator[str]] = {}
        self._waiting: deque[str] = deque()

    def next_for(self, kind: str) -> str:
        """Return the target of the next fault of a kind."""
        aims = KINDS[kind].aims
        if not aims:
            return self._next_common(kind)
        if kind not in self._aimed:
            own = Random(f"{self._plan.seed}/nemesis/aims/{kind}")
            there = [role for role in aims if len(aims) == 1 or self._is_there(role, kind)]
            self._aimed[kind] = _aimed_roles(there, self._plan, own)
        return next(self._aimed[kind])

    def _is_there(self, role: str, kind: str) -> bool:
        """Tell whether a plan has somebody of a role on whom a kind works."""
        if role == COORDINATOR:
            return bool(roster_of(self._plan).coordinated)
        own = self._plan.own_controllers and not KINDS[kind].on_controllers
        return role not in ON_CONTROLLERS or (self._led and not own)

    def _next_common(self, kind: str) -> str:
        """Return the next common role on which a kind works; others wait for a kind that does.

        With controllers of their own `controller` is none of the brokers, and nobody whose links,
        disk or clock a fault could take in hand.
        """
        if KINDS[kind].on_controllers or not self._plan.own_controllers:
            return self._waiting.popleft() if self._waiting else next(self._common)
        role = next(self._common)
        while role in ON_CONTROLLERS:
            self._waiting.append(role)
            role = next(self._common)
        return role


def _common_roles(plan: Plan, rng: Random, *, led: bool) -> Iterator[str]:
    """Yield role expressions: every role once a round, first of all a leader and a follower.

    With groups or transactions the first ones are a coordinator as well: what it keeps, nobody else
    leads.
    """
    places = endless(plan.topic_partitions, rng)
    has_followers = plan.replication > 1
    coordinators = [COORDINATOR] if roster_of(plan).coordinated else []
    first = shuffled([*coordinators, "leader", *(["follower"] if has_followers else [])], rng)
    later = shuffled(["controller", "isr", "one"] if led else ["isr", "one"], rng)
    every = [*first, *later]
    rounds = endless(every, rng)
    for role in every:
        yield _expression(role, places)
    for role in rounds:
        yield _expression(role, places)


def _aimed_roles(aims: Sequence[str], plan: Plan, rng: Random) -> Iterator[str]:
    places = endless(plan.topic_partitions, rng)
    coordinated = bool(roster_of(plan).coordinated)
    for role in endless([each for each in aims if each != COORDINATOR or coordinated], rng):
        yield _expression(role, places)


def _expression(role: str, places: Iterator[tuple[str, int]]) -> str:
    if role not in PARTITION_ROLES:
        return role
    topic, partition = next(places)
    return f"{role}({topic},{partition})"


def endless(cards: Sequence[Card], rng: Random) -> Iterator[Card]:
    """Yield all cards, shuffled, and again without end; nothing if there are none."""
    while cards:
        yield from shuffled(cards, rng)


def shuffled(cards: Sequence[Card], rng: Random) -> list[Card]:
    """Return the cards in another order."""
    return rng.sample(list(cards), len(cards))
