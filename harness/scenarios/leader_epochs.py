"""What the stories about leader epochs share: their brokers, and what their steps wait for."""

from harness.scenarios.conditions import epochs_on_disk, logged
from harness.scenarios.protocol import Condition
from harness.scenarios.settings import OLD_FORMAT, STEADY_LEADERS
from results.record.plan import Plan
from results.record.terms import Rule

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
        system: Kafka's version.
        fetch_wait_ms: How long a fetch waits for news at the leader: so long a follower's high
            watermark may lag behind.
    """
    return {
        "system": system,
        "nodes": 3,
        "replication": 2,
        "min_insync": 1,
        "broker": {**settings(rule, fetch_wait_ms), "unclean.leader.election.enable": "true"},
    }


def clean_values(rule: Rule, system: str, *, fetch_wait_ms: int) -> dict[str, object]:
    """Return the plan of a story in which no setting excuses a loss; see `article_values`."""
    return {
        "system": system,
        "nodes": 4,
        "replication": 3,
        "min_insync": 2,
        "acks": "all",
        "broker": {**settings(rule, fetch_wait_ms), "unclean.leader.election.enable": "false"},
    }


def settings(rule: Rule, fetch_wait_ms: int) -> dict[str, str]:
    """Return the brokers' settings for a rule."""
    return {
        **STEADY_LEADERS,
        # A follower learns of its leader's high watermark with the response of its next fetch,
        # which waits so long for new records at the leader. (2.4.0 to 2.5.0 would answer at once.)
        "replica.fetch.wait.max.ms": str(fetch_wait_ms),
        # Must be longer than the wait, or followers would leave the ISR, or hang up.
        "replica.lag.time.max.ms": "60000",
        "replica.socket.timeout.ms": "60000",
        **(OLD_FORMAT if rule is Rule.HIGH_WATERMARK else {}),
        "zookeeper.session.timeout.ms": str(SESSION_MS),
    }


def epochs(rule: Rule, *nodes: str, are: tuple[tuple[int, int], ...]) -> tuple[Condition, ...]:
    """Wait for the epochs (number, start offset) of nodes; by the old rule nobody has any."""
    lines = are if rule is Rule.LEADER_EPOCH else ()
    return tuple(epochs_on_disk(node, *lines) for node in nodes)


def on_election(plan: Plan, epoch: int, start: int) -> tuple[tuple[int, int], ...]:
    """Return what a new leader writes into its file when it is elected, before any record.

    2.8.2 and 3.9.1 write the new epoch then, 0.11.0.3 and 1.1.1 with the first record.
    """
    return ((epoch, start),) if plan.version_numbers >= (2,) else ()


def follows(node: str, leader: str) -> Condition:
    """Wait until a broker has begun to fetch from a leader, or to try to."""
    broker = leader.removeprefix("n")
    return logged(
        node,
        rf"ReplicaFetcher.*(leaderId={broker}\b|Thread-0-{broker}\b)",
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
