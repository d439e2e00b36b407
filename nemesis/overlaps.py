"""Schedule overlapping faults of level 0 for hosts in virtual time. Pure functions.

At level 0 on real hosts, only one random fault at a time disables nodes. It is usually held for
longer than a broker's session. Simulated hosts do not need these limits. So plans with many
families have two parallel lanes. The first lane has all kinds. Its faults last as long as on real
hosts, so that sessions end and leaders change. The second lane has no faults that destroy records,
and no faults on all nodes. Its faults are frequent and short: half of them are held for less than a
second. So a node is often back before other nodes notice that it was down. A short fault may begin
while the cluster still recovers from a fault of the first lane.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from cluster.sessions import hidden_s
from nemesis.decks import Targets, kind_deck
from nemesis.registry import KINDS
from nemesis.scheduled import CALM_S, MIN_HOLD_S, ScheduledFault, drawn_hold_s
from nemesis.targets import QUORUM_VOTERS, SERVERS
from results.record.plan import Plan

LONG, QUICK = 0, 1
_QUICKEST_S, _QUICK_S = 0.05, 1.0
_ALL = {"all", QUORUM_VOTERS, SERVERS}
_ONLY_LONG = frozenset(
    name for name, kind in KINDS.items() if kind.when_whole or _ALL & {*kind.aims}
)
"""Kinds of the first lane only: faults that destroy records, and faults on all nodes."""


def deal_overlapping(
    plan: Plan, families: Mapping[str, Sequence[str]]
) -> tuple[ScheduledFault, ...]:
    """Return scheduled faults of the given families in two lanes, in the order of their starts.

    A fault that destroys records runs alone, with a pause before and after it in which all replicas
    are in sync (`nemesis.turns`). Meanwhile the other lane has no faults, because they would have
    to wait, and would start late or never.

    Args:
        plan: The plan of the run.
        families: The possible kinds of each family.
    """
    lanes = [
        _Lane(plan, kinds, lane) for lane in (LONG, QUICK) if (kinds := _kinds_of(families, lane))
    ]
    dealt = sorted(_dealt_together(plan, lanes), key=lambda fault: (fault.at_s, fault.lane))
    return tuple(replace(fault, fault_id=at) for at, fault in enumerate(dealt, start=1))


class _Lane:
    """A sequence of faults that do not overlap, with its own random source.

    Args:
        plan: The plan of the run.
        families: The kinds of each family in this lane.
        number: The index of the lane, from 0.

    Attributes:
        at_s: The earliest start of the next fault.
        over_s: The time at which the last fault has ended and the cluster is normal again. None
            before the first fault.
    """

    def __init__(self, plan: Plan, families: Mapping[str, Sequence[str]], number: int) -> None:
        self.number, self.rng = number, Random(f"{plan.seed}/nemesis/overlap-{number}")
        deck = kind_deck(families, self.rng)
        self.kinds = _first_what_is_dealt_here_only(deck, len(families))
        self.targets = Targets(plan, self.rng)
        start_s = self.rng.uniform(0.1, 0.6) * plan.nemesis_interval_s
        self.at_s = min(start_s, 0.15 * plan.time_limit_s)
        self.over_s: float | None = None


def _dealt_together(plan: Plan, lanes: Sequence[_Lane]) -> Iterator[ScheduledFault]:
    """Yield the faults of all lanes. A lane ends when its next fault no longer fits."""
    steady_s, still = hidden_s(plan), list(lanes)
    while still:
        lane = min(still, key=lambda each: each.at_s)
        kind, hold_s = next(lane.kinds), _drawn_hold_s(plan, lane.rng, lane.number)
        alone, at_s = KINDS[kind].when_whole, lane.at_s
        if alone:
            before = [each.over_s for each in lanes if each.over_s is not None]
            at_s = max([at_s, *(each + steady_s for each in before)])
        over_s = at_s + KINDS[kind].lasts_s(hold_s, plan.hosts)
        if over_s + CALM_S > plan.time_limit_s:
            still.remove(lane)
            continue
        yield ScheduledFault(
            fault_id=1,
            at_s=round(at_s, 3),
            kind=kind,
            target=lane.targets.next_for(kind),
            hold_s=round(hold_s, 3),
            lane=lane.number,
        )
        lane.over_s = over_s
        lane.at_s = over_s + CALM_S + lane.rng.uniform(0.0, 0.5) * plan.nemesis_interval_s
        if alone:
            for each in lanes:
                each.at_s = max(each.at_s, over_s + steady_s)


def _first_what_is_dealt_here_only(kinds: Iterator[str], families: int) -> Iterator[str]:
    """Yield a lane's kinds. Begin with kinds that only this lane has.

    Only the first kind of each family can be moved to the front. So these kinds occur even in a
    short main phase.
    """
    first = [next(kinds) for _ in range(families)]
    yield from sorted(first, key=lambda kind: kind not in _ONLY_LONG)
    yield from kinds


def _kinds_of(families: Mapping[str, Sequence[str]], lane: int) -> Mapping[str, Sequence[str]]:
    """Return the possible kinds of a lane by family. Only the first lane destroys records."""
    left_out = _ONLY_LONG if lane == QUICK else frozenset()
    kinds = {
        family: tuple(name for name in names if name not in left_out)
        for family, names in families.items()
    }
    return {family: each for family, each in kinds.items() if each}


def _drawn_hold_s(plan: Plan, rng: Random, lane: int) -> float:
    if lane == LONG:
        return drawn_hold_s(plan, rng)
    quick = rng.random() < 0.5  # noqa: PLR2004 - one half of them
    return rng.uniform(_QUICKEST_S, _QUICK_S) if quick else rng.uniform(_QUICK_S, MIN_HOLD_S)
