"""Which fault hits whom, and when: pure, from the plan's seed.

Kinds and roles come from shuffled decks (`nemesis.decks`): each round deals every family of the
plan's `nemesis` once, and every role once; the first round of roles begins with a leader and a
follower.

Up to `FEW_FAMILIES` are dealt one after the other. More are dealt in two lanes side by side, and by
kinds: one lane has what takes a node away or makes its links bad, one fault at a time, so that
only a minority is hit, or all at once; the other what takes none (clocks, leadership, topics). The
lanes have no aspect of a node in common, so that whatever overlaps composes (docs/faults.md).
Beside what takes records, nothing is dealt in either. In virtual time both lanes have all kinds
(`nemesis.overlaps`). A plan's `level` has them dealt otherwise (`nemesis.escalated`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from cluster.protocol import OF_SYSTEMS, Ability
from cluster.sessions import hidden_s
from nemesis.decks import Targets, family_deck, kind_deck
from nemesis.escalated import deal_escalated, level_of
from nemesis.families import is_of
from nemesis.overlaps import deal_overlapping
from nemesis.registry import KINDS, kinds_of, needs_of, unsuited_by
from nemesis.roster import roster_of
from nemesis.scheduled import CALM_S, ScheduledFault, drawn_hold_s
from nemesis.written import refuse_senseless
from results.record.plan import ALL, NEMESIS_KINDS, SIMULATED, Plan
from results.record.plan_parts import PlannedFault

FEW_FAMILIES = 4
"""So many share one lane: dealt side by side a default run would have twice as many faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The faults of a run.

    Attributes:
        faults: In the order of their starts.
        overlapping: True (written by hand): each starts at its time, whatever else is in force.
            False (dealt): each waits for the one before in its lane to be healed.
        dropped: Sentences about what was left out, because it cannot be done here or because the
            main phase is too short for it.
        spares_majority: Whether a dealt fault that takes a node waits until a majority of nodes
            would still be whole; in virtual time, and at high levels, lanes may take more than that
            together.
        is_supply: Whether more is dealt than may have its turn: a lane goes on as soon as its last
            fault is healed. What was due in the second half and is left at the end is not missed.
        lull_s: How long no dealt fault begins, again and again (`nemesis.levels`); 0: there is no
            such time.
    """

    faults: tuple[ScheduledFault, ...]
    overlapping: bool
    dropped: tuple[str, ...] = ()
    spares_majority: bool = True
    is_supply: bool = False
    lull_s: float = 0.0


def deal_schedule(
    plan: Plan,
    *,
    abilities: Collection[Ability],
    why_not: Mapping[Ability, str] | None = None,
) -> Schedule:
    """Return the schedule of a plan; the same plan gives the same one.

    Args:
        plan: Its `faults` if it has any, otherwise its `nemesis` dealt from its seed.
        abilities: What hosts and system can do.
        why_not: Why they cannot do the rest, for the sentences about what is left out.

    Raises:
        PlanError: A fault written by hand has no such kind, target or time, or cannot come to be.
    """
    if plan.faults is not None:
        return _written_schedule(plan, plan.faults)
    families = played_families(plan, abilities=abilities)
    missing = [family for family in _wanted(plan) if family not in families]
    missing = [each for each in missing if is_of(each, plan.hosts)]
    dropped = _left_out(missing, plan, abilities, why_not or {})
    faults = _dealt_faults(plan, families, abilities)
    dropped += without_room(plan, list(families), faults)
    # Simulated hosts bear it that a majority is gone.
    level = level_of(plan, overlaps=_overlaps(plan, families))
    return Schedule(
        faults=faults,
        overlapping=False,
        dropped=tuple(dropped),
        spares_majority=level.spares_majority,
        is_supply=level.aftermath,
        lull_s=level.lull_s,
    )


def played_families(plan: Plan, *, abilities: Collection[Ability]) -> Mapping[str, tuple[str, ...]]:
    """Return the families of a plan's `nemesis` that can be played, each with its kinds.

    Of `all` or a default, which nobody named, only what the main phase has room for.
    """
    kinds = {
        family: tuple(
            kind
            for kind in kinds_of(family, abilities, nodes=plan.nodes, hosts=plan.hosts)
            if KINDS[kind].suits(plan) and KINDS[kind].is_dealt(plan.hosts)
        )
        for family in _wanted(plan)
    }
    able = {family: each for family, each in kinds.items() if each}
    asked_for = plan.faults is not None or names_families(plan)
    return able if asked_for else _with_room(plan, able, abilities)


def names_families(plan: Plan) -> bool:
    """Tell whether somebody named the families of a plan's `nemesis`, rather than all or none."""
    return "nemesis" in plan.model_fields_set and ALL not in plan.nemesis and not plan.drawn


def _with_room(
    plan: Plan, families: Mapping[str, tuple[str, ...]], abilities: Collection[Ability]
) -> Mapping[str, tuple[str, ...]]:
    """Leave out what takes longest until each family is dealt; all if not one of them would be."""

    def lasts_s(family: str) -> tuple[float, float]:
        # Of two that take as long in virtual time, what takes longer on real hosts.
        kinds = [KINDS[kind] for kind in left[family]]
        return min((kind.lasts_s(0, plan.hosts), kind.confirm_s + kind.settle_s) for kind in kinds)

    left = dict(families)
    while left:
        faults = _dealt_faults(plan, left, abilities)
        dealt = {KINDS[fault.kind].family_for(plan.hosts) for fault in faults}
        if dealt == left.keys():
            return left
        del left[max(left, key=lasts_s)]
    return families


def _wanted(plan: Plan) -> tuple[str, ...]:
    return NEMESIS_KINDS if ALL in plan.nemesis else plan.nemesis


def _left_out(
    families: Sequence[str],
    plan: Plan,
    abilities: Collection[Ability],
    why_not: Mapping[Ability, str],
) -> list[str]:
    """Return a sentence for each reason, with all the families that are left out for it."""
    by_reason: dict[str, list[str]] = {}
    for family in families:
        reason = _unfit(family, plan, abilities) or _unable(family, abilities, why_not)
        by_reason.setdefault(reason, []).append(family)
    return [
        f"faults of {_listed(those)} are left out: {reason}" for reason, those in by_reason.items()
    ]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _unfit(family: str, plan: Plan, abilities: Collection[Ability]) -> str:
    """Return why a plan has no room for a family; empty if it is the hosts that cannot do it."""
    kinds = kinds_of(family, abilities, hosts=plan.hosts)
    if unsuited := unsuited_by(family, plan):
        return unsuited
    if not kinds:
        return ""
    least = min(KINDS[kind].least_nodes for kind in kinds)
    if plan.nodes < least:
        return f"they need {least} nodes or more"
    if any(KINDS[kind].suits(plan) for kind in kinds):
        return (
            f"a main phase of {plan.time_limit_s:g} s has no room for them; use a longer"
            " --time-limit"
        )
    return "they need more nodes, or more replicas"


def _unable(family: str, abilities: Collection[Ability], why_not: Mapping[Ability, str]) -> str:
    """Return why hosts, or a system, cannot do a family."""
    missing = needs_of(family) - set(abilities)
    if because := _because(missing, why_not):
        return because
    if missing & OF_SYSTEMS:
        return f"this system cannot {_named(missing & OF_SYSTEMS)}"
    return "these hosts cannot do them (`logquake doctor` says why)"


def _because(missing: Collection[Ability], why_not: Mapping[Ability, str]) -> str:
    reasons = (why_not.get(each, "") for each in sorted(missing))
    return "; ".join(dict.fromkeys(filter(None, reasons)))


def unsupported(
    plan: Plan, *, abilities: Collection[Ability], why_not: Mapping[Ability, str] | None = None
) -> list[str]:
    """Return sentences about what the user asked for and cannot be done: exit code 254.

    A default that cannot be done is none of these, nor is what `all` leaves out; `deal_schedule`
    says so.

    Args:
        plan: As asked for.
        abilities: What hosts and system can do.
        why_not: Why they cannot do the rest.
    """
    reasons = why_not or {}

    def refused(what: str, needs: Collection[Ability]) -> str:
        missing = set(needs) - set(abilities)
        if of_system := missing & OF_SYSTEMS:
            why = _because(of_system, reasons)
            return (
                f"{what} needs a system that can {_named(of_system)}{f': {why}' if why else ''};"
                " use another system, or leave it out"
            )
        why = _because(missing, reasons)
        return (
            f"{what} needs hosts that can {_named(missing)}{f': {why}' if why else ''}; use other"
            " hosts, or leave it out (`logquake doctor` says what is missing)"
        )

    asked = [
        refused(f"fault {fault.kind!r} at {fault.at_s:g} s", KINDS[fault.kind].needs)
        for fault in plan.faults or ()
        if fault.kind in KINDS and not KINDS[fault.kind].needs <= set(abilities)
    ]
    if plan.faults is None and "nemesis" in plan.model_fields_set:
        asked += [
            refused(f"nemesis {family!r}", needs_of(family))
            for family in plan.nemesis
            if family != ALL and not kinds_of(family, abilities, hosts=plan.hosts)
        ]
    return asked


def _named(abilities: Collection[Ability]) -> str:
    return " and ".join(sorted(_WORDS[each] for each in abilities)) or "do it"


_WORDS = {
    Ability.CUT: "cut the network",
    Ability.CUT_CLIENTS: "cut clients off",
    Ability.SHAPE: "make the network bad",
    Ability.SHAPE_CLIENTS: "make clients' links bad",
    Ability.CONNECTIONS: "break single connections",
    Ability.DISK: "limit a node's disk",
    Ability.CLOCK: "shift a broker's clock",
    Ability.RESOURCES: "limit what a broker gets of processors, memory and file handles",
    Ability.SLOW_DISK: "slow a node's disk down",
    Ability.FAULTY_DISK: "break what a node's disk is told to do",
    Ability.KILL: "kill a broker and start it again",
    Ability.STOP: "stop a broker in order and start it again",
    Ability.PAUSE: "pause a broker",
    Ability.APART: "lose one broker alone",
    Ability.FILES: "have its brokers' logs read and changed",
    Ability.QUORUM: "tell who leads its controllers",
    Ability.ELECT: "elect a leader by order",
    Ability.REASSIGN: "give a partition other replicas",
    Ability.TOPICS: "make and delete topics",
    Ability.ONE_WAY: "cut a link in one direction",
    Ability.TIME: "tell its brokers' time",
}


def _written_schedule(plan: Plan, faults: Sequence[PlannedFault]) -> Schedule:
    roster = roster_of(plan)
    for fault in faults:
        refuse_senseless(fault, plan, roster)
    ordered = sorted(faults, key=lambda fault: fault.at_s)
    return Schedule(
        faults=tuple(
            ScheduledFault(
                fault_id=number,
                at_s=fault.at_s,
                kind=fault.kind,
                target=fault.target,
                hold_s=fault.hold_s,
                when=fault.when,
            )
            for number, fault in enumerate(ordered, start=1)
        ),
        overlapping=True,
    )


def _dealt_faults(
    plan: Plan, families: Mapping[str, Sequence[str]], abilities: Collection[Ability]
) -> tuple[ScheduledFault, ...]:
    """Return as many faults as fit into the main phase, in the order of their starts."""
    led, overlaps = Ability.QUORUM in abilities, _overlaps(plan, families)
    if plan.level:
        level = level_of(plan, overlaps=overlaps)
        return deal_escalated(plan, families, level, few=FEW_FAMILIES, led=led)
    if len(families) <= FEW_FAMILIES:
        rng = Random(f"{plan.seed}/nemesis")
        targets = Targets(plan, rng, led=led)
        lanes = [_Lane(plan, family_deck(families, rng), targets, round_of=len(families))]
    elif overlaps:
        return deal_overlapping(plan, families)
    else:
        lanes = [
            _kinds_lane(plan, _of_lane(families, takes=takes), number, led=led)
            for number, takes in enumerate((True, False))
        ]
    dealt = sorted(_dealt_together(plan, lanes), key=lambda fault: (fault.at_s, fault.lane))
    return tuple(replace(fault, fault_id=at) for at, fault in enumerate(dealt, start=1))


def _overlaps(plan: Plan, families: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether faults may take a majority together at level 0 already."""
    return plan.hosts == SIMULATED and len(families) > FEW_FAMILIES


def _kinds_lane(
    plan: Plan, families: Mapping[str, Sequence[str]], number: int, *, led: bool
) -> "_Lane":
    rng = Random(f"{plan.seed}/nemesis/lane-{number}")
    round_of = sum(map(len, families.values()))
    return _Lane(plan, kind_deck(families, rng), Targets(plan, rng, led=led), round_of=round_of)


def _of_lane(
    families: Mapping[str, Sequence[str]], *, takes: bool
) -> Mapping[str, tuple[str, ...]]:
    """Return the kinds that take a node away, or those that do not; no family without a kind."""
    halves = {
        family: tuple(kind for kind in kinds if KINDS[kind].takes == takes)
        for family, kinds in families.items()
    }
    return {family: kinds for family, kinds in halves.items() if kinds}


class _Lane:
    """What is dealt one after the other, with its own source of chance.

    Args:
        plan: Of the run.
        kinds: Of its deck.
        targets: Deals them; what draws them draws all of the lane.
        round_of: How many kinds its deck has; none: the lane is empty.

    Attributes:
        at_s: When its next fault may begin.
        over_s: When its last one is over, and all as before; None: there was none.
        misfits: How many kinds in a row did not fit in any more.
    """

    def __init__(
        self, plan: Plan, kinds: Iterator[str], targets: Targets, *, round_of: int
    ) -> None:
        self.kinds, self.targets, self.round_of = kinds, targets, round_of
        self.rng = targets.rng
        start_s = self.rng.uniform(0.4, 0.6) * plan.nemesis_interval_s
        self.at_s = min(start_s, 0.15 * plan.time_limit_s)
        self.over_s: float | None = None
        self.misfits = 0


def _dealt_together(plan: Plan, lanes: Sequence[_Lane]) -> Iterator[ScheduledFault]:
    """Yield the faults of lanes, until no card of a round fits into any of them any more.

    What takes records has the time for itself, and a while before and after in which all is whole
    (`nemesis.turns`); a while between two of them does for both.
    """
    steady_s = hidden_s(plan)
    while still := [lane for lane in lanes if lane.misfits < lane.round_of]:
        lane = min(still, key=lambda each: each.at_s)
        kind, hold_s = next(lane.kinds), drawn_hold_s(plan, lane.rng)
        lasts_s, at_s = KINDS[kind].lasts_s(hold_s, plan.hosts), lane.at_s
        if KINDS[kind].when_whole:
            over_s = [each.over_s for each in lanes if each.over_s is not None]
            at_s = max([at_s, *(each + steady_s for each in over_s)])
        if at_s + lasts_s + CALM_S > plan.time_limit_s:
            lane.misfits += 1  # A kind that settles sooner may fit.
            continue
        lane.misfits, lane.over_s = 0, at_s + lasts_s
        yield ScheduledFault(
            fault_id=1,
            at_s=round(at_s, 3),
            kind=kind,
            target=lane.targets.next_for(kind),
            hold_s=round(hold_s, 3),
            lane=lanes.index(lane),
        )
        interval_s = lane.rng.uniform(0.9, 1.1) * plan.nemesis_interval_s
        lane.at_s = at_s + max(lasts_s + CALM_S, interval_s)
        if KINDS[kind].when_whole:
            for each in lanes:
                each.at_s = max(each.at_s, lane.over_s + steady_s)


def without_room(
    plan: Plan, families: Sequence[str], faults: Sequence[ScheduledFault]
) -> list[str]:
    """Return a sentence if the main phase ends before every family was dealt once.

    Args:
        plan: Of the run.
        families: That were to be dealt.
        faults: What was dealt.
    """
    dealt = {KINDS[fault.kind].family_for(plan.hosts) for fault in faults}
    missing = [family for family in families if family not in dealt]
    if not missing:
        return []
    others = ",".join(family for family in families if family in dealt)
    instead = f"--nemesis {others}" if others else "a kind that takes less with --nemesis"
    # What is dealt of `all` or a default is no promise: `fault-without-effect` asks for no more.
    spoilt = names_families(plan) or not dealt
    sentence = (
        f"no fault of kind {' or '.join(missing)} fits into a main phase of {plan.time_limit_s:g} s"
        f"{', so that the verdict will be unknown at best' if spoilt else ''};"
        f" use a longer --time-limit (in a suite: time_limit_s), or {instead}"
    )
    return [sentence]
