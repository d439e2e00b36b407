"""Reject plans that their system and their hosts cannot play."""

from collections.abc import Mapping

from cluster.hosts.abilities import abilities_of
from cluster.protocol import Ability, UserError
from cluster.systems.system import System, why_not
from harness.simulated.honoured import HONOURED
from nemesis.families import elsewhere_by
from results.record.plan import ALL, REFERENCE, Plan
from results.record.plan_contents import Contents

USE_ANOTHER = "use --hosts namespace"
INSTEAD = "in virtual time {} deals the same"
OWN_HOSTS = (
    "nodes that cut their own links have no file system of Logquake's below their data; use --hosts"
    " namespace"
)


def refuse_elsewhere(plan: Plan, system: System, *, keep: bool = False) -> None:
    """Raise an error if a plan's system cannot play the plan on its hosts, or in virtual time.

    Args:
        plan: The plan that the user asks for.
        system: The plan's system.
        keep: Whether the cluster goes on after the verdict.

    Raises:
        UserError: The plan cannot be played; the message names a remedy.
    """
    if plan.is_simulated:
        _refuse_unsimulated(plan)
    if plan.scenario is not None and plan.wants_java:
        raise UserError(
            f"the clients of the story of {plan.scenario.name} are librdkafka's: leave"
            " --client-kind out"
        )
    if plan.hosts.startswith("ssh:") and plan.scenario is not None:
        raise UserError(
            f"the story of {plan.scenario.name} copies the brokers' files at each step, which ssh"
            f" hosts keep to themselves; {USE_ANOTHER}"
        )
    system.refuse(keep=keep)


def abilities_for(system: System, hosts: str) -> Mapping[Ability, str]:
    """Return for each ability why the system's brokers lack it; an empty string if they have it.

    Args:
        system: The system of the brokers.
        hosts: The chosen hosts.
    """
    found = dict(abilities_of(hosts))
    if system.cuts_by_itself(hosts):
        found[Ability.CUT] = ""
        # These nodes have no file systems of Logquake.
        found |= dict.fromkeys((Ability.SLOW_DISK, Ability.FAULTY_DISK), OWN_HOSTS)
    return {**found, **why_not(system.declared())}


def _refuse_unsimulated(plan: Plan) -> None:
    for family in {*plan.nemesis} - {ALL}:
        if other := elsewhere_by(family, plan.hosts):
            raise UserError(f"nemesis {family!r}: {INSTEAD.format(other)}; use --nemesis {other}")
    refusals = {
        f"only the reference cluster can be simulated, not {plan.system}:"
        f" add --system {REFERENCE}": not plan.is_reference,
        "simulated clients do not compress: take compression none": plan.compression != "none",
        "simulated clients send payloads of one size, with plain headers, and batch in their own"
        " way: leave [contents] out": plan.contents != Contents(),
        "of librdkafka's settings simulated clients know those of groups alone"
        f" ({', '.join(HONOURED)}): leave the others of [client] out": not (
            {*plan.client} <= {*HONOURED}
        ),
        "librdkafka's settings have no meaning for simulated clients: leave --clients out": (
            plan.clients is not None
        ),
        "simulated clients are Logquake's own: leave --client-version out": (
            plan.client_version is not None
        ),
        "simulated clients are Logquake's own: leave --client-kind out": plan.wants_java,
    }
    for sentence, holds in refusals.items():
        if holds:
            raise UserError(sentence)
