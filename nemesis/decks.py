"""Choose kinds and targets of a random schedule from shuffled decks, so that each of them occurs.

Only the order is random. A deck is like a deck of cards: it is used up, shuffled, and used again.
All random choices come from the random sources that the caller passes.
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
    """Yield kinds of faults. Each round has one kind of every family.

    A family yields all of its kinds before it repeats one.

    Args:
        families: The kinds of each family.
        rng: The source of random choices.
    """
    within = {family: endless(kinds, rng) for family, kinds in families.items()}
    for family in endless(list(families), rng):
        yield next(within[family])


def kind_deck(families: Mapping[str, Sequence[str]], rng: Random) -> Iterator[str]:
    """Yield kinds of faults. Each round has every kind, and begins with one kind of every family.

    This deck is for many families. With `family_deck`, a family of seven kinds would need seven
    rounds until each of its kinds has occurred.
    """
    while True:
        drawn = {family: shuffled(kinds, rng) for family, kinds in families.items()}
        yield from shuffled([kinds[0] for kinds in drawn.values()], rng)
        yield from shuffled([each for kinds in drawn.values() for each in kinds[1:]], rng)


class Targets:
    """Chooses a role expression (a target) for each kind of fault.

    A kind that is limited to some roles has a deck of its own. All other kinds share the common
    deck.

    Args:
        plan: The plan of the run. It determines the roles: by its replication factor, partitions,
            groups, transactions and separate controllers.
        rng: The source of random choices for the common deck. A kind with its own deck uses another
            source.
        led: Whether the system reports the leader of its controllers.

    Attributes:
        rng: The random source of the common deck.
    """

    def __init__(self, plan: Plan, rng: Random, *, led: bool = True) -> None:
        self._plan, self.rng, self._led = plan, rng, led
        self._coordinated = bool(roster_of(plan).coordinated)
        self._common = self._common_roles()
        self._aimed: dict[str, Iterator[str]] = {}
        self._waiting: deque[str] = deque()

    def next_for(self, kind: str) -> str:
        """Return the target of the next fault of the given kind."""
        aims = KINDS[kind].aims
        if not aims:
            return self._next_common(kind)
        if kind not in self._aimed:
            own = Random(f"{self._plan.seed}/nemesis/aims/{kind}")
            there = [role for role in aims if len(aims) == 1 or self._is_there(role, kind)]
            self._aimed[kind] = self._aimed_roles(there, own)
        return next(self._aimed[kind])

    def _is_there(self, role: str, kind: str) -> bool:
        """Return whether the plan has a node with this role that this kind of fault can hit."""
        if role == COORDINATOR:
            return self._coordinated
        own = self._plan.own_controllers and not KINDS[kind].on_controllers
        return role not in ON_CONTROLLERS or (self._led and not own)

    def _next_common(self, kind: str) -> str:
        """Return the next common role that this kind can hit. Skipped roles wait for a later kind.

        With separate controllers, a node with the role `controller` is not a broker. Only kinds
        with `on_controllers` can hit it, for example no fault on a disk or a clock.
        """
        if KINDS[kind].on_controllers or not self._plan.own_controllers:
            return self._waiting.popleft() if self._waiting else next(self._common)
        role = next(self._common)
        while role in ON_CONTROLLERS:
            self._waiting.append(role)
            role = next(self._common)
        return role

    def _common_roles(self) -> Iterator[str]:
        """Yield role expressions. Each round has every role.

        The first round begins with a leader and a follower. If the run uses groups or transactions,
        a coordinator is also among the first roles. No other node can serve the groups or
        transactions of a coordinator.
        """
        places = endless(self._plan.topic_partitions, self.rng)
        has_followers = self._plan.replication > 1
        coordinators = [COORDINATOR] if self._coordinated else []
        early = [*coordinators, "leader", *(["follower"] if has_followers else [])]
        first = shuffled(early, self.rng)
        later = shuffled(["controller", "isr", "one"] if self._led else ["isr", "one"], self.rng)
        every = [*first, *later]
        rounds = endless(every, self.rng)
        for role in every:
            yield _expression(role, places)
        for role in rounds:
            yield _expression(role, places)

    def _aimed_roles(self, aims: Sequence[str], rng: Random) -> Iterator[str]:
        places = endless(self._plan.topic_partitions, rng)
        possible = [each for each in aims if each != COORDINATOR or self._coordinated]
        for role in endless(possible, rng):
            yield _expression(role, places)


def _expression(role: str, places: Iterator[tuple[str, int]]) -> str:
    if role not in PARTITION_ROLES:
        return role
    topic, partition = next(places)
    return f"{role}({topic},{partition})"


def endless(cards: Sequence[Card], rng: Random) -> Iterator[Card]:
    """Yield all items in random order, again and again. Yield nothing if there are none."""
    while cards:
        yield from shuffled(cards, rng)


def shuffled(cards: Sequence[Card], rng: Random) -> list[Card]:
    """Return the given items in random order."""
    return rng.sample(list(cards), len(cards))
