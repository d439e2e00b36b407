"""Check faults written by hand: an impossible fault is rejected before anything starts.

Some conditions are known only during the run, and are not checked here. For example, a partition
may have no leader, or there may be two replicas in the ISR for `last-isr`. Such a fault waits, and
is then recorded as a fault without effect.
"""

from collections.abc import Iterator, Mapping

from cluster.protocol import Ability
from nemesis.registry import KINDS, kind_named
from nemesis.roster import Roster
from nemesis.targets import (
    KEEPER,
    OF_FOLLOWERS,
    ON_CONTROLLERS,
    QUORUM_VOTERS,
    SERVERS,
    Target,
    parse_target,
)
from nemesis.triggers import parse_trigger
from results.record.plan import Plan, PlanError
from results.record.plan_parts import PlannedFault


def refuse_senseless(fault: PlannedFault, plan: Plan, roster: Roster) -> None:
    """Reject a fault that is impossible in every run of its plan.

    Args:
        fault: A fault of the plan.
        plan: The plan of the run.
        roster: All possible targets.

    Raises:
        PlanError: The fault is not possible. The message has the reason and, if there is one, a
            remedy.
    """
    kind_named(fault.kind)
    target = parse_target(fault.target, roster)
    if fault.when is not None:
        parse_trigger(fault.when, roster)
    for why in _reasons(fault, target, plan, roster):
        raise PlanError(f"fault {fault.kind!r} at {fault.at_s:g} s {why}")


def _reasons(fault: PlannedFault, target: Target, plan: Plan, roster: Roster) -> Iterator[str]:
    kind = kind_named(fault.kind)
    if plan.nodes < kind.least_nodes:
        yield f"needs {kind.least_nodes} nodes or more, but there are {plan.nodes}"
    if not kind.suits(plan):
        yield (
            f"is impossible with nodes {plan.nodes}, replication {plan.replication} and system"
            f" {plan.system}: {kind.unless}"
        )
    if target.word in OF_FOLLOWERS and plan.replication == 1:
        yield (
            f"has the target {fault.target!r}, but with replication 1 there is no follower; use"
            " leader"
        )
    yield from _reasons_of_target(fault, target, roster)
    if kind.spares and target.word in {"all", SERVERS}:
        yield (
            f"has the target {target.word!r}, but it needs a node that is not a target; use"
            " majority"
        )
    if Ability.FAULTY_DISK in kind.needs and kind.when_whole:
        yield from _reasons_beside(fault, plan)
    if fault.at_s + fault.hold_s > plan.time_limit_s:
        yield (
            f"would last until {fault.at_s + fault.hold_s:g} s, but the main phase ends at"
            f" {plan.time_limit_s:g} s (time_limit_s); start the fault earlier or shorten it"
        )


def _reasons_beside(fault: PlannedFault, plan: Plan) -> Iterator[str]:
    """Yield why a fault that drops flushes cannot run together with another fault.

    The broker of such a fault ends in order. So it remains an eligible leader replica (KIP-966),
    although it no longer has the lost records. If the other replicas end before this broker has
    fetched these records again, the broker is elected leader. The records are then lost without a
    bug in any replica. Random schedules never combine such faults either.
    """
    for other in plan.faults or ():
        if other is fault:
            continue
        first, second = sorted((fault, other), key=lambda each: each.at_s)
        settled_s = first.at_s + kind_named(first.kind).lasts_s(first.hold_s, plan.hosts)
        if other.when is not None or fault.when is not None or second.at_s < settled_s:
            yield (
                f"is not alone: it must not overlap with {other.kind!r} at {other.at_s:g} s or"
                " with the recovery. Otherwise a broker without its lost records may be elected"
                f" (KIP-966). Let the later fault begin at {settled_s:g} s or after, and let no"
                " fault wait for a state"
            )


def _reasons_of_target(fault: PlannedFault, target: Target, roster: Roster) -> Iterator[str]:
    """Yield why a kind of fault cannot hit a target."""
    kind = kind_named(fault.kind)
    for role, (who, nodes) in _alls(roster).items():
        if role in kind.only and _nodes_of(target, roster) != {*nodes}:
            yield (
                f"has the target {fault.target!r}, but this kind hits all {who} at once"
                f" ({', '.join(nodes)}); use {role}"
            )
    if target.word == KEEPER and KEEPER not in kind.only:
        ours = ", ".join(name for name, each in KINDS.items() if KEEPER in each.only)
        yield (
            f"has the target {target.word!r}, which only these kinds can hit: {ours}; use one"
            " of these"
        )
    if kind.only and target.word not in {*kind.only, *roster.everybody}:
        yield (
            f"has the target {fault.target!r}, but of all roles this kind accepts only"
            f" {' or '.join(kind.only)}"
        )
    if kind.least_targets > 1 and target.word in roster.everybody:
        yield (
            f"has the target {fault.target!r}, but it needs {kind.least_targets} targets or more;"
            f" use {' or '.join(kind.only)}"
        )
    apart = set(roster.voters) - set(roster.nodes)
    if not kind.on_controllers and apart and target.word in {*apart, *ON_CONTROLLERS}:
        yield (
            f"has the target {fault.target!r}, which is one of the controllers"
            f" ({', '.join(sorted(apart))}), but this kind works on brokers only"
            f" ({roster.nodes[0]} to {roster.nodes[-1]}); kinds for controllers are"
            f" {', '.join(_for_controllers())}"
        )


def _alls(roster: Roster) -> Mapping[str, tuple[str, tuple[str, ...]]]:
    """Return the roles that always mean all their nodes, each with its text and its nodes."""
    return {
        QUORUM_VOTERS: ("voters", roster.voters),
        SERVERS: ("servers", roster.everybody),
        KEEPER: ("ZooKeeper servers", roster.outside),
    }


def _nodes_of(target: Target, roster: Roster) -> set[str]:
    """Return the nodes of a target. Empty for roles that are resolved when the fault starts."""
    if target.word in (alls := _alls(roster)):
        return {*alls[target.word][1]}
    return {*roster.nodes} if target.word == "all" else {target.word} & {*roster.everybody}


def _for_controllers() -> list[str]:
    taking = [name for name, kind in KINDS.items() if kind.on_controllers and kind.takes]
    return [name for name in taking if KEEPER not in KINDS[name].only]
