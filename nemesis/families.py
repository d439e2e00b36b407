"""Which family deals a kind of fault on which hosts."""

from cluster.protocol import Ability
from nemesis.registry import KINDS, kind_named
from results.record.plan import Plan


def is_of(family: str, hosts: str) -> bool:
    """Tell whether a family has a kind on a plan's hosts, whatever they can do."""
    return any(family == kind.family_for(hosts) for kind in KINDS.values())


def elsewhere_by(family: str, hosts: str) -> str:
    """Return the family that deals on a plan's hosts what another one deals elsewhere.

    Empty: the family itself has kinds there.
    """
    if is_of(family, hosts):
        return ""
    return next(kind.family_for(hosts) for kind in KINDS.values() if family in kind.families)


def breaks_disks(plan: Plan) -> bool:
    """Tell whether a fault of a plan needs disks of real hosts to be late, or to break requests."""
    if plan.is_simulated or plan.scenario is not None:
        return False
    if plan.faults is None:
        needs = [
            kind.needs for kind in KINDS.values() if kind.family_for(plan.hosts) in plan.nemesis
        ]
    else:
        needs = [kind_named(fault.kind).needs for fault in plan.faults]
    return any({Ability.SLOW_DISK, Ability.FAULTY_DISK} & each for each in needs)
