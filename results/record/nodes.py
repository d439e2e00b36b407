"""The names of a run's nodes: brokers `n1`, `n2`, ...; controllers `n101`, ...; ZooKeeper `zk`."""

from results.record.plan import Plan

ZOOKEEPER_MACHINE = "zk"
FIRST_CONTROLLER, MOST_CONTROLLERS = 101, 5
"""The node id of the first separate controller; the maximum number of separate controllers."""


def broker_names(plan: Plan) -> list[str]:
    """Return the broker nodes: `n1`, `n2`, ..., or the ids that the plan lists."""
    return [f"n{number}" for number in plan.broker_ids or range(1, plan.nodes + 1)]


def controller_names(plan: Plan) -> list[str]:
    """Return the nodes of separate controllers: `n101`, ...; empty in other modes."""
    return [f"n{FIRST_CONTROLLER + number}" for number in range(plan.own_controllers)]


def keepers(plan: Plan) -> list[str]:
    """Return the nodes that keep the metadata outside Kafka: ZooKeeper's node, or none."""
    return [ZOOKEEPER_MACHINE] if plan.kept_outside else []


def machines(plan: Plan) -> list[str]:
    """Return the names of all machines: one per node, and one for ZooKeeper."""
    return [*broker_names(plan), *controller_names(plan), *keepers(plan)]


def node_id(node: str) -> int:
    """Return the broker id of a node, such as 3 for `n3`."""
    return int(node.removeprefix("n"))


def is_controller(node: str) -> bool:
    """Return whether a node is a separate controller."""
    return FIRST_CONTROLLER <= node_id(node) < FIRST_CONTROLLER + MOST_CONTROLLERS


def called(node: str) -> str:
    """Return the name of a node's server for messages, such as `the broker of n1`."""
    if node == ZOOKEEPER_MACHINE:
        return "ZooKeeper"
    what = "controller" if is_controller(node) else "broker"
    return f"the {what} of {node}"
