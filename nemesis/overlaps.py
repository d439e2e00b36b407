"""Deals faults that overlap, for hosts in virtual time: pure, from the plan's seed.

Real hosts are dealt one fault at a time that takes a node, so that a majority is always whole, and
none that is over before its effect can be measured. Simulated ones bear all of it: two lanes side
by side, each with all kinds. One holds as long as real ones, so that sessions end and leaders
change; the other strikes often and mostly for moments, so that who was gone is back before
anybody has missed it, and meets the aftermath of the first one's faults.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from nemesis.decks import Targets, kind_deck
from nemesis.registry import KINDS
from nemesis.scheduled import CALM_S, MIN_HOLD_S, ScheduledFault, drawn_hold_s
from nemesis.targets import QUORUM_VOTERS
from results.record.plan import Plan

LONG, QUICK = 0, 1
_QUICKEST_S, _QUICK_S = 0.05, 1.0
_ONLY_LONG = frozenset(
    name for name, kind in KINDS.items() if kind.when_whole or {"all", QUORUM_VOTERS} & {*kind.aims}
)
"""What takes records is alone while it lasts, and who is all of the nodes shares none of them."""


def deal_overlapping(
    plan: Plan, families: Mapping[str, Sequence[str]]
) -> tuple[ScheduledFault, ...]:
    """Return faults of families in two lanes, in the order of their starts.

    Args:
        plan: Of the run.
        families: With the kinds of each that can be played.
    """
    dealt = [*_lane(plan, families, LONG), *_lane(plan, families, QUICK)]
    dealt.sort(key=lambda fault: (fault.at_s, fault.lane))
    return tuple(replace(fault, fault_id=at) for at, fault in enumerate(dealt, start=1))


def _lane(plan: Plan, families: Mapping[str, Sequence[str]], lane: int) -> Iterator[ScheduledFault]:
    rng = Random(f"{plan.seed}/nemesis/overlap-{lane}")
    dealt = _kinds_of(families, lane)
    if not dealt:
        return
    kinds = _first_what_is_dealt_here_only(kind_deck(dealt, rng), len(dealt))
    targets = Targets(plan, rng)
    at_s = min(rng.uniform(0.1, 0.6) * plan.nemesis_interval_s, 0.15 * plan.time_limit_s)
    while True:
        kind, hold_s = next(kinds), _drawn_hold_s(plan, rng, lane)
        taken_s = KINDS[kind].lasts_s(hold_s, plan.hosts) + CALM_S
        if at_s + taken_s > plan.time_limit_s:
            return
        yield ScheduledFault(
            fault_id=1,
            at_s=round(at_s, 3),
            kind=kind,
            target=targets.next_for(kind),
            hold_s=round(hold_s, 3),
            lane=lane,
        )
        at_s += taken_s + rng.uniform(0.0, 0.5) * plan.nemesis_interval_s


def _first_what_is_dealt_here_only(kinds: Iterator[str], families: int) -> Iterator[str]:
    """Begin with what no other lane has: of its families a short main phase must have one, too."""
    first = [next(kinds) for _ in range(families)]
    yield from sorted(first, key=lambda kind: kind not in _ONLY_LONG)
    yield from kinds


def _kinds_of(families: Mapping[str, Sequence[str]], lane: int) -> Mapping[str, Sequence[str]]:
    """Return the kinds of each family; what takes records is never dealt twice at one time."""
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
