"""Which protocol members of groups may speak with a run's brokers: classic, or consumer (KIP-848).

In the classic protocol a member deals the partitions; in the other one the broker does. Kafka has
the second for production since 4.0, librdkafka since 2.12.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from results.record.plan_parts import Budgets

GroupProtocol = Literal["mixed", "classic", "consumer"]
CONSUMER = "consumer"
PROTOCOL, ASSIGNOR = "group.protocol", "group.remote.assignor"
"""The client's settings that say which, and how brokers deal."""
FIRST_WITH_CONSUMER = (4, 0)
FIRST_CLIENT_WITH_CONSUMER = (2, 12)
FIRST_FENCING = (2, 5)
"""From here on coordinators of groups refuse positions of a member that was replaced (KIP-447)."""
_FEATURE = "group.version"
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_SESSION_S = 45
"""After so long brokers miss a member by default; those that Logquake configures do so earlier."""


class Asked(Protocol):
    """What of a plan decides it."""

    @property
    def is_reference(self) -> bool:
        """Whether the brokers are the reference cluster."""

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
    def broker(self) -> Mapping[str, str]:
        """The brokers' settings."""

    @property
    def client_version(self) -> str | None:
        """Of librdkafka; None: Logquake's own."""

    @property
    def client_kind(self) -> str | None:
        """Kafka's own clients, with their version."""

    @property
    def group_protocol(self) -> str:
        """Which protocol is asked for."""

    @property
    def client(self) -> Mapping[str, str]:
        """Settings of librdkafka."""

    @property
    def budgets(self) -> Budgets:
        """Limits of recovery."""

    @property
    def workload(self) -> str:
        """What clients do."""

    @property
    def inputs(self) -> Sequence[str]:
        """The topics that members of groups read."""


def pipeline_refusal(plan: Asked) -> str | None:
    """Return why there can be no pipeline, None if there can, or none is asked for."""
    if plan.workload == "pipeline" and not plan.inputs:
        return "topics: a pipeline reads all topics but the last, where it writes: it needs two"
    if plan.workload == "pipeline" and plan.is_kafka and plan.version_numbers < FIRST_FENCING:
        return (
            "workload: pipeline needs Kafka 2.5 or newer; before, a member that its group had"
            " replaced could still commit positions (KIP-447)"
        )
    return None


def protocol_refusal(plan: Asked) -> str | None:
    """Return why members cannot speak the protocol that is asked for, None if they can."""
    wanted = CONSUMER in {plan.group_protocol, plan.client.get(PROTOCOL)} or ASSIGNOR in plan.client
    refusal = consumer_refusal(plan) if wanted else None
    return refusal and f"group_protocol: {refusal}"


def consumer_refusal(plan: Asked) -> str | None:
    """Return why no group can speak the consumer protocol, in one sentence; None if it can."""
    library = tuple(map(int, plan.client_version.split("."))) if plan.client_version else None
    java = (plan.client_kind or "").partition(":")[2]
    refusals = {
        "the reference cluster has the classic protocol alone; take classic or mixed": (
            plan.is_reference
        ),
        f"librdkafka {plan.client_version} has no consumer protocol for production; take classic or"
        " mixed, or a client_version from 2.12.0 on": (
            library is not None and library < FIRST_CLIENT_WITH_CONSUMER
        ),
        f"Kafka's Java client {java} has no consumer protocol for production; take classic or"
        " mixed, or java:4.0.0 or later": (
            bool(java) and int(java.partition(".")[0]) < FIRST_WITH_CONSUMER[0]
        ),
        f"brokers that Logquake does not configure miss a member after {_SESSION_S} s by default;"
        " with consumer, set budgets.group_s to more than that": (
            not plan.is_kafka and plan.budgets.group_s <= _SESSION_S
        ),
        f"Kafka {plan.kafka_version} has no consumer protocol (KIP-848) for production; take"
        " classic or mixed, or Kafka 4.0 or later": (
            plan.is_kafka and plan.version_numbers < FIRST_WITH_CONSUMER
        ),
        f"the feature {_FEATURE} is off, and with it the consumer protocol; leave it out": (
            plan.features.get(_FEATURE, 1) < 1
        ),
        f"{_PROTOCOLS} leaves the consumer protocol out; take classic or mixed": (
            CONSUMER not in plan.broker.get(_PROTOCOLS, CONSUMER)
        ),
    }
    return next((sentence for sentence, holds in refusals.items() if holds), None)
