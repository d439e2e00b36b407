"""Which fault hits whom, and when: pure, from the plan's seed.

Kinds and roles come from shuffled decks, so that chance decides the order and not what is left out:
each round deals every family of the plan's `nemesis` once, and every role once; the first round of
roles begins with a leader and a follower.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from cluster.protocol import Ability
from nemesis.registry import KINDS, PARTITION, kind_named, kinds_of
from nemesis.targets import parse_target
from results.record.plan import Plan, PlanError, PlannedFault

MIN_HOLD_S = 4.2
"""Brokers' sessions end after 3 s without a heartbeat; a shorter fault would move no leader."""
CALM_S = 0.5
"""Between what a fault and its aftermath take and the next fault, or the end of the main phase."""


Card = TypeVar("Card")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledFault:
    """One fault to come.

    Attributes:
        fault_id: Counted from 1.
        at_s: Seconds from the start of the main phase.
        kind: A name in the registry.
        target: A role expression; who that is turns out at the moment of the fault.
        hold_s: Seconds from its confirmation to its heal.
    """

    fault_id: int
    at_s: float
    kind: str
    target: str
    hold_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The faults of a run.

    Attributes:
        faults: In the order of their starts.
        overlapping: True (written by hand): each starts at its time, whatever else is in force.
            False (dealt): each waits for the one before to be healed.
        dropped: Sentences about what was left out, because it cannot be done here or because the
            main phase is too short for it.
    """

    faults: tuple[ScheduledFault, ...]
    overlapping: bool
    dropped: tuple[str, ...] = ()


def deal_schedule(plan: Plan, *, abilities: Collection[Ability]) -> Schedule:
    """Return the schedule of a plan; the same plan gives the same one.

    Args:
        plan: Its `faults` if it has any, otherwise its `nemesis` dealt from its seed.
        abilities: What the hosts can do.

    Raises:
        PlanError: A fault written by hand has no such kind, target or time.
    """
    if plan.faults is not None:
        return _written_schedule(plan, plan.faults)
    families = [family for family in plan.nemesis if kinds_of(family, abilities)]
    dropped = [
        f"faults of {family} are left out: these hosts cannot do them (`logquake doctor` says why)"
        for family in plan.nemesis
        if family not in families
    ]
    if PARTITION in families and plan.nodes == 1:
        families.remove(PARTITION)
        dropped.append("partitions are left out: a single node has no links to cut")
    faults = tuple(_dealt_faults(plan, families, abilities))
    dropped += _without_room(plan, families, faults)
    return Schedule(faults=faults, overlapping=False, dropped=tuple(dropped))


def unsupported(plan: Plan, *, abilities: Collection[Ability]) -> list[str]:
    """Return sentences about what the user asked for and these hosts cannot do: exit code 254.

    A default that cannot be done is none of these; `deal_schedule` leaves it out and says so.
    """
    remedy = "use other hosts, or leave it out (`logquake doctor` says what is missing)"
    asked = [
        f"fault {fault.kind!r} at {fault.at_s:g} s needs hosts that can {_named(missing)}; {remedy}"
        for fault in plan.faults or ()
        if fault.kind in KINDS and (missing := KINDS[fault.kind].needs - set(abilities))
    ]
    if plan.faults is None and "nemesis" in plan.model_fields_set:
        asked += [
            f"nemesis {family!r} needs hosts that can do it; {remedy}"
            for family in plan.nemesis
            if not kinds_of(family, abilities)
        ]
    return asked


def _named(abilities: Collection[Ability]) -> str:
    return " and ".join(sorted(_WORDS[each] for each in abilities))


_WORDS = {
    Ability.CUT: "cut the network",
    Ability.SHAPE: "make the network bad",
    Ability.DISK: "limit a node's disk",
    Ability.CLOCK: "shift a broker's clock",
}


def node_names(plan: Plan) -> list[str]:
    """Return the names of a plan's nodes: `n1`, `n2`, ..."""
    return [f"n{number}" for number in range(1, plan.nodes + 1)]


def _written_schedule(plan: Plan, faults: Sequence[PlannedFault]) -> Schedule:
    for fault in faults:
        kind_named(fault.kind)
        parse_target(fault.target, node_names(plan), plan.topic_partitions)
        if fault.at_s + fault.hold_s > plan.time_limit_s:
            raise PlanError(
                f"fault {fault.kind!r} at {fault.at_s:g} s would be held until"
                f" {fault.at_s + fault.hold_s:g} s, after the end of the main phase;"
                f" time_limit_s is {plan.time_limit_s:g}"
            )
    ordered = sorted(faults, key=lambda fault: fault.at_s)
    return Schedule(
        faults=tuple(
            ScheduledFault(
                fault_id=number,
                at_s=fault.at_s,
                kind=fault.kind,
                target=fault.target,
                hold_s=fault.hold_s,
            )
            for number, fault in enumerate(ordered, start=1)
        ),
        overlapping=True,
    )


def _dealt_faults(
    plan: Plan, families: Sequence[str], abilities: Collection[Ability]
) -> Iterator[ScheduledFault]:
    """Yield faults one after the other, as many as fit into the main phase."""
    if not families:
        return
    rng = Random(f"{plan.seed}/nemesis")
    kinds, targets = _kind_deck(families, abilities, rng), _target_deck(plan, rng)
    at_s = min(rng.uniform(0.4, 0.6) * plan.nemesis_interval_s, 0.15 * plan.time_limit_s)
    fault_id = 1
    misfits = 0
    while misfits < len(families):
        kind = next(kinds)
        hold_s = _drawn_hold_s(plan, rng)
        taken_s = hold_s + KINDS[kind].settle_s + CALM_S
        if at_s + taken_s > plan.time_limit_s:
            misfits += 1  # A kind that settles sooner may fit.
            continue
        misfits = 0
        yield ScheduledFault(
            fault_id=fault_id,
            at_s=round(at_s, 3),
            kind=kind,
            target=next(targets),
            hold_s=round(hold_s, 3),
        )
        at_s += max(taken_s, rng.uniform(0.9, 1.1) * plan.nemesis_interval_s)
        fault_id += 1


def _without_room(
    plan: Plan, families: Sequence[str], faults: Sequence[ScheduledFault]
) -> list[str]:
    """Return a sentence if the main phase ends before every family was dealt once."""
    dealt = {KINDS[fault.kind].family for fault in faults}
    missing = [family for family in families if family not in dealt]
    if not missing:
        return []
    others = ",".join(family for family in families if family in dealt)
    instead = f"--nemesis {others}" if others else "a kind that takes less with --nemesis"
    sentence = (
        f"no fault of kind {' or '.join(missing)} fits into a main phase of"
        f" {plan.time_limit_s:g} s, so that the verdict will be unknown at best;"
        f" use a longer --time-limit, or {instead}"
    )
    return [sentence]


def _drawn_hold_s(plan: Plan, rng: Random) -> float:
    hold_s = max(MIN_HOLD_S, rng.uniform(0.6, 0.9) * plan.nemesis_interval_s)
    # Sends must outlive the fault, or each of them would end unknown.
    return min(hold_s, 0.8 * plan.delivery_timeout_s)


def _kind_deck(
    families: Sequence[str], abilities: Collection[Ability], rng: Random
) -> Iterator[str]:
    """Yield kinds: every family once a round, and within a family every kind once a round."""
    within = {family: _endless(kinds_of(family, abilities), rng) for family in families}
    for family in _endless(families, rng):
        yield next(within[family])


def _target_deck(plan: Plan, rng: Random) -> Iterator[str]:
    """Yield role expressions: every role once a round, first of all a leader and a follower."""
    places = _endless(plan.topic_partitions, rng)
    has_followers = plan.replication > 1
    first = _shuffled(["leader", "follower"] if has_followers else ["leader"], rng)
    later = _shuffled(["controller", "isr", "one"], rng)
    every = [*first, *later]
    rounds = _endless(every, rng)
    for role in every:
        yield _expression(role, places)
    for role in rounds:
        yield _expression(role, places)


def _expression(role: str, places: Iterator[tuple[str, int]]) -> str:
    if role in {"controller", "one"}:
        return role
    topic, partition = next(places)
    return f"{role}({topic},{partition})"


def _endless(cards: Sequence[Card], rng: Random) -> Iterator[Card]:
    while True:
        yield from _shuffled(cards, rng)


def _shuffled(cards: Sequence[Card], rng: Random) -> list[Card]:
    return rng.sample(list(cards), len(cards))
