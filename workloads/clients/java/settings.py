"""The settings of Kafka's own Java clients, derived from a plan.

Names and defaults: https://kafka.apache.org/documentation/#producerconfigs and #consumerconfigs.
If librdkafka has a setting, too, the value is as in `workloads/clients/settings.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from results.record.attached_file import security_of_clients
from results.record.group_ways import CONSUMER
from results.record.identities import transactional_id
from results.record.plan import Plan, PlanError
from results.record.terms import Isolation
from workloads.clients.settings import COMPRESSIONS, batching, owned
from workloads.log import POLL_LIMIT
from workloads.pipeline import MOST_READ
from workloads.ways import way_of

OWNED_TOO: Mapping[str, str] = {
    "max.poll.records": "the workload",
    "key.serializer": "the workload",
    "value.serializer": "the workload",
    "key.deserializer": "the workload",
    "value.deserializer": "the workload",
}
"""Java settings that do not exist in librdkafka, and that a user may not override. For each
setting, a text says which plan key or rule determines it.
"""
_REQUEST_MS = 10_000
"""The request timeout. It is short, so that a request to a paused broker is retried at another
broker before the delivery timeout."""
_BUFFER_BYTES = 64 << 20
_BLOCK_MS = 2000
"""How long `send` may wait for buffer space. Meanwhile, later sends have to wait."""
_CONNECTION = {
    "reconnect.backoff.ms": "100",
    "reconnect.backoff.max.ms": "1000",
    # A paused leader cannot report that it no longer leads, so the client asks other brokers.
    "metadata.max.age.ms": "2000",
    # Telemetry would push metrics to brokers that did not ask for them.
    "enable.metrics.push": "false",
}
_FETCH = {
    # As for librdkafka: ten requests a second from each reader to each broker.
    "fetch.min.bytes": "65536",
    "fetch.max.wait.ms": "100",
    "fetch.max.bytes": str(8 << 20),
    "max.poll.records": str(POLL_LIMIT),
}
_PACKAGE = "org.apache.kafka.clients.consumer"
_ASSIGNORS = {
    "range": f"{_PACKAGE}.RangeAssignor",
    "roundrobin": f"{_PACKAGE}.RoundRobinAssignor",
    "cooperative-sticky": f"{_PACKAGE}.CooperativeStickyAssignor",
}
"""For each assignor name of librdkafka, the class in Kafka's client."""
_GROUPS_OF_BROKERS = ("session.timeout.ms", "heartbeat.interval.ms")
"""In groups with the KIP-848 protocol, the broker decides these settings, and a client refuses
them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one client.

    Attributes:
        plans: Settings that the plan decides.
        own: The user's settings. A client uses the settings that its kind knows.
    """

    plans: Mapping[str, str]
    own: Mapping[str, str]


def producer_settings(plan: Plan, *, bootstrap: str, worker: int) -> Settings:
    """Return the settings of a worker's producer. `worker` selects one of mixed compressions."""
    mixed = COMPRESSIONS[worker % len(COMPRESSIONS)]
    delivery_ms, linger_ms = round(plan.delivery_timeout_s * 1000), round(plan.linger_ms)
    settings = {
        **_CONNECTION,
        "bootstrap.servers": bootstrap,
        "client.id": f"worker-{worker}",
        "acks": plan.acks,
        "enable.idempotence": _bool(plan.idempotent),
        "linger.ms": str(linger_ms),
        "compression.type": mixed if plan.compression == "mixed" else plan.compression,
        **_patience(delivery_ms, linger_ms, _REQUEST_MS),
        "buffer.memory": str(_BUFFER_BYTES),
        "max.block.ms": str(_BLOCK_MS),
        **{name: str(number) for name, number in batching(plan).items()},
    }
    if plan.retries is not None:
        settings["retries"] = str(plan.retries)
    return Settings(settings, plan.client)


def transactional_settings(plan: Plan, *, bootstrap: str, thread: int) -> Settings:
    """Return the settings of a thread's transactional producer.

    A delivery must time out before its transaction does. A request must time out well before its
    delivery does.
    """
    timeout_ms = round(plan.transaction_timeout_s * 1000)
    delivery_ms = min(timeout_ms, round(plan.delivery_timeout_s * 1000))
    patience_ms = max(1000, timeout_ms // 3)
    if plan.goes_on:  # A request times out and is retried within the delivery timeout.
        patience_ms = max(1, delivery_ms // 2)
    settings = {
        **producer_settings(plan, bootstrap=bootstrap, worker=thread).plans,
        "client.id": f"thread-{thread}",
        "transactional.id": transactional_id(thread, plan),
        "transaction.timeout.ms": str(timeout_ms),
        # A request to a paused broker is retried elsewhere before the transaction's timeout.
        **_patience(delivery_ms, round(plan.linger_ms), patience_ms),
        "max.block.ms": str(timeout_ms),
    }
    return Settings(settings, plan.client)


def consumer_settings(
    plan: Plan,
    *,
    bootstrap: str,
    client_id: str,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> Settings:
    """Return the settings of one logical process's consumer."""
    settings = {
        **_CONNECTION,
        **_FETCH,
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "group.id": group_id(plan),
        "enable.auto.commit": "false",
        "auto.offset.reset": "none",
        "isolation.level": isolation.value,
        "check.crcs": "true",
        "allow.auto.create.topics": "false",
        "request.timeout.ms": str(_REQUEST_MS),
    }
    return Settings(settings, plan.client)


def group_id(plan: Plan) -> str:
    """Return the group id with which readers commit positions in their transactions."""
    return f"{plan.prefix or 'logquake-'}{plan.name}"


def member_settings(
    plan: Plan,
    *,
    bootstrap: str,
    client_id: str,
    group: str,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> Settings:
    """Return the settings of a group member's consumer."""
    way = way_of(group, plan, plan.client)
    of_way = {name: _ASSIGNORS.get(value, value) for name, value in way.settings.items()}
    if way.protocol == CONSUMER:  # The brokers' assignors have their own names.
        of_way = way.settings
    reader = consumer_settings(plan, bootstrap=bootstrap, client_id=client_id, isolation=isolation)
    settings = {
        **reader.plans,
        **of_way,
        "group.id": group,
        # Without a committed offset, a group begins at the beginning.
        "auto.offset.reset": "earliest",
        # The shortest timeout that brokers accept by default. So the group notices a crashed member
        # within the run.
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "max.poll.interval.ms": "10000",
        # The Java program would keep further records, and return them without asking the group.
        **({"max.poll.records": str(MOST_READ)} if plan.workload == "pipeline" else {}),
    }
    if way.protocol == CONSUMER:
        settings = {name: each for name, each in settings.items() if name not in _GROUPS_OF_BROKERS}
    return Settings(settings, plan.client)


def share_settings(plan: Plan, *, bootstrap: str, client_id: str, group: str) -> Settings:
    """Return the settings of a share group member's consumer."""
    settings = {
        **_CONNECTION,
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
        # Few, as for librdkafka.
        "max.poll.records": "100",
        "max.poll.interval.ms": "30000",
        "request.timeout.ms": str(_REQUEST_MS),
    }
    return Settings(settings, plan.client)


def refuse_java_settings(plan: Plan) -> None:
    """Reject plan settings that Java clients do not have, as far as this is known without a JVM.

    Raises:
        PlanError: There is such a setting. The message is one sentence with the setting's key.
    """
    if plan.clients is not None:
        raise PlanError(
            f"your clients {plan.clients} have settings of librdkafka, which Kafka's Java client"
            " does not support: remove --clients or --client-kind"
        )
    if security_of_clients(plan):
        raise PlanError(
            f"{plan.named.path} has security settings of librdkafka, which Kafka's Java client"
            " does not support: remove --client-kind"
        )
    decides = {**owned(plan), **OWNED_TOO}
    for key in plan.client:
        if key in decides:
            raise PlanError(
                f"the plan's client.{key} cannot be set, because {decides[key]} determines it"
            )


def _patience(delivery_ms: int, linger_ms: int, request_ms: int) -> dict[str, str]:
    """Return valid timeouts: delivery timeout at least as long as request timeout plus linger."""
    return {
        "delivery.timeout.ms": str(delivery_ms),
        "request.timeout.ms": str(max(1, min(request_ms, delivery_ms - linger_ms))),
    }


def _bool(value: bool) -> str:  # noqa: FBT001 - it is the value itself
    return "true" if value else "false"
