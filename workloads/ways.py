"""Choose the protocol and the assignor of each consumer group.

All members of a group use the same way, i.e. a pair of protocol and assignor. The run's seed
shuffles the ways, and the groups use them in turn. So two groups use different ways, and with
another seed, a group uses another way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from results.record.group_ways import ASSIGNOR, CONSUMER, PROTOCOL, consumer_refusal
from results.record.plan import Plan

STRATEGY = "partition.assignment.strategy"
SESSION, HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"
_CLASSIC_ALONE = frozenset({STRATEGY, SESSION, HEARTBEAT, "group.protocol.type"})
"""Settings that librdkafka refuses for a client of the consumer protocol."""


@dataclass(frozen=True, slots=True)
class Way:
    """The way in which a group's members get partitions.

    Attributes:
        protocol: `classic` or `consumer`. In `classic`, a member assigns the partitions; in
            `consumer`, the broker assigns them.
        assignor: The assignor's name.
    """

    protocol: str
    assignor: str

    @property
    def settings(self) -> dict[str, str]:
        """The client settings of this way. `classic` is librdkafka's default, so it is left out."""
        if self.protocol == CONSUMER:
            return {PROTOCOL: CONSUMER, ASSIGNOR: self.assignor}
        return {STRATEGY: self.assignor}


CLASSIC_WAYS = tuple(Way("classic", each) for each in ("range", "roundrobin", "cooperative-sticky"))
CONSUMER_WAYS = tuple(Way(CONSUMER, each) for each in ("uniform", "range"))


def way_of(group: str, plan: Plan, told: Mapping[str, object]) -> Way:
    """Return the way of a group.

    Args:
        group: The group's id, which ends with its number.
        plan: The plan with the seed, and the features of its clients and brokers.
        told: The user's settings for the group's members. A way that contradicts these settings is
            left out.
    """
    random = Random(f"{plan.seed}/ways")
    by_brokers = random.choice(CONSUMER_WAYS)
    ways = [*CLASSIC_WAYS] if _may_be_classic(plan, told) else []
    # The user asked for the consumer protocol, and it is supported.
    if not ways or _may_be_consumer(plan, told):
        ways.append(by_brokers)
    random.shuffle(ways)
    number = group.rpartition("-")[2]
    return ways[int(number) % len(ways) if number.isdecimal() else 0]


def _may_be_classic(plan: Plan, told: Mapping[str, object]) -> bool:
    if PROTOCOL in told:
        return told[PROTOCOL] != CONSUMER
    return plan.group_protocol != CONSUMER and ASSIGNOR not in told


def _may_be_consumer(plan: Plan, told: Mapping[str, object]) -> bool:
    """Return whether brokers may assign partitions; False for systems other than Kafka."""
    if PROTOCOL in told or plan.group_protocol == "classic" or not plan.is_kafka:
        return False
    if plan.workload == "pipeline":
        # A member's epoch can rise unnoticed, and before 4.3 a commit needs the exact epoch.
        return False
    return _CLASSIC_ALONE.isdisjoint(told) and consumer_refusal(plan) is None
