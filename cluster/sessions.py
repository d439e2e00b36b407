"""For how long brokers may hide that one of them is gone, or out of sync. Pure, from the plan."""

from collections.abc import Mapping, Sequence

from results.record.plan import Plan

LAG_TIME = "replica.lag.time.max.ms"
SESSION_TIMEOUT_OF_KRAFT = "broker.session.timeout.ms"
SESSION_TIMEOUT = "zookeeper.session.timeout.ms"
OURS = {LAG_TIME: "4000", SESSION_TIMEOUT_OF_KRAFT: "3000", SESSION_TIMEOUT: "3000"}
"""What our own brokers are set to, where the plan says nothing: faults last seconds."""
OUR_SESSION_S = int(OURS[SESSION_TIMEOUT]) / 1000
KAFKAS = {LAG_TIME: "30000", SESSION_TIMEOUT_OF_KRAFT: "9000"}
"""What others take, as far as anybody knows: Kafka's defaults."""
REPORTED_S = 0.5
"""How long after the end of a session, or of a time to lag, brokers that answer all report it."""


def hidden_s(plan: Plan) -> float:
    """Return for how long it may be hidden that a broker is gone, or out of sync, in seconds.

    A broker that is gone counts as alive until its session ends. A follower that fetches no more
    counts as in sync for `replica.lag.time.max.ms`, and for half of it more, which is how often its
    leader looks. After so long, what brokers report of themselves is newer than what was done.
    """
    return max(_longest_s(plan, LAG_TIME) * 1.5, session_s(plan)) + REPORTED_S


def session_s(plan: Plan) -> float:
    """Return for how long a broker that is gone counts as alive, in seconds."""
    return _longest_s(plan, SESSION_TIMEOUT if plan.kept_outside else SESSION_TIMEOUT_OF_KRAFT)


def _longest_s(plan: Plan, setting: str) -> float:
    """Return the longest time that a plan has a node set to."""
    default = (KAFKAS if plan.named.is_strange else OURS)[setting]
    nodes: Sequence[Mapping[str, str]] = ({}, *plan.node.values())  # One that has none, too.
    said = [{**plan.broker, **node}.get(setting, default) for node in nodes]
    # Brokers refuse what is no number, so that nothing is ever played with it.
    return max(int(text) if text.strip().isdecimal() else int(default) for text in said) / 1000
