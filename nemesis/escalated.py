"""Deals the faults of levels above 0: denser, in aftermaths, in more lanes. Pure, from the seed.

What takes no node (clocks, leadership, topics) has a lane of its own. What takes nodes, or makes
their links bad, has as many as the level says: from two on, processes and links have one each, so
that faults side by side have no aspect in common; further ones have the same kinds once more, and
wait for each other where they want the same of a node (`nemesis.claims`).

Whatever the level: what takes records, or takes or parts all nodes, is dealt to the first lane
only; what takes records has the time for itself, and a while before and after (`nemesis.turns`);
the last fault of a lane is over, and all as before, when the main phase ends.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from cluster.sessions import hidden_s
from nemesis.aftermath import Strikes
from nemesis.claims import Aspect
from nemesis.decks import Targets, family_deck, kind_deck
from nemesis.kind import START_S, Kind
from nemesis.levels import LEVELS, Level, after_lull
from nemesis.registry import KINDS
from nemesis.scheduled import CALM_S, MIN_HOLD_S, ScheduledFault
from nemesis.targets import QUORUM_VOTERS, SERVERS
from results.record.plan import SIMULATED, Plan

Families = Mapping[str, Sequence[str]]
_ALL = {"all", QUORUM_VOTERS, SERVERS}
_SHORTEST_S, _SHORTEST_SIMULATED_S, _SHORT_S = 0.5, 0.05, 1.0
"""Of a fault that is held for moments: on real hosts a heal takes about as long itself. Half of
them last a second at most."""
_OF_LONG = 2
"""So many lanes have faults that outlast a session; in others all are held for moments, or a
majority would be gone nearly always, and nothing sent."""
_BREATH_S, _LONG_BREATH_S = 0.5, 5.0
"""At most so long after a planned heal the next fault of the lane is due, in an aftermath; the
second: in further lanes, or elections would have no time to end."""
_AFTERMATHS = 1 / 2
"""Of the faults that may strike anybody: so many strike in an aftermath, where the level has it."""


def level_of(plan: Plan, *, overlaps: bool) -> Level:
    """Return a plan's level.

    Args:
        plan: Of the run.
        overlaps: Whether its faults take a majority, and two lanes, at level 0 already.
    """
    level = LEVELS[plan.level]
    return replace(level, lanes=level.lanes + 1, spares_majority=False) if overlaps else level


def deal_escalated(
    plan: Plan, families: Families, level: Level, *, few: int, led: bool
) -> tuple[ScheduledFault, ...]:
    """Return faults of families, in the order of their starts.

    Args:
        plan: Of the run.
        families: With the kinds of each that can be played.
        level: Of the plan.
        few: Up to so many families are dealt family by family; more by kinds.
        led: Whether the system tells who leads its controllers.
    """
    by_family = len(families) <= few
    lanes = [
        _Lane(plan, kinds, number, strikes=strikes, by_family=by_family, led=led)
        for number, (kinds, strikes) in enumerate(lanes_of(families, level))
    ]
    dealt = sorted(_dealt_together(plan, lanes, level), key=lambda each: (each.at_s, each.lane))
    return tuple(replace(fault, fault_id=at) for at, fault in enumerate(dealt, start=1))


def lanes_of(families: Families, level: Level) -> list[tuple[Families, Strikes | None]]:
    """Return the families of each lane, and whom its faults strike where the level says so.

    Every kind is in the first lane that may have it, so that none is left out.
    """
    taking = _some(families, lambda kind: kind.takes)
    gentle = _some(families, lambda kind: not kind.takes)
    lanes: list[tuple[Families, Strikes | None]]
    if level.lanes > 1 and level.spares_majority:
        lanes = _on_one_node(taking)
    elif level.lanes > 1:
        lanes = [(each, None) for each in _side_by_side(taking, level.lanes)]
    else:
        lanes = [(taking, None)]
    return [(kinds, strikes) for kinds, strikes in (*lanes, (gentle, None)) if kinds]


def _on_one_node(taking: Families) -> list[tuple[Families, Strikes | None]]:
    """Return two lanes, the second of which has what can be done to who is hit already.

    One lane only, where both would have but one aspect in hand: the same would be done twice.
    """

    def of_second(kind: Kind) -> bool:
        return _cuts_some(kind) and not kind.aims

    links, others = _some(taking, of_second), _some(taking, lambda kind: not of_second(kind))
    if links and _some(others, lambda kind: _is_shared(kind) and not _of_links(kind)):
        return [(others, None), (links, Strikes.STRUCK)]
    return [(taking, None)]


def _side_by_side(taking: Families, count: int) -> list[Families]:
    """Return lanes by aspect, and as many more as are missing with the same kinds.

    The first one has what parts all nodes, too.
    """
    links, others = _some(taking, _cuts_some), _some(taking, lambda kind: not _cuts_some(kind))
    apart = links and _some(others, lambda kind: not _of_links(kind))
    lanes = [others, links] if apart else [taking]
    again = [more for each in lanes if (more := _some(each, _is_shared))]
    while again and len(lanes) < count:
        lanes.append(again[len(lanes) % len(again)])
    return lanes


def _some(families: Families, wanted: Callable[[Kind], bool]) -> Families:
    """Return the kinds that are wanted; no family without one."""
    kinds = {
        family: tuple(name for name in names if wanted(KINDS[name]))
        for family, names in families.items()
    }
    return {family: each for family, each in kinds.items() if each}


def _of_links(kind: Kind) -> bool:
    return kind.aspect in {Aspect.LINKS, Aspect.QUALITY}


def _is_shared(kind: Kind) -> bool:
    """Tell whether another fault may be in force beside it whoever that one hits."""
    apart = kind.when_whole or kind.divides or bool(_ALL & {*kind.aims})
    return not apart and kind.least_targets == 1


def _cuts_some(kind: Kind) -> bool:
    """Tell whether it is about links of some nodes, and not of all."""
    return _of_links(kind) and _is_shared(kind)


class _Lane:
    """What is dealt one after the other, with its own source of chance.

    Args:
        plan: Of the run.
        families: With their kinds that are dealt here.
        number: Which lane.
        strikes: Whom each of its faults strikes; None: as the level has it.
        by_family: Whether its deck is dealt family by family.
        led: Whether the system tells who leads its controllers.

    Attributes:
        at_s: When the next fault may begin.
        over_s: When the last one is over, and all as before; None: there was none.
        round_of: How many kinds its deck has.
        misfits: How many kinds in a row did not fit in any more.
    """

    def __init__(
        self,
        plan: Plan,
        families: Families,
        number: int,
        *,
        strikes: Strikes | None,
        by_family: bool,
        led: bool,
    ) -> None:
        self.number, self.strikes = number, strikes
        self.rng = Random(f"{plan.seed}/nemesis/level-{plan.level}/lane-{number}")
        deck = family_deck if by_family else kind_deck
        self.kinds = deck(families, self.rng)
        self.targets = Targets(plan, self.rng, led=led)
        self.round_of = sum(map(len, families.values()))
        interval_s = LEVELS[plan.level].pace * plan.nemesis_interval_s
        self.at_s = min(self.rng.uniform(0.2, 0.6) * interval_s, 0.15 * plan.time_limit_s)
        self.over_s: float | None = None
        self.misfits = 0

    def drawn_hold_s(self, kind: Kind, plan: Plan, level: Level) -> float:
        """Return how long the next fault is held: for moments, or longer than a session."""
        further = kind.takes and self.number >= _OF_LONG
        moments = self.rng.random() < level.moments or further
        share, short = self.rng.uniform(0.6, 0.9), self.rng.random()
        if moments:
            least_s = _SHORTEST_SIMULATED_S if plan.hosts == SIMULATED else _SHORTEST_S
            between = (least_s, _SHORT_S) if short < 1 / 2 else (_SHORT_S, MIN_HOLD_S)
            hold_s = self.rng.uniform(*between)
        else:
            hold_s = max(MIN_HOLD_S, share * level.pace * plan.nemesis_interval_s)
        return min(hold_s, 0.8 * plan.delivery_timeout_s)  # As at level 0: sends outlive it.

    def struck(self, kind: Kind, level: Level) -> Strikes | None:
        """Return whom a fault strikes rather than its target; None: nobody else."""
        aftermath = self.rng.random() < _AFTERMATHS
        whom = self.rng.choice((Strikes.RECOVERED, Strikes.ELECTED))
        if not kind.takes or kind.aims or kind.when_whole:
            return None
        if self.strikes is not None:
            return self.strikes
        return whom if level.aftermath and aftermath and self.over_s is not None else None


def _dealt_together(plan: Plan, lanes: Sequence[_Lane], level: Level) -> Iterator[ScheduledFault]:
    """Yield the faults of lanes, until no card of a round fits into any of them any more."""
    steady_s, interval_s = hidden_s(plan), level.pace * plan.nemesis_interval_s
    while still := [lane for lane in lanes if lane.misfits < lane.round_of]:
        # Of two that are due at once, as after what takes records, who has waited longer.
        lane = min(still, key=lambda each: (each.at_s, each.over_s or 0.0))
        name, at_s = next(lane.kinds), lane.at_s
        kind = KINDS[name]
        hold_s = lane.drawn_hold_s(kind, plan, level)
        if kind.when_whole:
            over_s = [each.over_s for each in lanes if each.over_s is not None]
            at_s = max([at_s, *(each + steady_s for each in over_s)])
        at_s = after_lull(at_s, level.lull_s)
        lasts_s = kind.lasts_s(hold_s, plan.hosts)
        if at_s + lasts_s + CALM_S > plan.time_limit_s:
            lane.misfits += 1  # A kind that settles sooner may fit.
            continue
        yield ScheduledFault(
            fault_id=1,
            at_s=round(at_s, 3),
            kind=name,
            target=lane.targets.next_for(name),
            hold_s=round(hold_s, 3),
            lane=lane.number,
            strikes=lane.struck(kind, level),
        )
        # In an aftermath the fault before may be over later: it settles beside this one.
        lane.misfits, lane.over_s = 0, max(lane.over_s or 0.0, at_s + lasts_s)
        if level.aftermath:
            breath_s = _LONG_BREATH_S if kind.takes and lane.number >= _OF_LONG else _BREATH_S
            lane.at_s = at_s + healed_s(kind, hold_s, plan.hosts) + lane.rng.random() * breath_s
        else:
            lane.at_s = at_s + max(lasts_s + CALM_S, lane.rng.uniform(0.9, 1.1) * interval_s)
        if kind.when_whole:
            for each in lanes:
                each.at_s = max(each.at_s, lane.over_s + steady_s)


def healed_s(kind: Kind, hold_s: float, hosts: str) -> float:
    """Return how long a fault takes until it is healed: its brokers run, and no more than that."""
    starts_s = 0.0 if hosts == SIMULATED else kind.starts * START_S
    return kind.confirm_s + hold_s + (starts_s if kind.starts else kind.settle_s)
