"""What differs between Kafka's versions, and between those who keep its metadata. Pure."""

from results.record.plan import Plan
from results.record.terms import Mode

ZOOKEEPER_MACHINE = "zk"
FIRST_CONTROLLER = 101
"""Node ids of controllers of their own begin here, far from those of brokers."""


def broker_names(plan: Plan) -> list[str]:
    """Return the brokers' nodes: `n1`, `n2`, ..."""
    return [f"n{number}" for number in range(1, plan.nodes + 1)]


def controller_names(plan: Plan) -> list[str]:
    """Return the nodes of controllers of their own: `n101`, ...; none in the other modes."""
    if plan.mode is not Mode.CONTROLLERS:
        return []
    return [f"n{FIRST_CONTROLLER + number}" for number in range(plan.controllers)]


def machines(plan: Plan) -> list[str]:
    """Return the names of the machines that hosts must make: one a node, and ZooKeeper's."""
    zookeeper = [ZOOKEEPER_MACHINE] if plan.mode is Mode.ZOOKEEPER else []
    return [*broker_names(plan), *controller_names(plan), *zookeeper]
