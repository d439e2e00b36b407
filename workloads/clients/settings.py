"""librdkafka's settings for producers and consumers, derived from a plan.

Names and defaults: https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
"""

import logging
from collections.abc import Mapping, Sequence

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, libversion

from results.record.attached_file import security_of_clients
from results.record.group_ways import CONSUMER, PROTOCOL
from results.record.identities import groups, transactional_id
from results.record.own import own_file, own_settings
from results.record.plan import Plan, PlanError
from results.record.shares import has_shares
from results.record.terms import Isolation
from workloads.ways import HEARTBEAT, SESSION, STRATEGY, way_of

Settings = dict[str, str | int | float | bool | logging.Logger]

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
OWNED: Mapping[str, str] = {
    "bootstrap.servers": "the cluster that the run starts",
    "acks": "the plan's acks",
    "request.required.acks": "the plan's acks",
    "enable.idempotence": "the plan's idempotence",
    "retries": "the plan's retries",
    "message.send.max.retries": "the plan's retries",
    "delivery.timeout.ms": "the plan's delivery_timeout_s",
    "message.timeout.ms": "the plan's delivery_timeout_s",
    "compression.type": "the plan's compression",
    "compression.codec": "the plan's compression",
    "linger.ms": "the plan's linger_ms",
    "queue.buffering.max.ms": "the plan's linger_ms",
    "isolation.level": "the workload",
    "auto.offset.reset": "the workload, in which no reader may jump to another offset unnoticed",
    "enable.auto.commit": "the workload",
    "enable.auto.offset.store": "the workload",
    "enable.partition.eof": "the final reads",
    "delivery.report.only.error": "the record, which needs every report",
    "check.crcs": "the record, which needs readers that reject records with a flipped bit",
    "transactional.id": "the workload",
    "transaction.timeout.ms": "the plan's transaction_timeout_s",
    "group.id": "the workload",
}
"""Settings that a user may not override, because the run's record would be wrong.

For each setting, a text says which plan key or rule determines it.
"""
_OWNED_BY_SHARES = dict.fromkeys(
    ("socket.timeout.ms", "request.timeout.ms", "fetch.wait.max.ms", "fetch.max.wait.ms"),
    "the record, which needs the earliest acquisition time of a share group's records,",
) | {"share.acknowledgement.mode": "the workload"}
"""More settings that a user may not override if the run has share group members.

The names are librdkafka's and Java's.
"""

_SOCKET_TIMEOUT_MS = 10_000
"""The request timeout. It is short, so that a request to a paused broker is retried at another
broker before the delivery timeout."""
_LEAST_PATIENCE_MS = 100
_MAKES_TOPICS = "allow.auto.create.topics"
_CONNECTION: Settings = {
    "socket.timeout.ms": _SOCKET_TIMEOUT_MS,
    "socket.keepalive.enable": True,
    "reconnect.backoff.ms": 100,
    "reconnect.backoff.max.ms": 1000,
    # A paused leader cannot report that it no longer leads, so the client asks other brokers.
    "topic.metadata.refresh.interval.ms": 2000,
    _MAKES_TOPICS: False,
}
_FETCH: Settings = {
    # A fetch is answered after this many bytes or after 100 ms. At ordinary rates that makes ten
    # requests a second from each reader to each broker, instead of one for each record.
    "fetch.min.bytes": 65_536,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 100,
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16_384,
}

_HAS_BACKOFF = 0x02020000
_QUEUE_BACKOFF: Settings = (
    # How long fetching pauses when the queue is full. The default of 1 s would starve a fast
    # reader. Before librdkafka 2.2 it was fixed at 1 s.
    {"fetch.queue.backoff.ms": 20} if libversion()[1] >= _HAS_BACKOFF else {}
)

_CLASSIC_SESSION: Settings = {
    # The shortest timeout that brokers accept by default. So the group notices a crashed member
    # within the run.
    SESSION: 6000,
    HEARTBEAT: 1000,
}


def owned(plan: Plan) -> Mapping[str, str]:
    """Return the settings that the user may not override, and what determines each setting."""
    return {**OWNED, **(_OWNED_BY_SHARES if has_shares(plan) else {})}


def producer_settings(plan: Plan, *, bootstrap: str, worker: int) -> Settings:
    """Return the settings of a worker's producer. `worker` selects one of mixed compressions."""
    compression = (
        COMPRESSIONS[worker % len(COMPRESSIONS)]
        if plan.compression == "mixed"
        else plan.compression
    )
    settings: Settings = {
        **_CONNECTION,
        "bootstrap.servers": bootstrap,
        "client.id": f"worker-{worker}",
        "acks": plan.acks,
        "enable.idempotence": plan.idempotent,
        "linger.ms": plan.linger_ms,
        "compression.type": compression,
        "delivery.timeout.ms": round(plan.delivery_timeout_s * 1000),
        "request.timeout.ms": min(_SOCKET_TIMEOUT_MS, round(plan.delivery_timeout_s * 1000)),
        "queue.buffering.max.messages": max(100_000, 2 * plan.sends_per_op * plan.concurrency),
        # The generator chooses the partitions, so that a blocked partition does not delay others.
        "sticky.partitioning.linger.ms": 0,
    }
    settings |= batching(plan)
    if plan.retries is not None:
        settings["retries"] = plan.retries
    return _tuned(settings, plan)


def batching(plan: Plan) -> dict[str, int]:
    """Return the plan's batching settings. They have the same names in Kafka's own clients."""
    told = {
        "batch.size": plan.contents.batch_bytes,
        "max.in.flight.requests.per.connection": plan.contents.max_in_flight,
    }
    return {name: number for name, number in told.items() if number is not None}


def transactional_settings(plan: Plan, *, bootstrap: str, thread: int) -> Settings:
    """Return the settings of a thread's transactional producer.

    In librdkafka, a delivery must time out before its transaction does. A request must time out
    well before its delivery does.
    """
    timeout_ms = round(plan.transaction_timeout_s * 1000)
    delivery_ms = min(timeout_ms, round(plan.delivery_timeout_s * 1000))
    patience_ms = max(1000, timeout_ms // 3)
    if plan.goes_on:  # A request times out and is retried within the delivery timeout.
        patience_ms = max(_LEAST_PATIENCE_MS, delivery_ms // 2)
    settings: Settings = {
        **producer_settings(plan, bootstrap=bootstrap, worker=thread),
        "client.id": f"thread-{thread}",
        "transactional.id": transactional_id(thread, plan),
        "transaction.timeout.ms": timeout_ms,
        "delivery.timeout.ms": delivery_ms,
        # A request to a paused broker is retried elsewhere before the transaction's timeout.
        "socket.timeout.ms": min(patience_ms, timeout_ms),
        "request.timeout.ms": min(patience_ms, delivery_ms),
    }
    return _tuned(settings, plan)


def member_settings(
    plan: Plan,
    *,
    bootstrap: str,
    client_id: str,
    group: str,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> Settings:
    """Return the settings of a group member's consumer."""
    way = way_of(group, plan, _of_the_user(plan))
    settings: Settings = {
        **consumer_settings(plan, bootstrap=bootstrap, client_id=client_id, isolation=isolation),
        "group.id": group,
        # Without a committed offset, a group begins at the beginning.
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": 10_000,
        **way.settings,
        # With the consumer protocol the brokers decide these.
        **(_CLASSIC_SESSION if way.protocol != CONSUMER else {}),
    }
    return _tuned(settings, plan)


def share_settings(plan: Plan, *, bootstrap: str, client_id: str, group: str) -> Settings:
    """Return the settings of a share group member's consumer."""
    # The preview version does not accept the setting for topic creation.
    connection = {name: each for name, each in _CONNECTION.items() if name != _MAKES_TOPICS}
    settings: Settings = {
        **connection,
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
        "check.crcs": True,
        # Few records in a poll, so that many acknowledgements are in flight around each fault.
        "max.poll.records": 100,
        "max.poll.interval.ms": 30_000,
        "log_level": 3,  # Each client warns that it is a preview.
    }
    return _tuned(settings, plan)


def admin_settings(plan: Plan, *, bootstrap: str) -> Settings:
    """Return the settings of an admin client."""
    return {
        **_CONNECTION,
        "bootstrap.servers": bootstrap,
        **security_of_clients(plan),
        **_own(plan),
    }


def for_librdkafka(plan: Plan) -> Plan:
    """Return the plan without the settings that are for Kafka's Java clients."""
    return plan.model_copy(update={"client": {}}) if plan.wants_java else plan


def is_incremental(settings: Mapping[str, object]) -> bool:
    """Return whether a rebalance assigns and revokes single partitions (KIP-429, KIP-848)."""
    return "cooperative" in str(settings.get(STRATEGY, "")) or settings.get(PROTOCOL) == CONSUMER


def consumer_settings(
    plan: Plan,
    *,
    bootstrap: str,
    client_id: str,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> Settings:
    """Return the settings of one logical process's consumer."""
    settings: Settings = {
        **_CONNECTION,
        **_FETCH,
        **_QUEUE_BACKOFF,
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "group.id": f"{plan.prefix or 'logquake-'}{plan.name}",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": isolation.value,
        "check.crcs": True,
    }
    return _tuned(settings, plan)


def _tuned(settings: Settings, plan: Plan) -> Settings:
    """Return client settings, and add the plan's settings and the user's own settings."""
    return {**settings, **_of_the_user(plan)}


def _of_the_user(plan: Plan) -> dict[str, str]:
    return {**plan.client, **security_of_clients(plan), **_own(plan)}


def _own(plan: Plan) -> dict[str, str]:
    return {} if plan.clients is None else own_settings(plan.clients)


def check_client_settings(plan: Plan) -> None:
    """Create the clients of a plan without connecting, to check their settings.

    Raises:
        PlanError: librdkafka refuses a key, a user's key is one that the plan determines, or the
            file of the user's own settings does not exist. The message is one sentence.
    """
    bare = plan.model_copy(update={"client": {}, "clients": None})
    secures = security_of_clients(plan)
    if secures and _refusal(bare) is not None:  # librdkafka's message may contain a value.
        names = ", ".join(sorted(secures))
        raise PlanError(
            f"librdkafka rejects the security settings ({names}) of {plan.named.path}; fix them"
        )
    for key, value in plan.client.items():
        if key in owned(plan):
            raise PlanError(
                f"the plan's client.{key} cannot be set, because {owned(plan)[key]} determines it"
            )
        refusal = _refusal(bare.model_copy(update={"client": {key: value}}))
        if refusal is not None:
            raise PlanError(f"the plan's client.{key} cannot be {value!r}: {refusal}")
    own = _own(plan)
    for key in own.keys() & owned(plan).keys():
        who = owned(plan)[key]
        raise PlanError(
            f"{key} of your clients {plan.clients} cannot be set, because {who} determines it"
        )
    refusal = _refusal(plan)
    if refusal is not None and own:  # librdkafka's message may contain a value, so it is not shown.
        names = ", ".join(sorted(own))
        raise PlanError(
            f"librdkafka rejects the settings ({names}) of your clients {plan.clients}; see"
            f" {own_file()}"
        )
    if refusal is not None:
        raise PlanError(f"the plan's client settings contradict each other: {refusal}")


def _refusal(plan: Plan) -> str | None:
    silent = logging.Logger("unconnected clients", level=logging.CRITICAL + 1)
    sender = producer_settings(plan, bootstrap="", worker=0)
    if plan.transactional:
        sender = transactional_settings(plan, bootstrap="", thread=0)
    readers = [consumer_settings(plan, bootstrap="", client_id="check"), *_members(plan)]
    kinds = [(sender, Producer), *((each, Consumer) for each in readers)]
    if has_shares(plan):
        sharer = share_settings(plan, bootstrap="", client_id="check", group="check")
        kinds.append((sharer, confluent_kafka.ShareConsumer))
    for settings, kind in kinds:
        del settings["bootstrap.servers"]
        try:
            kind({**settings, "logger": silent})
        except KafkaException as refused:
            return str(refused.args[0].str())
        except (TypeError, ValueError) as refused:
            return str(refused)
    return None


def _members(plan: Plan) -> Sequence[Settings]:
    """Return, for each kind of group, the settings of a member."""
    if not plan.is_grouped:
        return []
    told = _of_the_user(plan)
    groups_by_way = {way_of(group, plan, told): group for group in groups(plan)}
    return [
        member_settings(plan, bootstrap="", client_id="check", group=group)
        for group in groups_by_way.values()
    ]
