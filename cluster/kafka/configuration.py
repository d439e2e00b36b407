"""Writes the settings of one node: a broker, a controller or both, with KRaft or ZooKeeper.

Settings differ from Kafka's defaults for two reasons. The first is that faults in a run last
seconds, so default timeouts of tens of seconds would hide the faults. The second reason is that all
nodes and their clients share one machine.
"""

from collections.abc import Mapping
from pathlib import Path

from cluster.files.properties import properties
from cluster.protocol import Endpoint
from cluster.sessions import OURS, SESSION_TIMEOUT, SESSION_TIMEOUT_OF_KRAFT
from results.record.nodes import is_controller, node_id
from results.record.plan import Plan
from results.record.shares import OF_BROKERS, STATE_COPIES, has_shares
from results.record.terms import Mode
from results.record.tuning import ABORT_INTERVAL, LAG_TIME

CONTROLLER_LISTENER = "CONTROLLER"
BROKER_LISTENER = "BROKER"
JVM_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # Halves the start time; a short run gains nothing from C2.
    "-XX:+ExitOnOutOfMemoryError",  # A half-broken broker is not a planned fault.
    "-Djava.awt.headless=true",
    "-XX:-UsePerfData",  # A killed Java would leave its file in /tmp/hsperfdata_USER.
)
JAVA_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""The environment of every JVM. In the locale C, Java cannot open files with non-ASCII paths."""

HEARTBEAT_INTERVAL = "broker.heartbeat.interval.ms"
_SECOND_SCALE = {
    LAG_TIME: OURS[LAG_TIME],
    "replica.fetch.wait.max.ms": "250",
    # How long a node waits for an answer from a node that is cut off.
    "replica.socket.timeout.ms": "5000",
    "controller.socket.timeout.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    ABORT_INTERVAL: "1000",
}
_SECOND_SCALE_SINCE_2_7 = {
    "socket.connection.setup.timeout.ms": "1000",
    "socket.connection.setup.timeout.max.ms": "2000",
}
_SECOND_SCALE_OF_KRAFT = {
    # A stopping broker may have to wait for its next heartbeat. Combined nodes that need not
    # wait end within 300 ms, and the quorum ends with them. So the interval must be shorter.
    HEARTBEAT_INTERVAL: "100",
    SESSION_TIMEOUT_OF_KRAFT: OURS[SESSION_TIMEOUT_OF_KRAFT],
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.backoff.max.ms": "1000",
    "controller.quorum.request.timeout.ms": "2000",
}
_SECOND_SCALE_OF_KRAFT_SINCE_4_1 = {
    # From 4.1 on, a controller must also answer within this interval (KAFKA-19294). A busy machine
    # does not answer within 100 ms. A broker then ends itself after a minute, because it could not
    # register. 250 ms is still shorter than those 300 ms.
    HEARTBEAT_INTERVAL: "250",
}
_SECOND_SCALE_OF_ZOOKEEPER = {
    SESSION_TIMEOUT: OURS[SESSION_TIMEOUT],
    # The default, the session timeout, is too short while Java starts on a busy machine.
    "zookeeper.connection.timeout.ms": "30000",
}
_SMALL_MACHINE = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.replica.fetchers": "1",
    "num.recovery.threads.per.data.dir": "1",
    "background.threads": "4",
    "log.cleaner.dedupe.buffer.size": "4194304",  # The default takes a quarter of the heap.
    "log.index.size.max.bytes": "1048576",
    "log.preallocate": "false",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
_SECOND_SCALE_SINCE_4 = {
    # In the new consumer protocol (KIP-848) brokers set the timeouts that clients used to set.
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "2000",  # Also a client's timeout for the answer.
}
_SMALL_MACHINE_SINCE_4 = {"share.coordinator.state.topic.num.partitions": "2"}


def server_properties(
    plan: Plan,
    node: str,
    *,
    endpoints: Mapping[str, Endpoint],
    data: Path,
    zookeeper: str | None = None,
) -> str:
    """Return the text of a node's `server.properties`; the plan's settings override the defaults.

    Args:
        plan: The run's plan.
        node: The node's name, such as `n1`.
        endpoints: The addresses of all nodes, by name.
        data: The folder for the logs of topics and of metadata.
        zookeeper: `host:port` of ZooKeeper, in ZooKeeper mode.
    """
    if zookeeper is not None:
        identity = _identity_in_zookeeper(node, endpoints, zookeeper)
    elif is_controller(node):
        identity = _identity_of_controller(node, endpoints)
    else:
        identity = _identity_of_broker(node, endpoints)
    settings = {
        **identity,
        "log.dirs": str(data),
        **_second_scale(plan),
        **_SMALL_MACHINE,
        **(_SMALL_MACHINE_SINCE_4 if plan.version_numbers >= (4,) else {}),
        **_durability(plan),
        **({"bugs": plan.bug} if plan.bug else {}),
        **plan.broker,
        **plan.node.get(node, {}),
    }
    return properties(settings)


def session_timeout_s(plan: Plan, node: str) -> float:
    """Return the seconds after which ZooKeeper ends the session of a killed broker."""
    settings = {**_SECOND_SCALE_OF_ZOOKEEPER, **plan.broker, **plan.node.get(node, {})}
    return int(settings[SESSION_TIMEOUT]) / 1000


def _second_scale(plan: Plan) -> dict[str, str]:
    of_mode = _SECOND_SCALE_OF_KRAFT
    if plan.version_numbers >= (4, 1):
        of_mode = of_mode | _SECOND_SCALE_OF_KRAFT_SINCE_4_1
    if plan.mode is Mode.ZOOKEEPER:
        of_mode = _SECOND_SCALE_OF_ZOOKEEPER
    newer = _SECOND_SCALE_SINCE_2_7 if plan.version_numbers >= (2, 7) else {}
    newest = _SECOND_SCALE_SINCE_4 if plan.version_numbers >= (4,) else {}
    shares = OF_BROKERS if has_shares(plan) else {}
    return {**_SECOND_SCALE, **newer, **newest, **shares, **of_mode}


def _identity_in_zookeeper(
    node: str, endpoints: Mapping[str, Endpoint], zookeeper: str
) -> dict[str, str]:
    return {
        "broker.id": str(node_id(node)),
        "zookeeper.connect": zookeeper,
        **_listening(endpoints[node]),
        "listener.security.protocol.map": f"{BROKER_LISTENER}:PLAINTEXT",
    }


def _identity_of_broker(node: str, endpoints: Mapping[str, Endpoint]) -> dict[str, str]:
    own = endpoints[node]
    combined = own.controller_port != 0
    settings = {
        "process.roles": "broker,controller" if combined else "broker",
        "node.id": str(node_id(node)),
        **_listening(own),
        **_quorum(endpoints),
    }
    if combined:
        settings["listeners"] += f",{_quorum_listener(own)}"
    return settings


def _identity_of_controller(node: str, endpoints: Mapping[str, Endpoint]) -> dict[str, str]:
    return {
        "process.roles": "controller",
        "node.id": str(node_id(node)),
        "listeners": _quorum_listener(endpoints[node]),
        **_quorum(endpoints),
    }


def _listening(own: Endpoint) -> dict[str, str]:
    listener = f"{BROKER_LISTENER}://{own.host}:{own.broker_port}"
    return {
        "listeners": listener,
        "advertised.listeners": listener,
        "inter.broker.listener.name": BROKER_LISTENER,
    }


def _quorum_listener(own: Endpoint) -> str:
    return f"{CONTROLLER_LISTENER}://{own.host}:{own.controller_port}"


def _quorum(endpoints: Mapping[str, Endpoint]) -> dict[str, str]:
    return {
        "controller.quorum.voters": ",".join(
            f"{node_id(name)}@{at.host}:{at.controller_port}"
            for name, at in endpoints.items()
            if at.controller_port
        ),
        "controller.listener.names": CONTROLLER_LISTENER,
        "listener.security.protocol.map": (
            f"{BROKER_LISTENER}:PLAINTEXT,{CONTROLLER_LISTENER}:PLAINTEXT"
        ),
    }


def _durability(plan: Plan) -> dict[str, str]:
    replicas = str(min(3, plan.nodes))
    majority = str(min(3, plan.nodes) // 2 + 1)
    settings = {
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(plan.replication),
        "num.partitions": str(plan.partitions),
        "min.insync.replicas": str(plan.min_insync),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": majority,
    }
    if plan.version_numbers >= (4,):
        settings[STATE_COPIES] = replicas
        settings["share.coordinator.state.topic.min.isr"] = majority
    return settings
