"""Share groups (KIP-932): the plans that can have them, and the broker settings for them.

Kafka supports share groups for production since 4.2, and a delivery limit for each group since 4.3
(KIP-1240). librdkafka 2.16 supports them as a preview. A record is locked for the member that
acquired it. If a record was delivered `limit` times and never accepted, it is not delivered again.
"""

from collections.abc import Mapping
from typing import Protocol

from results.record.loads import Load
from results.record.tuning import number_of

OF_ONE_GROUP = ("pipeline", "shares")
"""Workloads in which all members belong to one group."""
FIRST_JAVA_WITH_SHARES = (4, 2)
"""First version of Kafka's Java client with share groups."""
_FIRST_WITH_SHARES = (4, 3)
_FIRST_CLIENT_WITH_SHARES = (2, 16)
_FEATURE = "share.version"
LOCK = "group.share.record.lock.duration.ms"
_SESSION = "group.share.session.timeout.ms"
_LIMIT = "group.share.delivery.count.limit"
_MOST = "group.share.max.delivery.count.limit"
OF_BROKERS: Mapping[str, str] = {
    # Kafka's minimums, 15 s for a lock and 45 s for a session, are longer than faults last here.
    "group.share.min.record.lock.duration.ms": "1000",
    LOCK: "6000",
    "group.share.min.session.timeout.ms": "6000",
    _SESSION: "6000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "2000",
    _MOST: "25",
}
"""Broker settings: locks and sessions that expire within a run, and a high delivery limit."""
REQUEST_S = 10.0
"""The time that a member waits for a response before it closes the connection. It is fixed."""
STATE_COPIES = "share.coordinator.state.topic.replication.factor"


class Asked(Protocol):
    """The fields of a plan that decide whether it can have a share group."""

    @property
    def workload(self) -> str:
        """Name of the workload."""

    @property
    def load(self) -> Load:
        """The load of the clients."""

    @property
    def is_kafka(self) -> bool:
        """Whether Logquake starts and configures Apache Kafka."""

    @property
    def kafka_version(self) -> str:
        """Version of Kafka."""

    @property
    def version_numbers(self) -> tuple[int, ...]:
        """Version of Kafka as numbers."""

    @property
    def features(self) -> Mapping[str, int]:
        """Levels of KRaft's features."""

    @property
    def broker(self) -> dict[str, str]:
        """The brokers' settings."""

    @property
    def client_version(self) -> str | None:
        """Version of librdkafka; None means the version that Logquake installs."""

    @property
    def client_kind(self) -> str | None:
        """Kafka's own Java client and the client's version, if the workload uses this client."""


def has_shares(plan: Asked) -> bool:
    """Return whether the plan's clients are members of a share group."""
    return plan.workload == "shares"


def shares_refusal(plan: Asked) -> str | None:
    """Return one sentence: why a plan cannot have a share group; None if it can have one."""
    if not has_shares(plan):
        return None
    library = tuple(map(int, plan.client_version.split("."))) if plan.client_version else None
    java = (plan.client_kind or "").partition(":")[2]
    refusals = {
        "shares needs an Apache Kafka that Logquake starts, because Logquake must set the lock"
        " duration; use groups": not plan.is_kafka,
        f"Kafka {plan.kafka_version} does not support share groups with their own delivery limit"
        " (KIP-932, KIP-1240); use Kafka 4.3 or later": (
            plan.is_kafka and plan.version_numbers < _FIRST_WITH_SHARES
        ),
        f"the feature {_FEATURE} is off, so share groups are off too; remove the feature from the"
        " plan": plan.features.get(_FEATURE, 1) < 1,
        f"librdkafka {plan.client_version} has no share consumer; use client_version 2.16.0 or"
        " later": library is not None and library < _FIRST_CLIENT_WITH_SHARES,
        f"Kafka's Java client {java} does not support share consumers in production; use"
        " java:4.2.0 or later": (
            bool(java) and tuple(map(int, java.split("."))) < FIRST_JAVA_WITH_SHARES
        ),
        "members acknowledge each record separately, so they could not finish under heavy load;"
        " remove load": plan.load is Load.HEAVY,
    }
    found = next((sentence for sentence, holds in refusals.items() if holds), None)
    return found and f"workload: {found}"


def group_settings(plan: Asked) -> dict[str, str]:
    """Return the share group's settings: start from the earliest offset, and limit deliveries."""
    return {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": str(limit(plan))}


def limit(plan: Asked) -> int:
    """Return the number of deliveries after which a record is not delivered again.

    The number is the user's setting, or else the maximum.
    """
    settings = {**OF_BROKERS, **plan.broker}
    return number_of(settings.get(_LIMIT, settings[_MOST])) or 1


def hold_s(plan: Asked) -> float:
    """Return the shortest time, in seconds, for which a silent member keeps a record locked.

    The record is released when its lock expires, when the session expires, or when the member gives
    up its request.
    """
    settings = {**OF_BROKERS, **plan.broker}
    lock_s, session_s = ((number_of(settings[name]) or 1) / 1000 for name in (LOCK, _SESSION))
    return min(lock_s, session_s, REQUEST_S)
