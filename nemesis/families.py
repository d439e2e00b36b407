"""Find the family to which a kind of fault belongs on the hosts of a plan."""

from cluster.protocol import Ability
from nemesis.registry import KINDS, kind_named
from results.record.plan import Plan


def is_of(family: str, hosts: str) -> bool:
    """Return whether a family has kinds for this sort of hosts, whatever these hosts can do."""
    return any(family == kind.family_for(hosts) for kind in KINDS.values())


def elsewhere_by(family: str, hosts: str) -> str:
    """Return the family to which the kinds of `family` belong on a plan's hosts.

    Some kinds belong to another family on other hosts. Return "" if `family` itself has kinds on
    these hosts.
    """
    if is_of(family, hosts):
        return ""
    return next(kind.family_for(hosts) for kind in KINDS.values() if family in kind.families)


def breaks_disks(plan: Plan) -> bool:
    """Return whether a fault of a plan needs slow disks or failing disk requests on real hosts."""
    if plan.is_simulated or plan.scenario is not None:
        return False
    if plan.faults is None:
        needs = [
            kind.needs for kind in KINDS.values() if kind.family_for(plan.hosts) in plan.nemesis
        ]
    else:
        needs = [kind_named(fault.kind).needs for fault in plan.faults]
    return any({Ability.SLOW_DISK, Ability.FAULTY_DISK} & each for each in needs)
