"""What of a plan cannot be done by its brokers where they would run."""

from collections.abc import Mapping

from cluster.hosts.abilities import abilities_of
from cluster.hosts.choose import HostKind
from cluster.protocol import Ability, UserError
from cluster.reference.bugs import Bug
from harness.simulated.honoured import HONOURED
from results.record.plan import REFERENCE, Plan
from results.record.terms import Mode

USE_ANOTHER = "use --hosts namespace"


def refuse_elsewhere(plan: Plan, *, keep: bool = False) -> None:
    """Refuse what a plan's brokers cannot do where they would run: elsewhere, or in no real time.

    Args:
        plan: As asked for.
        keep: Whether the cluster shall go on after the verdict.

    Raises:
        UserError: What, and the remedy.
    """
    if plan.is_simulated:
        _refuse_unsimulated(plan)
    if plan.is_reference:
        _refuse_for_reference(plan, keep=keep)
    if not plan.hosts.startswith("ssh:"):
        return
    if plan.scenario is not None:
        raise UserError(
            f"the story of {plan.scenario.name} copies the brokers' files at each step, which ssh"
            f" hosts keep to themselves; {USE_ANOTHER}"
        )
    if plan.mode is Mode.ZOOKEEPER:
        raise UserError(
            f"{plan.system} needs ZooKeeper, which does not run on ssh hosts; {USE_ANOTHER}, or"
            " Kafka 3.3 or later without :zookeeper"
        )
    if keep:
        raise UserError(f"a cluster on ssh hosts cannot be kept; {USE_ANOTHER}")


def abilities_for(plan: Plan, hosts: str) -> Mapping[Ability, str]:
    """Return why hosts cannot do something for a plan's brokers, by ability; empty where they can.

    Args:
        plan: As asked for.
        hosts: As chosen.
    """
    found = abilities_of(hosts)
    return {**found, Ability.CUT: ""} if cuts_by_itself(plan, hosts) else found


def cuts_by_itself(plan: Plan, hosts: str) -> bool:
    """Tell whether nodes cut links themselves: nobody else can where they share an address."""
    return plan.is_reference and hosts == HostKind.PROCESS


def _refuse_unsimulated(plan: Plan) -> None:
    refusals = {
        f"only the reference cluster can be simulated, not {plan.system}:"
        f" add --system {REFERENCE}": not plan.is_reference,
        "simulated clients do not compress: take compression none": plan.compression != "none",
        "of librdkafka's settings simulated clients know those of groups alone"
        f" ({', '.join(HONOURED)}): leave the others of [client] out": not (
            {*plan.client} <= {*HONOURED}
        ),
        "librdkafka's settings have no meaning for simulated clients: leave --clients out": (
            plan.clients is not None
        ),
    }
    for sentence, holds in refusals.items():
        if holds:
            raise UserError(sentence)


def _refuse_for_reference(plan: Plan, *, keep: bool) -> None:
    kind = plan.hosts.partition(":")[0]
    if kind in {"docker", "ssh"}:
        raise UserError(
            f"the reference cluster runs on this machine's own Python, not on {kind} hosts;"
            f" {USE_ANOTHER}, or process"
        )
    if keep:
        raise UserError("a reference cluster cannot be kept after its run; leave --keep out")
    if plan.bug is not None and plan.bug not in {*Bug}:
        raise UserError(f"--bug {plan.bug} is none of {', '.join(Bug)}")
