"""Computes from the plan how long the cluster needs to notice that a broker ended or lags."""

from collections.abc import Mapping, Sequence

from results.record.plan import Plan
from results.record.tuning import KAFKAS_LAG_MS, LAG_TIME, OUR_LAG_MS

SESSION_TIMEOUT_OF_KRAFT = "broker.session.timeout.ms"
SESSION_TIMEOUT = "zookeeper.session.timeout.ms"
OURS = {LAG_TIME: str(OUR_LAG_MS), SESSION_TIMEOUT_OF_KRAFT: "3000", SESSION_TIMEOUT: "3000"}
"""The settings of the brokers that Logquake starts. The plan can change them.

The timeouts are short, because faults last only seconds.
"""
OUR_SESSION_S = int(OURS[SESSION_TIMEOUT]) / 1000
KAFKAS = {LAG_TIME: str(KAFKAS_LAG_MS), SESSION_TIMEOUT_OF_KRAFT: "9000"}
"""Kafka's defaults, which are assumed for brokers that Logquake does not configure."""
REPORTED_S = 0.5
"""When the session or lag timeout of a broker ends, all brokers that answer report this within this
many seconds."""


def hidden_s(plan: Plan) -> float:
    """Return the longest time, in seconds, until the cluster notices an ended or lagging broker.

    An ended broker counts as alive until its session ends. A follower that stopped fetching counts
    as in sync for up to 1.5 times `replica.lag.time.max.ms`: the leader checks its followers at
    intervals of half this time. After the returned time, the brokers' reports include the effect of
    a fault.
    """
    return max(_longest_s(plan, LAG_TIME) * 1.5, session_s(plan)) + REPORTED_S


def session_s(plan: Plan) -> float:
    """Return the seconds for which an ended broker still counts as alive."""
    return _longest_s(plan, SESSION_TIMEOUT if plan.kept_outside else SESSION_TIMEOUT_OF_KRAFT)


def _longest_s(plan: Plan, setting: str) -> float:
    """Return the longest of the nodes' values of a time setting, in seconds."""
    default = (KAFKAS if plan.named.is_strange else OURS)[setting]
    nodes: Sequence[Mapping[str, str]] = ({}, *plan.node.values())  # {}: no settings of its own.
    said = [{**plan.broker, **node}.get(setting, default) for node in nodes]
    # A broker refuses a value that is not a number, so that no run uses it.
    return max(int(text) if text.strip().isdecimal() else int(default) for text in said) / 1000
