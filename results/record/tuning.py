"""The client and broker settings that a plan may contain: tuning settings only.

A plan may come from another person, in a bundle, a mail or a shared store. So a plan must never
contain a setting that loads code, runs a command, refers to a file, opens an address or contains a
secret. This module lists the permitted settings. Any other setting is refused before a client or
broker is created.

Names: librdkafka's CONFIGURATION.md; for Kafka's own clients and brokers:
https://kafka.apache.org/documentation/#configuration
"""

import re
from collections.abc import Mapping

_CLIENT = (
    "acks", "allow.auto.create.topics", "api.version.*", "auto.commit.interval.ms",
    "auto.offset.reset", "batch.*", "broker.address.*", "broker.version.fallback",
    "buffer.memory", "check.crcs", "client.dns.lookup", "client.id", "client.rack", "compression.*",
    "connections.max.idle.ms", "consume.callback.max.messages", "coordinator.query.interval.ms",
    "debug", "default.api.timeout.ms", "delivery.*", "dr_cb", "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.gapless.guarantee", "enable.idempotence", "enable.metrics.push",
    "enable.partition.eof", "enable.random.seed", "fetch.*", "group.id", "group.instance.id",
    "group.protocol", "group.protocol.type", "group.remote.assignor", "heartbeat.interval.ms",
    "isolation.level", "linger.ms", "log.*", "log_level", "max.block.ms", "max.in.flight*",
    "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "max.request.size",
    "message.*", "metadata.max.age.ms", "metadata.recovery.*",
    "msg_order_cmp", "partition.assignment.strategy", "partitioner", "produce.offset.report",
    "queue.buffering.*", "queued.*", "queuing.strategy", "receive.buffer.bytes",
    "receive.message.max.bytes",
    "reconnect.backoff.*", "request.required.acks", "request.timeout.ms", "retries",
    "retry.backoff.*", "send.buffer.bytes", "session.timeout.ms", "socket.*",
    "statistics.interval.ms",
    "sticky.partitioning.linger.ms", "topic.metadata.*", "transaction.timeout.ms",
    "transactional.id",
)  # fmt: skip
_BROKER = (
    "auto.*", "background.threads", "broker.heartbeat.interval.ms", "broker.rack",
    "broker.session.timeout.ms", "bugs", "compression.*", "connection.failed.*",
    "connections.max.*", "controlled.shutdown.*", "controller.performance.*",
    "controller.quorum.append.linger.ms", "controller.quorum.election.*",
    "controller.quorum.fetch.*", "controller.quorum.request.timeout.ms",
    "controller.quorum.retry.backoff.ms", "controller.quota.*", "controller.socket.timeout.ms",
    "default.replication.factor", "delegation.token.expiry.*", "delete.*", "eligible.*",
    "fetch.*", "group.consumer.*", "group.coordinator.*", "group.initial.*", "group.max.*",
    "group.min.*", "group.share.*", "group.streams.*", "initial.broker.registration.timeout.ms",
    "inter.broker.protocol.version", "kafka.metrics.polling.*", "leader.imbalance.*", "log.*",
    "max.*", "message.*", "metadata.*", "metrics.*", "min.insync.replicas", "num.*",
    "offset.metadata.max.bytes", "offsets.*", "producer.*", "queued.*", "quota.*", "replica.*",
    "request.timeout.ms", "reserved.broker.max.id", "server.max.*", "share.*", "socket.*",
    "transaction.*", "transactional.id.expiration.ms", "truncation", "unclean.leader.election.*",
    "unstable.*", "zookeeper.connection.timeout.ms", "zookeeper.max.in.flight.requests",
    "zookeeper.session.timeout.ms",
)  # fmt: skip
_NEVER = re.compile(
    r"(^|[._])(dirs?|file|files|path|paths|location|class|classes|reporters?|interceptors?|cmd|"
    r"command|command-config|callback|jaas|password|secret|token\.secret|key|listeners?|"
    r"plugin|plugins|url|urls|servers?|providers?|builder)($|[._])|_cb$"
)
"""If the name of a setting has such a part, the setting may load code, refer to a file, open an
address or contain a secret."""
_TUNES_ALL_THE_SAME = frozenset({
    "num.recovery.threads.per.data.dir", "server.max.startup.time.ms",
})  # fmt: skip
PATIENCE = (
    "broker.session.timeout.ms", "zookeeper.session.timeout.ms",
    "controller.quorum.fetch.timeout.ms", "controller.quorum.election.timeout.ms",
)  # fmt: skip
"""Broker settings: timeouts after which other nodes consider a node failed."""
_WAITS_FOR_KEEPER = {"zookeeper.connection.timeout.ms": 30_000}
"""The setting for how long a starting broker waits for ZooKeeper, and its value in Logquake."""
_WAITS_FOR_CONTROLLER = {
    "initial.broker.registration.timeout.ms": 60_000,
    "server.max.startup.time.ms": 60_000,
}
"""How long a starting broker waits for a controller. The second setting has no limit by default.
"""
LAG_TIME = "replica.lag.time.max.ms"
"""Broker setting: a follower that stays behind for longer than this time leaves the ISR."""
OUR_LAG_MS, KAFKAS_LAG_MS = 4_000, 30_000
"""The value that Logquake's own brokers have for `LAG_TIME`, and Kafka's default."""
ABORT_INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
_FIRST_TO_HEED_IT = (0, 11, 0, 2)
"""The first version that uses `ABORT_INTERVAL`. In earlier versions, coordinators checked once a
minute (KAFKA-6119)."""
_UNHEEDED_S = 60.0
MARKERS_S = 10.0
"""Time for writing the markers of an aborted transaction, on a busy machine."""
_DIGITS = 18
"""Maximum number of digits of a number in a setting. Java's longest number has nineteen digits."""


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(
        name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns
    )


def tunes_a_client(name: str) -> bool:
    """Return whether a plan may contain this setting of librdkafka."""
    return _tunes(name, _CLIENT)


def tunes_a_broker(name: str) -> bool:
    """Return whether a plan may contain this setting of a broker or controller."""
    return _tunes(name, _BROKER)


def _tunes(name: str, patterns: tuple[str, ...]) -> bool:
    never = _NEVER.search(name) is not None and name not in _TUNES_ALL_THE_SAME
    return _matches(name, patterns) and not never


def number_of(setting: str) -> int | None:
    """Return the integer in a broker's setting, or None if it is no integer or is too long."""
    return int(setting) if setting.isdecimal() and len(setting) <= _DIGITS else None


def gives_up_ms(settings: Mapping[str, str], *, kept_outside: bool) -> int:
    """Return how many milliseconds a starting broker waits before it gives up.

    Args:
        settings: The settings of the broker in a plan.
        kept_outside: Whether the broker waits for ZooKeeper. Otherwise the broker waits for a
            controller.
    """
    waits = _WAITS_FOR_KEEPER if kept_outside else _WAITS_FOR_CONTROLLER
    told = (number_of(settings.get(name, "")) or default for name, default in waits.items())
    return min(told)


def abort_interval_s(broker: Mapping[str, str], version: tuple[int, ...] | None) -> float:
    """Return the interval in seconds at which coordinators check for expired transactions.

    Args:
        broker: The brokers' settings.
        version: Version of Kafka; None for another system.
    """
    if version is not None and version < _FIRST_TO_HEED_IT:
        return _UNHEEDED_S
    return (number_of(broker.get(ABORT_INTERVAL, "1000")) or 0) / 1000
