"""What of a plan cannot be done on machines that are reached by ssh."""

from cluster.protocol import UserError
from results.record.plan import Plan
from results.record.terms import Mode

USE_ANOTHER = "use --hosts namespace"


def refuse_elsewhere(plan: Plan, *, keep: bool = False) -> None:
    """Refuse what needs brokers on this machine, if the plan's are not.

    Args:
        plan: As asked for.
        keep: Whether the cluster shall go on after the verdict.

    Raises:
        UserError: What, and the remedy.
    """
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
