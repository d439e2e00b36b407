"""The names of a run's nodes: brokers `n1`, `n2`, ...; controllers `n101`, ...; `zk`. Pure."""

from results.record.plan import Plan

ZOOKEEPER_MACHINE = "zk"
FIRST_CONTROLLER, MOST_CONTROLLERS = 101, 5
"""Node ids of controllers of their own begin here, far from those of brokers."""


def broker_names(plan: Plan) -> list[str]:
    """Return the brokers' nodes: `n1`, `n2`, ..., or by the ids that the plan has."""
    return [f"n{number}" for number in plan.broker_ids or range(1, plan.nodes + 1)]


def controller_names(plan: Plan) -> list[str]:
    """Return the nodes of controllers of their own: `n101`, ...; none in the other modes."""
    return [f"n{FIRST_CONTROLLER + number}" for number in range(plan.own_controllers)]


def keepers(plan: Plan) -> list[str]:
    """Return who keeps the metadata outside of Kafka: ZooKeeper, or nobody."""
    return [ZOOKEEPER_MACHINE] if plan.kept_outside else []


def machines(plan: Plan) -> list[str]:
    """Return the names of the machines that hosts must make: one a node, and ZooKeeper's."""
    return [*broker_names(plan), *controller_names(plan), *keepers(plan)]


def node_id(node: str) -> int:
    """Return the broker id of a node: 3 of `n3`."""
    return int(node.removeprefix("n"))


def is_controller(node: str) -> bool:
    """Tell whether a node is a controller of its own."""
    return FIRST_CONTROLLER <= node_id(node) < FIRST_CONTROLLER + MOST_CONTROLLERS


def called(node: str) -> str:
    """Return what a node's server is called in a sentence: `the broker of n1`."""
    if node == ZOOKEEPER_MACHINE:
        return "ZooKeeper"
    what = "controller" if is_controller(node) else "broker"
    return f"the {what} of {node}"
