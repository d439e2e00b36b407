"""Reject each plan that cannot be played by its system or on its hosts."""

from collections.abc import Mapping

from cluster.hosts.abilities import abilities_of
from cluster.protocol import Ability, UserError
from cluster.systems.system import System, why_not
from harness.simulated.honoured import HONOURED
from nemesis.families import elsewhere_by
from results.record.plan import ALL, REFERENCE, Plan
from results.record.plan_contents import Contents

USE_ANOTHER = "use --hosts namespace"
INSTEAD = "in virtual time the family {} has the same faults"
OWN_HOSTS = (
    "Logquake's file system cannot be mounted below the data of nodes that cut their own links;"
    " use --hosts namespace"
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
            f"the scenario {plan.scenario.name} works only with librdkafka clients: remove"
            " --client-kind"
        )
    if plan.hosts.startswith("ssh:") and plan.scenario is not None:
        raise UserError(
            f"the scenario {plan.scenario.name} copies the brokers' files at each step, which is"
            f" not possible on ssh hosts; {USE_ANOTHER}"
        )
    system.refuse(keep=keep)


def abilities_for(system: System, hosts: str) -> Mapping[Ability, str]:
    """Return why the brokers lack each ability. The reason is empty if they have the ability.

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
        "simulated clients do not compress: use compression none": plan.compression != "none",
        "simulated clients send payloads of one size with plain headers, and have their own"
        " batching: remove [contents]": plan.contents != Contents(),
        "simulated clients support only the group settings of librdkafka"
        f" ({', '.join(HONOURED)}): remove the other settings from [client]": not (
            {*plan.client} <= {*HONOURED}
        ),
        "simulated clients do not use librdkafka's settings: remove --clients": (
            plan.clients is not None
        ),
        "simulated clients are Logquake's own: remove --client-version": (
            plan.client_version is not None
        ),
        "simulated clients are Logquake's own: remove --client-kind": plan.wants_java,
    }
    for sentence, holds in refusals.items():
        if holds:
            raise UserError(sentence)
