"""Decide which group protocols a run's members may use: `classic`, or `consumer` (KIP-848).

In the classic protocol, a member assigns the partitions. In the consumer protocol, the broker
assigns the partitions. Kafka supports the consumer protocol for production since 4.0, librdkafka
since 2.12.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from results.record.plan_parts import Budgets

GroupProtocol = Literal["mixed", "classic", "consumer"]
CONSUMER = "consumer"
PROTOCOL, ASSIGNOR = "group.protocol", "group.remote.assignor"
"""Client settings: one selects the protocol, the other selects the broker's assignor."""
FIRST_WITH_CONSUMER = (4, 0)
FIRST_CLIENT_WITH_CONSUMER = (2, 12)
FIRST_FENCING = (2, 5)
"""The first Kafka version in which group coordinators refuse a replaced member's commits
(KIP-447)."""
_FEATURE = "group.version"
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_SESSION_S = 45
"""Default session timeout, after which brokers remove a silent member. Brokers that Logquake
configures use a shorter timeout."""


class Asked(Protocol):
    """The fields of a plan that decide which protocols are possible."""

    @property
    def is_reference(self) -> bool:
        """Whether the brokers are the reference cluster."""

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
    def broker(self) -> Mapping[str, str]:
        """The brokers' settings."""

    @property
    def client_version(self) -> str | None:
        """Version of librdkafka; None means the version that Logquake installs."""

    @property
    def client_kind(self) -> str | None:
        """Kafka's own Java client and the client's version, if the workload uses this client."""

    @property
    def group_protocol(self) -> str:
        """The requested group protocol."""

    @property
    def client(self) -> Mapping[str, str]:
        """Settings of librdkafka."""

    @property
    def budgets(self) -> Budgets:
        """Time limits of recovery."""

    @property
    def workload(self) -> str:
        """Name of the workload."""

    @property
    def inputs(self) -> Sequence[str]:
        """The topics that members of groups read."""


def pipeline_refusal(plan: Asked) -> str | None:
    """Return why the requested workload `pipeline` cannot run; None if nothing prevents it."""
    if plan.workload == "pipeline" and not plan.inputs:
        return (
            "topics: the workload pipeline needs two topics or more, because it writes to the"
            " last topic and reads all others"
        )
    if plan.workload == "pipeline" and plan.is_kafka and plan.version_numbers < FIRST_FENCING:
        return (
            "workload: pipeline needs Kafka 2.5 or newer; in older versions, a replaced member of"
            " a group could still commit offsets (KIP-447)"
        )
    return None


def protocol_refusal(plan: Asked) -> str | None:
    """Return why members cannot use the requested group protocol; None if they can."""
    wanted = CONSUMER in {plan.group_protocol, plan.client.get(PROTOCOL)} or ASSIGNOR in plan.client
    refusal = consumer_refusal(plan) if wanted else None
    return refusal and f"group_protocol: {refusal}"


def consumer_refusal(plan: Asked) -> str | None:
    """Return one sentence: why no group can use the consumer protocol; None if groups can."""
    library = tuple(map(int, plan.client_version.split("."))) if plan.client_version else None
    java = (plan.client_kind or "").partition(":")[2]
    refusals = {
        "the reference cluster supports only the classic protocol; use classic or mixed": (
            plan.is_reference
        ),
        f"librdkafka {plan.client_version} does not support the consumer protocol in production;"
        " use classic or mixed, or client_version 2.12.0 or later": (
            library is not None and library < FIRST_CLIENT_WITH_CONSUMER
        ),
        f"Kafka's Java client {java} does not support the consumer protocol in production; use"
        " classic or mixed, or java:4.0.0 or later": (
            bool(java) and int(java.partition(".")[0]) < FIRST_WITH_CONSUMER[0]
        ),
        f"brokers that Logquake does not configure detect a lost member only after {_SESSION_S} s"
        f" by default; with consumer, set budgets.group_s to more than {_SESSION_S} s": (
            not plan.is_kafka and plan.budgets.group_s <= _SESSION_S
        ),
        f"Kafka {plan.kafka_version} does not support the consumer protocol (KIP-848) in"
        " production; use classic or mixed, or Kafka 4.0 or later": (
            plan.is_kafka and plan.version_numbers < FIRST_WITH_CONSUMER
        ),
        f"the feature {_FEATURE} is off, so the consumer protocol is off too; remove the feature"
        " from the plan": plan.features.get(_FEATURE, 1) < 1,
        f"{_PROTOCOLS} does not list the consumer protocol; use classic or mixed": (
            CONSUMER not in plan.broker.get(_PROTOCOLS, CONSUMER)
        ),
    }
    return next((sentence for sentence, holds in refusals.items() if holds), None)
