"""The plans and conditions that the scenarios about leader epochs share."""

from harness.scenarios.conditions import epochs_on_disk, logged
from harness.scenarios.protocol import Condition
from harness.scenarios.settings import OLD_FORMAT, STEADY_LEADERS
from results.record.plan import REFERENCE, Plan
from results.record.terms import Mode, Rule

SESSION_MS = 6_000
"""The session timeout: the default of Kafka up to 2.4. It is short, because scenarios wait until a
session ends. But it is long enough that no session ends only because a machine is slow."""
LONG_WAIT_MS = 20_000
"""How long a fetch waits at the leader. Even on a slow machine, a step takes less time."""
HUNG_SESSION_MS = 20_000
"""The session timeout of a broker that is paused while the controller must still see it as
alive."""
TRUNCATIONS = r"[Tt]runcat|[Bb]ased on .*leader epoch|[Oo]ut of range"
"""A regex of the log lines in which brokers report a truncation or its reason."""


def article_values(rule: Rule, system: str, *, fetch_wait_ms: int) -> dict[str, object]:
    """Return the plan's values for a scenario of an article: two replicas, and either may lead.

    Args:
        rule: The rule by which followers truncate.
        system: Kafka's version, or the reference cluster.
        fetch_wait_ms: How long a fetch waits at the leader for new records. For that long, the high
            watermark of a follower can be behind.
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
    """Return plan values for a scenario whose settings allow no loss; see `article_values`."""
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
    """Return the brokers' settings for a truncation rule."""
    if _is_reference(system):
        of_system = {"truncation": rule.value, "broker.session.timeout.ms": str(SESSION_MS)}
    else:
        of_system = {
            **(OLD_FORMAT if rule is Rule.HIGH_WATERMARK else {}),
            "zookeeper.session.timeout.ms": str(SESSION_MS),
        }
    return {
        **STEADY_LEADERS,
        # A follower learns the leader's high watermark from the response to its next fetch. This
        # is how long that fetch waits at the leader for new records. (2.4.0 to 2.5.0 would answer
        # at once.)
        "replica.fetch.wait.max.ms": str(fetch_wait_ms),
        # Longer than the wait; otherwise followers leave the ISR, or close the connection.
        "replica.lag.time.max.ms": "60000",
        "replica.socket.timeout.ms": "60000",
        **of_system,
    }


def taught(rule: Rule) -> Rule:
    """Return the truncation rule that the scenario's texts describe.

    `LEADER_EPOCH_V0` counts as `LEADER_EPOCH`, because the two rules differ only after two quick
    leader changes (KIP-279). No scenario has such changes.
    """
    return Rule.HIGH_WATERMARK if rule is Rule.HIGH_WATERMARK else Rule.LEADER_EPOCH


def keeps_epochs(plan: Plan, rule: Rule) -> bool:
    """Return whether records contain leader epochs, which depends on the truncation rule.

    In Kafka, one setting decides both the message format and the rule.
    """
    return plan.is_reference or rule is not Rule.HIGH_WATERMARK


def of_epochs(plan: Plan, rule: Rule) -> tuple[str, ...]:
    """Return the anomaly `incomplete-leader` if records contain leader epochs; else nothing."""
    return ("incomplete-leader",) if keeps_epochs(plan, rule) else ()


def epochs(
    plan: Plan, rule: Rule, *nodes: str, are: tuple[tuple[int, int], ...]
) -> tuple[Condition, ...]:
    """Wait until nodes have these epochs: pairs (number, start offset).

    If the nodes do not store epochs, wait until they have no such pairs.
    """
    lines = are if keeps_epochs(plan, rule) else ()
    return tuple(epochs_on_disk(node, *lines) for node in nodes)


def raised_by_isr(plan: Plan) -> int:
    """Return by how much the leader epoch grows when a replica leaves the ISR: 1 or 0.

    With ZooKeeper, the controller raises the epoch when the ISR changes. In KRaft only an election
    raises the epoch.
    """
    return 1 if plan.mode is Mode.ZOOKEEPER else 0


def leads_alone(plan: Plan, node: str) -> tuple[Condition, ...]:
    """If an ISR change raises the epoch, wait until the first leader knows that it is alone."""
    return (begins_epoch(node, 1),) if raised_by_isr(plan) else ()


def on_election(plan: Plan, epoch: int, start: int) -> tuple[tuple[int, int], ...]:
    """Return the epoch entry that a new leader writes at its election, before the first record.

    Kafka 2.8.2 and 3.9.1 write the new epoch at the election. Kafka 0.11.0.3 and 1.1.1 write the
    new epoch with the first record.
    """
    return ((epoch, start),) if plan.version_numbers >= (2,) else ()


def follows(node: str, leader: str, plan: Plan | None = None) -> Condition:
    """Wait until a broker fetches from a leader, or tries to.

    Args:
        node: The follower.
        leader: The leader.
        plan: The run's plan. It matters because the reference cluster and Kafka log different
            lines.
    """
    broker = leader.removeprefix("n")
    own = rf"|Follower .* Current leader is {broker}\." if plan and plan.is_reference else ""
    return logged(
        node,
        rf"ReplicaFetcher.*(leaderId={broker}\b|Thread-0-{broker}\b){own}",
        what=f"{node} tries to fetch from {leader}",
    )


def begins_epoch(node: str, epoch: int) -> Condition:
    """Wait until a broker knows that it leads in a new epoch.

    Other brokers may know this earlier than the leader. Until the leader knows it, a message would
    still get the old epoch.
    """
    return logged(
        node,
        rf"starts at leader epoch {epoch}\b|starts at Leader Epoch {epoch}\b",
        what=f"{node} leads in epoch {epoch}, and knows it",
    )


def _roster(system: str, *, holders: int) -> dict[str, object]:
    """Return the number of nodes: one for each replica, and one more broker that gets no fault.

    With ZooKeeper, that broker is the controller. In KRaft, that broker serves clients while no
    other broker runs. A dedicated controller serves no clients.
    """
    alone: dict[str, object] = {"controllers": 1} if _is_reference(system) else {}
    return {"nodes": holders + 1, **alone}


def _is_reference(system: str) -> bool:
    return system.partition(":")[0] == REFERENCE
