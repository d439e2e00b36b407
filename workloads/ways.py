"""How the members of each group of a run are dealt partitions: by which protocol and assignor.

All members of a group do it in the same way. The ways of a run are shuffled by its seed, and its
groups take turns with them: so two groups differ, and the next seed has others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from results.record.group_ways import ASSIGNOR, CONSUMER, PROTOCOL, consumer_refusal
from results.record.plan import Plan

STRATEGY = "partition.assignment.strategy"
SESSION, HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"
_CLASSIC_ALONE = frozenset({STRATEGY, SESSION, HEARTBEAT, "group.protocol.type"})
"""librdkafka refuses a client of the consumer protocol that names one of these."""


@dataclass(frozen=True, slots=True)
class Way:
    """How partitions are dealt.

    Attributes:
        protocol: `classic`, where a member deals them, or `consumer`, where the broker does.
        assignor: By which rule.
    """

    protocol: str
    assignor: str

    @property
    def settings(self) -> dict[str, str]:
        """What a client is told of it; of `classic` librdkafka need not be told."""
        if self.protocol == CONSUMER:
            return {PROTOCOL: CONSUMER, ASSIGNOR: self.assignor}
        return {STRATEGY: self.assignor}


CLASSIC_WAYS = tuple(Way("classic", each) for each in ("range", "roundrobin", "cooperative-sticky"))
CONSUMER_WAYS = tuple(Way(CONSUMER, each) for each in ("uniform", "range"))


def way_of(group: str, plan: Plan, told: Mapping[str, object]) -> Way:
    """Return the way of a group.

    Args:
        group: Its id, which ends with its number.
        plan: Its seed, and what its clients and brokers can do.
        told: What the user decides of its members' settings: a way that this rules out is not
            drawn.
    """
    random = Random(f"{plan.seed}/ways")
    by_brokers = random.choice(CONSUMER_WAYS)
    ways = [*CLASSIC_WAYS] if _may_be_classic(plan, told) else []
    if not ways or _may_be_consumer(plan, told):  # The former was asked for, and not refused.
        ways.append(by_brokers)
    random.shuffle(ways)
    number = group.rpartition("-")[2]
    return ways[int(number) % len(ways) if number.isdecimal() else 0]


def _may_be_classic(plan: Plan, told: Mapping[str, object]) -> bool:
    if PROTOCOL in told:
        return told[PROTOCOL] != CONSUMER
    return plan.group_protocol != CONSUMER and ASSIGNOR not in told


def _may_be_consumer(plan: Plan, told: Mapping[str, object]) -> bool:
    """Tell whether groups may also do it by their brokers: of systems that nobody knows, none."""
    if PROTOCOL in told or plan.group_protocol == "classic" or not plan.is_kafka:
        return False
    if plan.workload == "pipeline":
        # A member's epoch rises without its knowing, and before 4.3 a commit needs the very epoch.
        return False
    return _CLASSIC_ALONE.isdisjoint(told) and consumer_refusal(plan) is None
