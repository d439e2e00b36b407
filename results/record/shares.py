"""Share groups (KIP-932): which plans may have them, and the settings of brokers for them.

Kafka has them for production since 4.2, and a delivery limit of each group since 4.3 (KIP-1240);
librdkafka 2.16 has them as a preview. A record is locked for the member that acquired it. One that
was delivered `limit` times, and never accepted, is given up.
"""

from collections.abc import Mapping
from typing import Protocol

from results.record.loads import Load
from results.record.tuning import number_of

OF_ONE_GROUP = ("pipeline", "shares")
"""Workloads whose members are all of one group."""
FIRST_JAVA_WITH_SHARES = (4, 2)
"""Of Kafka's Java client."""
_FIRST_WITH_SHARES = (4, 3)
_FIRST_CLIENT_WITH_SHARES = (2, 16)
_FEATURE = "share.version"
LOCK = "group.share.record.lock.duration.ms"
_SESSION = "group.share.session.timeout.ms"
_LIMIT = "group.share.delivery.count.limit"
_MOST = "group.share.max.delivery.count.limit"
OF_BROKERS: Mapping[str, str] = {
    # Kafka's own least are 15 s for a lock, and 45 s for a session: longer than faults last here.
    "group.share.min.record.lock.duration.ms": "1000",
    LOCK: "6000",
    "group.share.min.session.timeout.ms": "6000",
    _SESSION: "6000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "2000",
    _MOST: "25",
}
"""Settings of brokers: locks and sessions that end within a run, and a high limit."""
REQUEST_S = 10.0
"""So long a member waits for an answer before it closes the connection; no user can set it."""
STATE_COPIES = "share.coordinator.state.topic.replication.factor"


class Asked(Protocol):
    """What of a plan decides it."""

    @property
    def workload(self) -> str:
        """What its clients do."""

    @property
    def load(self) -> Load:
        """How hard its clients work."""

    @property
    def is_kafka(self) -> bool:
        """Whether Logquake starts and configures Apache Kafka."""

    @property
    def kafka_version(self) -> str:
        """Its version."""

    @property
    def version_numbers(self) -> tuple[int, ...]:
        """The numbers of that."""

    @property
    def features(self) -> Mapping[str, int]:
        """Levels of KRaft's features."""

    @property
    def broker(self) -> dict[str, str]:
        """The brokers' settings."""

    @property
    def client_version(self) -> str | None:
        """Of librdkafka; None: Logquake's own."""

    @property
    def client_kind(self) -> str | None:
        """Kafka's own clients, with their version."""


def has_shares(plan: Asked) -> bool:
    """Tell whether some clients are members of a share group."""
    return plan.workload == "shares"


def shares_refusal(plan: Asked) -> str | None:
    """Return why the share group of a run cannot be had, in one sentence; None if it can."""
    if not has_shares(plan):
        return None
    library = tuple(map(int, plan.client_version.split("."))) if plan.client_version else None
    java = (plan.client_kind or "").partition(":")[2]
    refusals = {
        "shares needs Apache Kafka that Logquake starts, which it tells how long a lock lasts; take"
        " groups": not plan.is_kafka,
        f"Kafka {plan.kafka_version} has no share groups with a delivery limit of their own"
        " (KIP-932, KIP-1240); take Kafka 4.3 or later": (
            plan.is_kafka and plan.version_numbers < _FIRST_WITH_SHARES
        ),
        f"the feature {_FEATURE} is off, and with it share groups; leave it out": (
            plan.features.get(_FEATURE, 1) < 1
        ),
        f"librdkafka {plan.client_version} has no share consumer; take a client_version from 2.16.0"
        " on": library is not None and library < _FIRST_CLIENT_WITH_SHARES,
        f"Kafka's Java client {java} has no share consumer for production; take java:4.2.0 or"
        " later": (bool(java) and tuple(map(int, java.split("."))) < FIRST_JAVA_WITH_SHARES),
        "members acknowledge record by record, and would not come to an end under heavy load; leave"
        " load out": plan.load is Load.HEAVY,
    }
    found = next((sentence for sentence, holds in refusals.items() if holds), None)
    return found and f"workload: {found}"


def group_settings(plan: Asked) -> dict[str, str]:
    """Return the settings of the group: it begins where each partition begins."""
    return {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": str(limit(plan))}


def limit(plan: Asked) -> int:
    """Return after how many deliveries a record is given up: the user's, or the most there is."""
    settings = {**OF_BROKERS, **plan.broker}
    return number_of(settings.get(_LIMIT, settings[_MOST])) or 1


def hold_s(plan: Asked) -> float:
    """Return how long a member that is not heard of has a record at least, in seconds.

    Its lock or its session runs out, or it gives the request up; all of them release the record.
    """
    settings = {**OF_BROKERS, **plan.broker}
    lock_s, session_s = ((number_of(settings[name]) or 1) / 1000 for name in (LOCK, _SESSION))
    return min(lock_s, session_s, REQUEST_S)
