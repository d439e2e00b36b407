"""The fault schedule: the kinds, targets and times of faults.

The functions are pure: all randomness comes from the plan's seed. The kinds and roles come from
shuffled decks (`nemesis.decks`). Each round of roles has every role once, and the first round
begins with a leader and a follower. Up to `FEW_FAMILIES` families are scheduled one after the
other, and each round of kinds has every family once.

If there are more families, each round has every kind once, and there are two parallel lanes. One
lane has faults that disable a node or degrade its links. Only one of these faults is active at a
time, unless a heal is late and a majority is healthy anyway (`nemesis.room`). So a majority stays
healthy, unless a single fault hits too many nodes or divides all of them. The other lane has faults
that disable no node (`Kind.takes`), such as faults of clocks and topics. The lanes change different
aspects of a node, so their faults can be combined (docs/faults.md). While a fault that destroys
records is active, neither lane has another fault. In virtual time the two lanes are different
(`nemesis.overlaps`). A plan's `level` changes these rules (`nemesis.escalated`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
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
"""Up to this number of families share one lane. Two lanes would double the number of faults of a
default run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The faults of a run.

    Attributes:
        faults: The faults in the order of their starts.
        overlapping: True for a schedule written by hand: each fault starts at its time, even while
            other faults are active. False for a random schedule: each fault waits, for a limited
            time, for the heal of the previous fault in the same lane.
        dropped: Sentences on the families that are left out. The hosts or the system do not support
            them, they do not suit the plan, or the main phase is too short.
        spares_majority: Whether a fault that disables a node must wait until a majority of nodes
            would stay healthy. In virtual time with many families, and from level 4 on, all lanes
            together may disable a majority.
        is_supply: Whether there are more faults than time. Then a fault is due soon after the
            planned heal of the lane's previous fault. Some faults that are due in the second half
            of the main phase may never start. This is reported only for faults that begin alone and
            that waited for their turn.
        lull_s: The length of the regular lulls, in which no fault begins (`nemesis.levels`). 0 for
            no lulls.
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
    """Return the schedule of a plan. The same plan and abilities always give the same schedule.

    Args:
        plan: The plan. Its `faults` are scheduled. If `faults` is None, random faults of the
            families in `nemesis` are scheduled, by the plan's seed.
        abilities: The abilities of hosts and system.
        why_not: The reasons why other abilities are missing. They go into the sentences on families
            that are left out.

    Raises:
        PlanError: A fault written by hand has an unknown kind, target or time, or is not possible.
    """
    if plan.faults is not None:
        return _written_schedule(plan, plan.faults)
    families = played_families(plan, abilities=abilities)
    missing = [family for family in _wanted(plan) if family not in families]
    missing = [each for each in missing if is_of(each, plan.hosts)]
    dropped = _left_out(missing, plan, abilities, why_not or {})
    faults = _dealt_faults(plan, families, abilities)
    dropped += without_room(plan, list(families), faults)
    # On simulated hosts with many families, a majority may be down.
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
    """Return the possible families of a plan's `nemesis`, with the possible kinds of each family.

    If the user has named no family and written no fault, families for which the main phase is too
    short are left out.
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
    if asked_for:
        return able
    return _with_room(
        _Case(
            told=plan.model_dump_json(),
            families=tuple(able.items()),
            abilities=frozenset(abilities),
            plan=plan,
        )
    )


def names_families(plan: Plan) -> bool:
    """Return whether the user listed individual families in the plan's `nemesis`."""
    return "nemesis" in plan.model_fields_set and ALL not in plan.nemesis and not plan.drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A plan with its possible families. Cases are equal if all fields except `plan` are equal."""

    told: str
    families: tuple[tuple[str, tuple[str, ...]], ...]
    abilities: frozenset[Ability]
    plan: Plan = field(compare=False)


@lru_cache(maxsize=64)
def _with_room(case: _Case) -> Mapping[str, tuple[str, ...]]:
    """Leave out the slowest families until each remaining family is scheduled at least once.

    If no family remains, return all families. The result is cached, because callers often pass the
    same plan again, and dozens of schedules must be computed for each result.
    """
    plan, families, abilities = case.plan, dict(case.families), case.abilities

    def lasts_s(family: str) -> tuple[float, float]:
        # If two take the same virtual time, compare their time on real hosts.
        kinds = [KINDS[kind] for kind in left[family]]
        return min((kind.lasts_s(0, plan.hosts), kind.confirm_s + kind.settle_s) for kind in kinds)

    left = {**families}
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
    """Return one sentence for each reason, with all families that are left out for this reason."""
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
    """Return why a family does not fit a plan. Return "" if hosts or system lack an ability."""
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
            f"they do not fit into a main phase of {plan.time_limit_s:g} s; use a longer"
            " --time-limit"
        )
    return "they need more nodes, or more replicas"


def _unable(family: str, abilities: Collection[Ability], why_not: Mapping[Ability, str]) -> str:
    """Return why hosts, or a system, do not support a family."""
    missing = needs_of(family) - set(abilities)
    if because := _because(missing, why_not):
        return because
    if missing & OF_SYSTEMS:
        return f"this system cannot {_named(missing & OF_SYSTEMS)}"
    return "these hosts do not support them (`logquake doctor` reports why)"


def _because(missing: Collection[Ability], why_not: Mapping[Ability, str]) -> str:
    reasons = (why_not.get(each, "") for each in sorted(missing))
    return "; ".join(dict.fromkeys(filter(None, reasons)))


def unsupported(
    plan: Plan, *, abilities: Collection[Ability], why_not: Mapping[Ability, str] | None = None
) -> list[str]:
    """Return sentences on impossible faults that the user named (exit code 254).

    If `nemesis` is `all` or the default, the user has named no fault. For these, `deal_schedule`
    reports the families that it leaves out.

    Args:
        plan: The requested plan.
        abilities: The abilities of hosts and system.
        why_not: Why other abilities are missing.
    """
    reasons = why_not or {}

    def refused(what: str, needs: Collection[Ability]) -> str:
        missing = set(needs) - set(abilities)
        if of_system := missing & OF_SYSTEMS:
            why = _because(of_system, reasons)
            return (
                f"{what} needs a system that can {_named(of_system)}{f': {why}' if why else ''};"
                " use another system, or remove this fault"
            )
        why = _because(missing, reasons)
        return (
            f"{what} needs hosts that can {_named(missing)}{f': {why}' if why else ''}; use other"
            " hosts, or remove this fault (`logquake doctor` reports what is missing)"
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
    Ability.SHAPE: "degrade the network",
    Ability.SHAPE_CLIENTS: "degrade clients' links",
    Ability.CONNECTIONS: "break single connections",
    Ability.DISK: "limit a node's disk",
    Ability.CLOCK: "shift a broker's clock",
    Ability.RESOURCES: "limit a broker's processors, memory and file handles",
    Ability.SLOW_DISK: "slow a node's disk down",
    Ability.FAULTY_DISK: "make requests of a node's disk fail",
    Ability.KILL: "kill and restart a broker",
    Ability.STOP: "stop a broker cleanly and restart it",
    Ability.PAUSE: "pause a broker",
    Ability.APART: "take down one broker alone",
    Ability.FILES: "let the harness read and change its brokers' logs",
    Ability.QUORUM: "report its active controller",
    Ability.ELECT: "elect a leader on request",
    Ability.REASSIGN: "move a partition to other replicas",
    Ability.TOPICS: "create and delete topics",
    Ability.ONE_WAY: "cut a link in one direction",
    Ability.TIME: "report its brokers' time",
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
    """Return the faults that fit into the main phase, in the order of their starts."""
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
    """Return whether level 0 already has faults that together may disable a majority."""
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
    """Return, by family, either the kinds that disable a node, or all other kinds."""
    halves = {
        family: tuple(kind for kind in kinds if KINDS[kind].takes == takes)
        for family, kinds in families.items()
    }
    return {family: kinds for family, kinds in halves.items() if kinds}


class _Lane:
    """A sequence of scheduled faults that do not overlap, with its own random source.

    Args:
        plan: The plan of the run.
        kinds: The deck of kinds.
        targets: The source of targets. The whole lane uses the random source of the targets.
        round_of: The number of kinds in a round of the deck. 0 means that the lane is empty.

    Attributes:
        at_s: The earliest start of the next fault.
        over_s: The time at which the last fault has ended and the cluster is normal again. None
            before the first fault.
        misfits: The number of successive kinds that no longer fit into the main phase.
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
    """Yield the faults of all lanes. A lane ends when no kind of a whole round fits any more.

    A fault that destroys records runs alone, with a pause before and after it in which all replicas
    are in sync (`nemesis.turns`). Between two such faults, one pause is enough.
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
            lane.misfits += 1  # A faster kind may fit.
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
    """Return a sentence if the main phase ends before every family had a fault.

    Args:
        plan: The plan of the run.
        families: The families to schedule.
        faults: The scheduled faults.
    """
    dealt = {KINDS[fault.kind].family_for(plan.hosts) for fault in faults}
    missing = [family for family in families if family not in dealt]
    if not missing:
        return []
    others = ",".join(family for family in families if family in dealt)
    instead = f"--nemesis {others}" if others else "a shorter kind of fault with --nemesis"
    # `all` or the default promises no family, so `fault-without-effect` expects none.
    spoilt = names_families(plan) or not dealt
    sentence = (
        f"no fault of kind {' or '.join(missing)} fits into a main phase of {plan.time_limit_s:g}"
        f" s{', so the verdict cannot be better than unknown' if spoilt else ''}; use a longer"
        f" --time-limit (in a suite: time_limit_s), or {instead}"
    )
    return [sentence]
