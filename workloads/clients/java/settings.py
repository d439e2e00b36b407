"""The settings of Kafka's own clients, of a plan.

Names and defaults: https://kafka.apache.org/documentation/#producerconfigs and #consumerconfigs.
They mean the same as those of `workloads/clients/settings.py` wherever librdkafka has them.
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
"""Settings that a user may not override beside those that librdkafka has, too."""
_REQUEST_MS = 10_000
"""So that what is in flight to a paused broker is tried elsewhere within a delivery timeout."""
_BUFFER_BYTES = 64 << 20
_BLOCK_MS = 2000
"""How long `send` may wait for room: sends behind it wait as long."""
_CONNECTION = {
    "reconnect.backoff.ms": "100",
    "reconnect.backoff.max.ms": "1000",
    # A paused leader does not answer, and so cannot say that it leads no more: ask the others.
    "metadata.max.age.ms": "2000",
    # Its telemetry would push metrics to brokers that never asked.
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
"""Those of members, by librdkafka's names."""
_GROUPS_OF_BROKERS = ("session.timeout.ms", "heartbeat.interval.ms")
"""The broker decides these of groups that it assigns itself (KIP-848); a client refuses them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one client.

    Attributes:
        plans: What the plan decides.
        own: What the user wants; a client takes those that its kind knows.
    """

    plans: Mapping[str, str]
    own: Mapping[str, str]


def producer_settings(plan: Plan, *, bootstrap: str, worker: int) -> Settings:
    """Return the settings of a worker's producer; `worker` decides a mixed compression."""
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

    A delivery ends before its transaction does, and a request well before.
    """
    timeout_ms = round(plan.transaction_timeout_s * 1000)
    delivery_ms = min(timeout_ms, round(plan.delivery_timeout_s * 1000))
    patience_ms = max(1000, timeout_ms // 3)
    if plan.goes_on:  # A request is given up, and tried again, within a delivery.
        patience_ms = max(1, delivery_ms // 2)
    settings = {
        **producer_settings(plan, bootstrap=bootstrap, worker=thread).plans,
        "client.id": f"thread-{thread}",
        "transactional.id": transactional_id(thread, plan),
        "transaction.timeout.ms": str(timeout_ms),
        # A request to a paused broker is tried elsewhere before the transaction's time is over.
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
    """Return the settings of one process's consumer."""
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
    """Return the group in whose name readers commit what their transactions have read."""
    return f"{plan.prefix or 'logquake-'}{plan.name}"


def member_settings(
    plan: Plan,
    *,
    bootstrap: str,
    client_id: str,
    group: str,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> Settings:
    """Return the settings of a consumer that belongs to a group."""
    way = way_of(group, plan, plan.client)
    of_way = {name: _ASSIGNORS.get(value, value) for name, value in way.settings.items()}
    if way.protocol == CONSUMER:  # Its assignors are the brokers', by their own names.
        of_way = way.settings
    reader = consumer_settings(plan, bootstrap=bootstrap, client_id=client_id, isolation=isolation)
    settings = {
        **reader.plans,
        **of_way,
        "group.id": group,
        # Where the group has committed nothing yet it begins at the beginning.
        "auto.offset.reset": "earliest",
        # The shortest that brokers take by default: a crashed member must be missed within a run.
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "max.poll.interval.ms": "10000",
        # What the client has beside them it would hand out without asking its group.
        **({"max.poll.records": str(MOST_READ)} if plan.workload == "pipeline" else {}),
    }
    if way.protocol == CONSUMER:
        settings = {name: each for name, each in settings.items() if name not in _GROUPS_OF_BROKERS}
    return Settings(settings, plan.client)


def share_settings(plan: Plan, *, bootstrap: str, client_id: str, group: str) -> Settings:
    """Return the settings of a consumer that belongs to a share group."""
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
    """Refuse what these clients cannot be told, as far as that can be said without them.

    Raises:
        PlanError: One sentence with the key.
    """
    if plan.clients is not None:
        raise PlanError(
            f"your clients {plan.clients} are settings of librdkafka, which Kafka's Java client"
            " does not know: leave --clients or --client-kind out"
        )
    if security_of_clients(plan):
        raise PlanError(
            f"{plan.named.path} has settings of security of librdkafka, which Kafka's Java client"
            " does not know: leave --client-kind out"
        )
    decides = {**owned(plan), **OWNED_TOO}
    for key in plan.client:
        if key in decides:
            raise PlanError(f"the plan's client.{key} cannot be set: {decides[key]} decides it")


def _patience(delivery_ms: int, linger_ms: int, request_ms: int) -> dict[str, str]:
    """Return timeouts as the client wants them: a request and the linger within a delivery."""
    return {
        "delivery.timeout.ms": str(delivery_ms),
        "request.timeout.ms": str(max(1, min(request_ms, delivery_ms - linger_ms))),
    }


def _bool(value: bool) -> str:  # noqa: FBT001 - it is the value itself
    return "true" if value else "false"
