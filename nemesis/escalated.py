"""Schedule the faults of levels above 0.

The faults come more often than at level 0 and, at higher levels, in aftermaths and in more lanes.

A lane is a sequence of faults that do not overlap. The functions are pure: all randomness comes
from the seed. Faults that disable no node (`Kind.takes`) have a lane of their own, such as faults
of clocks and topics. The level sets the number of lanes for faults that disable nodes or degrade
their links. With two lanes, one has process faults and the other link faults, so that parallel
faults seldom claim the same aspect. Link faults that divide all nodes stay in the first lane. At
level 3, link faults with roles of their own (`Kind.aims`) stay there, too. Further lanes repeat
these kinds. If two faults claim the same aspect of a node, the later fault waits
(`nemesis.claims`).

These rules hold at every level. Only the first lane has faults that destroy records, and faults
that hit or divide all nodes. A fault that destroys records runs alone, with a pause before and
after it (`nemesis.turns`). By the schedule, the last fault of each lane ends, and the cluster
settles, before the end of the main phase.
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
"""Limits of short holds in seconds: the minimum on real hosts, the minimum in simulation, and a
middle value. Half of the short holds are below the middle value. On real hosts a heal takes about
as long as the shortest hold."""
_OF_LONG = 2
"""The number of lanes with long faults on nodes. In all other lanes, faults that disable nodes are
short. Otherwise a majority would be down nearly always, and no message would be acknowledged."""
_BREATH_S, _LONG_BREATH_S = 0.5, 5.0
"""The longest pauses in seconds between a planned heal and the lane's next fault, at levels with
aftermaths. The second value is for lanes whose faults on nodes are short, because elections need
time to end."""
_AFTERMATHS = 1 / 2
"""The share of faults that hit a node in an aftermath. It applies if the level has aftermaths, and
if the fault disables nodes and can hit any node. The first fault of a lane is excluded."""


def level_of(plan: Plan, *, overlaps: bool) -> Level:
    """Return the level of a plan.

    Args:
        plan: The plan of the run.
        overlaps: Whether level 0 already has overlapping faults that may disable a majority.
    """
    level = LEVELS[plan.level]
    return replace(level, lanes=level.lanes + 1, spares_majority=False) if overlaps else level


def deal_escalated(
    plan: Plan, families: Families, level: Level, *, few: int, led: bool
) -> tuple[ScheduledFault, ...]:
    """Return the scheduled faults of the given families, in the order of their starts.

    Args:
        plan: The plan of the run.
        families: The possible kinds of each family.
        level: The level of the plan.
        few: If there are at most this many families, each round has one kind of every family.
            Otherwise each round has every kind.
        led: Whether the system reports the leader of its controllers.
    """
    by_family = len(families) <= few
    lanes = [
        _Lane(plan, kinds, number, strikes=strikes, by_family=by_family, led=led)
        for number, (kinds, strikes) in enumerate(lanes_of(families, level))
    ]
    dealt = sorted(_dealt_together(plan, lanes, level), key=lambda each: (each.at_s, each.lane))
    return tuple(replace(fault, fault_id=at) for at, fault in enumerate(dealt, start=1))


def lanes_of(families: Families, level: Level) -> list[tuple[Families, Strikes | None]]:
    """Return the families of each lane, and the group of nodes that the lane must hit, or None.

    Every kind is in the first suitable lane, so that no kind is left out.
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
    """Return two lanes. Faults of the second lane hit a node that already has a fault.

    Return only one lane if no fault suits the second lane, or if no fault of another aspect can be
    the first fault on that node.
    """

    def of_second(kind: Kind) -> bool:
        return _cuts_some(kind) and not kind.aims

    links, others = _some(taking, of_second), _some(taking, lambda kind: not of_second(kind))
    if links and _some(others, lambda kind: _is_shared(kind) and not _of_links(kind)):
        return [(others, None), (links, Strikes.STRUCK)]
    return [(taking, None)]


def _side_by_side(taking: Families, count: int) -> list[Families]:
    """Return a lane of other faults and a lane of link faults. Repeat both up to `count` lanes.

    The first lane also has the faults that divide all nodes. If there are no link faults or no
    other faults, all faults share one lane, which is repeated.
    """
    links, others = _some(taking, _cuts_some), _some(taking, lambda kind: not _cuts_some(kind))
    apart = links and _some(others, lambda kind: not _of_links(kind))
    lanes = [others, links] if apart else [taking]
    again = [more for each in lanes if (more := _some(each, _is_shared))]
    while again and len(lanes) < count:
        lanes.append(again[len(lanes) % len(again)])
    return lanes


def _some(families: Families, wanted: Callable[[Kind], bool]) -> Families:
    """Return the wanted kinds of each family. Leave out families without wanted kinds."""
    kinds = {
        family: tuple(name for name in names if wanted(KINDS[name]))
        for family, names in families.items()
    }
    return {family: each for family, each in kinds.items() if each}


def _of_links(kind: Kind) -> bool:
    return kind.aspect in {Aspect.LINKS, Aspect.QUALITY}


def _is_shared(kind: Kind) -> bool:
    """Return whether another fault may be active at the same time, on any node."""
    apart = kind.when_whole or kind.divides or bool(_ALL & {*kind.aims})
    return not apart and kind.least_targets == 1


def _cuts_some(kind: Kind) -> bool:
    """Return whether a kind changes the links of some nodes, but not of all."""
    return _of_links(kind) and _is_shared(kind)


class _Lane:
    """A sequence of scheduled faults that do not overlap, with its own random source.

    Args:
        plan: The plan of the run.
        families: The kinds of each family in this lane.
        number: The index of the lane, from 0.
        strikes: The group of nodes that the faults of this lane hit. None if the level decides.
        by_family: True if each round has one kind of every family, False if each round has every
            kind.
        led: Whether the system reports the leader of its controllers.

    Attributes:
        at_s: The earliest start of the next fault.
        over_s: The time at which the last fault has ended and the cluster is normal again. None
            before the first fault.
        round_of: The number of kinds in the lane's deck.
        misfits: The number of successive kinds that no longer fit into the main phase.
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
        """Return the random hold time of the next fault: shorter than `MIN_HOLD_S`, or longer."""
        further = kind.takes and self.number >= _OF_LONG
        moments = self.rng.random() < level.moments or further
        share, short = self.rng.uniform(0.6, 0.9), self.rng.random()
        if moments:
            least_s = _SHORTEST_SIMULATED_S if plan.hosts == SIMULATED else _SHORTEST_S
            between = (least_s, _SHORT_S) if short < 1 / 2 else (_SHORT_S, MIN_HOLD_S)
            hold_s = self.rng.uniform(*between)
        else:
            hold_s = max(MIN_HOLD_S, share * level.pace * plan.nemesis_interval_s)
        return min(hold_s, 0.8 * plan.delivery_timeout_s)  # As at level 0: sends wait longer.

    def struck(self, kind: Kind, level: Level) -> Strikes | None:
        """Return the group of nodes that a fault hits. None if the fault hits its target."""
        aftermath = self.rng.random() < _AFTERMATHS
        whom = self.rng.choice((Strikes.RECOVERED, Strikes.ELECTED))
        if not kind.takes or kind.aims or kind.when_whole:
            return None
        if self.strikes is not None:
            return self.strikes
        return whom if level.aftermath and aftermath and self.over_s is not None else None


def _dealt_together(plan: Plan, lanes: Sequence[_Lane], level: Level) -> Iterator[ScheduledFault]:
    """Yield the faults of all lanes, until no kind fits into any lane's remaining time."""
    steady_s, interval_s = hidden_s(plan), level.pace * plan.nemesis_interval_s
    while still := [lane for lane in lanes if lane.misfits < lane.round_of]:
        # If two lanes are due at the same time, take the one that has waited longer.
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
            lane.misfits += 1  # A faster kind may fit.
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
        # In an aftermath, the previous fault may end after this one.
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
    """Return the seconds until a fault is healed and its brokers run again."""
    starts_s = 0.0 if hosts == SIMULATED else kind.starts * START_S
    return kind.confirm_s + hold_s + (starts_s if kind.starts else kind.settle_s)
