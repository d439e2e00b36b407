"""The settings that a plan may hold: those that tune a client or a broker, and nothing else.

A plan may be a stranger's: out of a bundle, a colleague's mail, a shared store. A setting that
loads code, runs a command, names a file, opens an address or holds a secret never comes from a
plan. So a plan's settings are allowed by this list; what is not on it is refused before a client
or a broker is made.

Names: librdkafka's CONFIGURATION.md; those of Kafka's own clients and of brokers:
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
"""Parts of a name that load code, name a file, open an address or hold a secret."""
_TUNES_ALL_THE_SAME = frozenset({
    "num.recovery.threads.per.data.dir", "server.max.startup.time.ms",
})  # fmt: skip
PATIENCE = (
    "broker.session.timeout.ms", "zookeeper.session.timeout.ms",
    "controller.quorum.fetch.timeout.ms", "controller.quorum.election.timeout.ms",
)  # fmt: skip
"""Settings of brokers: so long others wait until they take somebody for gone."""
ABORT_INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
_FIRST_TO_HEED_IT = (0, 11, 0, 2)
"""Before, coordinators looked once a minute, whatever the setting was (KAFKA-6119)."""
_UNHEEDED_S = 60.0
MARKERS_S = 10.0
"""Time to write the markers of a transaction that was aborted, on a machine that is busy."""
_DIGITS = 18
"""Of a number in a setting: Java's longest has nineteen."""


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(
        name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns
    )


def tunes_a_client(name: str) -> bool:
    """Tell whether a plan may hold a setting of librdkafka."""
    return _tunes(name, _CLIENT)


def tunes_a_broker(name: str) -> bool:
    """Tell whether a plan may hold a setting of a broker or controller."""
    return _tunes(name, _BROKER)


def _tunes(name: str, patterns: tuple[str, ...]) -> bool:
    never = _NEVER.search(name) is not None and name not in _TUNES_ALL_THE_SAME
    return _matches(name, patterns) and not never


def number_of(setting: str) -> int | None:
    """Return the whole number that a broker's setting says; None: it is another text, or longer."""
    return int(setting) if setting.isdecimal() and len(setting) <= _DIGITS else None


def abort_interval_s(broker: Mapping[str, str], version: tuple[int, ...] | None) -> float:
    """Return how often coordinators look for transactions that are over their timeout, in seconds.

    Args:
        broker: The brokers' settings.
        version: Of Kafka; None: of another system.
    """
    if version is not None and version < _FIRST_TO_HEED_IT:
        return _UNHEEDED_S
    return (number_of(broker.get(ABORT_INTERVAL, "1000")) or 0) / 1000
