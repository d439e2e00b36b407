"""The names of a run's nodes: brokers `n1`, `n2`, ...; controllers `n101`, ...; `zk`. Pure."""

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


def node_id(node: str) -> int:
    """Return the broker id of a node: 3 of `n3`."""
    return int(node.removeprefix("n"))


def is_controller(node: str) -> bool:
    """Tell whether a node is a controller of its own."""
    return node_id(node) >= FIRST_CONTROLLER


def called(node: str) -> str:
    """Return what a node's server is called in a sentence: `the broker of n1`."""
    if node == ZOOKEEPER_MACHINE:
        return "ZooKeeper"
    what = "controller" if is_controller(node) else "broker"
    return f"the {what} of {node}"
