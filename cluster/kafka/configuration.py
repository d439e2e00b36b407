"""The settings of one node: a combined KRaft broker and controller. Pure.

What is set differs from Kafka's defaults for two reasons only: faults last seconds here, so that
what waits for tens of seconds by default would hide them; and nodes share one machine with their
clients.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from results.record.plan import Plan

CONTROLLER_LISTENER = "CONTROLLER"
BROKER_LISTENER = "BROKER"
JVM_FLAGS = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # Starts in half the time; a run is too short to win it back.
    "-XX:+ExitOnOutOfMemoryError",  # A broker that limps on is not a fault of the schedule.
    "-Djava.awt.headless=true",
    "-XX:-UsePerfData",  # A killed Java would leave its file in /tmp/hsperfdata_USER.
)
JAVA_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""In the locale C, as under cron, Java finds no file whose path has letters beyond ASCII."""

_SECOND_SCALE = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.backoff.max.ms": "1000",
    "controller.quorum.request.timeout.ms": "2000",
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.wait.max.ms": "250",
    # A dropped packet is never answered: how long a node waits for one that is cut off.
    "replica.socket.timeout.ms": "5000",
    "controller.socket.timeout.ms": "3000",
    "socket.connection.setup.timeout.ms": "1000",
    "socket.connection.setup.timeout.max.ms": "2000",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
_SMALL_MACHINE = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.replica.fetchers": "1",
    "num.recovery.threads.per.data.dir": "1",
    "background.threads": "4",
    "log.cleaner.dedupe.buffer.size": "4194304",  # By default a quarter of the heap, at once.
    "log.index.size.max.bytes": "1048576",
    "log.preallocate": "false",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "2",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a node listens.

    Attributes:
        host: Address that the other nodes and the clients reach.
        broker_port: For clients and other brokers.
        controller_port: For the controllers' quorum.
    """

    host: str
    broker_port: int
    controller_port: int


def node_id(node: str) -> int:
    """Return the broker id of a node: 3 of `n3`."""
    return int(node.removeprefix("n"))


def server_properties(
    plan: Plan, node: str, *, endpoints: Mapping[str, Endpoint], data: Path
) -> str:
    """Return `server.properties` of a node; the plan's broker settings win over all of it.

    Args:
        plan: What decides the run.
        node: `n1`.
        endpoints: Of all nodes, by name.
        data: The folder for logs of topics and of metadata.
    """
    settings = {
        **_identity(node, endpoints, data),
        **_SECOND_SCALE,
        **_SMALL_MACHINE,
        **_durability(plan),
        **plan.broker,
    }
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def logging_properties(logs: Path) -> str:
    """Return a log4j2 configuration that writes Kafka's usual log files, with milliseconds.

    Args:
        logs: The folder of `server.log`, `controller.log`, `state-change.log`.
    """
    # Log4j's own hook would end the log at SIGTERM, before the broker has said how it stopped.
    lines = ["status = error", "shutdownHook = disable", "appenders = server, controller, state"]
    for appender, file in (
        ("server", "server.log"),
        ("controller", "controller.log"),
        ("state", "state-change.log"),
    ):
        prefix = f"appender.{appender}"
        lines += [
            f"{prefix}.type = File",
            f"{prefix}.name = {appender}",
            f"{prefix}.fileName = {_escaped(str(logs / file))}",
            f"{prefix}.layout.type = PatternLayout",
            f"{prefix}.layout.pattern = [%d{{yyyy-MM-dd HH:mm:ss,SSS}}] %p %m (%c)%n",
        ]
    lines += ["rootLogger.level = info", "rootLogger.appenderRef.server.ref = server"]
    for number, (logger, appender) in enumerate(
        (
            ("org.apache.kafka.controller", "controller"),
            ("kafka.controller", "controller"),
            ("state.change.logger", "state"),
        )
    ):
        prefix = f"logger.l{number}"
        lines += [
            f"{prefix}.name = {logger}",
            f"{prefix}.level = info",
            f"{prefix}.additivity = false",
            f"{prefix}.appenderRef.own.ref = {appender}",
        ]
    return "\n".join(lines) + "\n"


def _identity(node: str, endpoints: Mapping[str, Endpoint], data: Path) -> dict[str, str]:
    own = endpoints[node]
    broker = f"{BROKER_LISTENER}://{own.host}:{own.broker_port}"
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id(node)),
        "controller.quorum.voters": ",".join(
            f"{node_id(name)}@{at.host}:{at.controller_port}" for name, at in endpoints.items()
        ),
        "listeners": f"{broker},{CONTROLLER_LISTENER}://{own.host}:{own.controller_port}",
        "advertised.listeners": broker,
        "inter.broker.listener.name": BROKER_LISTENER,
        "controller.listener.names": CONTROLLER_LISTENER,
        "listener.security.protocol.map": (
            f"{BROKER_LISTENER}:PLAINTEXT,{CONTROLLER_LISTENER}:PLAINTEXT"
        ),
        "log.dirs": str(data),
    }


def _durability(plan: Plan) -> dict[str, str]:
    replicas = str(min(3, plan.nodes))
    majority = str(min(3, plan.nodes) // 2 + 1)
    return {
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(plan.replication),
        "num.partitions": str(plan.partitions),
        "min.insync.replicas": str(plan.min_insync),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": majority,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": majority,
    }


def _escaped(text: str) -> str:
    """Escape what `java.util.Properties` would read otherwise (its class documentation)."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if text.startswith((" ", "#", "!")):
        text = "\\" + text
    text = text.replace("=", "\\=").replace(":", "\\:")
    return "".join(
        letter if letter.isascii() else "".join(f"\\u{unit:04x}" for unit in _utf16(letter))
        for letter in text
    )


def _utf16(letter: str) -> list[int]:
    raw = letter.encode("utf-16-be")
    return [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]
