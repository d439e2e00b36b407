"""What the stories about leader epochs share: their brokers, and what their steps wait for."""

from harness.scenarios.conditions import epochs_on_disk, logged
from harness.scenarios.protocol import Condition
from harness.scenarios.settings import OLD_FORMAT, STEADY_LEADERS
from results.record.plan import REFERENCE, Plan
from results.record.terms import Mode, Rule

SESSION_MS = 6_000
"""Kafka's default up to 2.4. Stories wait for the end of sessions; a busy machine must not end them
by itself."""
LONG_WAIT_MS = 20_000
"""A window that no machine is too busy for."""
HUNG_SESSION_MS = 20_000
"""Of a broker that is paused, and must be thought to be alive meanwhile."""
TRUNCATIONS = r"[Tt]runcat|[Bb]ased on .*leader epoch|[Oo]ut of range"
"""Lines in which brokers say what they truncate, and why; or why not."""


def article_values(rule: Rule, system: str, *, fetch_wait_ms: int) -> dict[str, object]:
    """Return the plan of an article's story: two replicas, and any of them may lead.

    Args:
        rule: By which followers truncate.
        system: Kafka's version, or the reference cluster.
        fetch_wait_ms: How long a fetch waits for news at the leader: so long a follower's high
            watermark may lag behind.
    """
    return {
        "system": system,
        **_roster(system, holders=2),
        "replication": 2,
        "min_insync": 1,
        "broker": {
            **settings(rule, system, fetch_wait_ms),
            "unclean.leader.election.enable": "true",
        },
    }


def clean_values(rule: Rule, system: str, *, fetch_wait_ms: int) -> dict[str, object]:
    """Return the plan of a story in which no setting excuses a loss; see `article_values`."""
    return {
        "system": system,
        **_roster(system, holders=3),
        "replication": 3,
        "min_insync": 2,
        "acks": "all",
        "broker": {
            **settings(rule, system, fetch_wait_ms),
            "unclean.leader.election.enable": "false",
        },
    }


def settings(rule: Rule, system: str, fetch_wait_ms: int) -> dict[str, str]:
    """Return the brokers' settings for a rule."""
    if _is_reference(system):
        of_system = {"truncation": rule.value, "broker.session.timeout.ms": str(SESSION_MS)}
    else:
        of_system = {
            **(OLD_FORMAT if rule is Rule.HIGH_WATERMARK else {}),
            "zookeeper.session.timeout.ms": str(SESSION_MS),
        }
    return {
        **STEADY_LEADERS,
        # A follower learns of its leader's high watermark with the response of its next fetch,
        # which waits so long for new records at the leader. (2.4.0 to 2.5.0 would answer at once.)
        "replica.fetch.wait.max.ms": str(fetch_wait_ms),
        # Must be longer than the wait, or followers would leave the ISR, or hang up.
        "replica.lag.time.max.ms": "60000",
        "replica.socket.timeout.ms": "60000",
        **of_system,
    }


def taught(rule: Rule) -> Rule:
    """Return the rule as stories tell it apart: the first version of leader epochs is one of them.

    What KIP-279 mended takes two quick changes of leaders to show, and no story has them.
    """
    return Rule.HIGH_WATERMARK if rule is Rule.HIGH_WATERMARK else Rule.LEADER_EPOCH


def keeps_epochs(plan: Plan, rule: Rule) -> bool:
    """Tell whether records and replicas have epochs: Kafka has one setting for format and rule."""
    return plan.is_reference or rule is not Rule.HIGH_WATERMARK


def of_epochs(plan: Plan, rule: Rule) -> tuple[str, ...]:
    """Return the anomaly of a leader without all that was committed, where epochs tell of it."""
    return ("incomplete-leader",) if keeps_epochs(plan, rule) else ()


def epochs(
    plan: Plan, rule: Rule, *nodes: str, are: tuple[tuple[int, int], ...]
) -> tuple[Condition, ...]:
    """Wait for the epochs (number, start offset) of nodes that keep any."""
    lines = are if keeps_epochs(plan, rule) else ()
    return tuple(epochs_on_disk(node, *lines) for node in nodes)


def raised_by_isr(plan: Plan) -> int:
    """Return by how much the leader epoch grows when a replica is taken out of the ISR.

    With ZooKeeper the controller raises it then, too; in KRaft only elections do.
    """
    return 1 if plan.mode is Mode.ZOOKEEPER else 0


def leads_alone(plan: Plan, node: str) -> tuple[Condition, ...]:
    """Wait until the first leader knows that it is alone in the ISR, if an epoch tells it."""
    return (begins_epoch(node, 1),) if raised_by_isr(plan) else ()


def on_election(plan: Plan, epoch: int, start: int) -> tuple[tuple[int, int], ...]:
    """Return what a new leader writes into its file when it is elected, before any record.

    2.8.2 and 3.9.1 write the new epoch then, 0.11.0.3 and 1.1.1 with the first record.
    """
    return ((epoch, start),) if plan.version_numbers >= (2,) else ()


def follows(node: str, leader: str, plan: Plan | None = None) -> Condition:
    """Wait until a broker has begun to fetch from a leader, or to try to.

    Args:
        node: The follower.
        leader: Whom it fetches from.
        plan: Of the run; the reference cluster's fetchers begin with the line of their partition.
    """
    broker = leader.removeprefix("n")
    own = rf"|Follower .* Current leader is {broker}\." if plan and plan.is_reference else ""
    return logged(
        node,
        rf"ReplicaFetcher.*(leaderId={broker}\b|Thread-0-{broker}\b){own}",
        what=f"{node} tries to fetch from {leader}",
    )


def begins_epoch(node: str, epoch: int) -> Condition:
    """Wait until a broker has taken over a new epoch, in which it leads.

    Others may know it earlier than the leader itself, and what it is sent meanwhile would still be
    written in the old one.
    """
    return logged(
        node,
        rf"starts at leader epoch {epoch}\b|starts at Leader Epoch {epoch}\b",
        what=f"{node} leads in epoch {epoch}, and knows it",
    )


def _roster(system: str, *, holders: int) -> dict[str, object]:
    """Return who there is: those with replicas, and one more broker, which is never hit.

    With ZooKeeper that one is the controller. In KRaft it answers when no other broker does: a
    controller of its own knows who leads, and tells no client.
    """
    alone: dict[str, object] = {"controllers": 1} if _is_reference(system) else {}
    return {"nodes": holders + 1, **alone}


def _is_reference(system: str) -> bool:
    return system.partition(":")[0] == REFERENCE
