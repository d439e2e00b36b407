"""Declare the anomalies that a scripted run must show: all these anomalies, and no others."""

from collections.abc import Iterable

from checkers.announcements import announcing
from results.record.plan import Plan


def declared(plan: Plan, *anomalies: str, announced: Iterable[str] = ()) -> frozenset[str]:
    """Return the anomalies that a run of this plan must have.

    Args:
        plan: The run's plan.
        anomalies: Anomalies that appear with any Kafka version.
        announced: Anomalies that can be observed only if leaders announce their high watermarks, as
            Kafka does since 2.2.
    """
    return frozenset(anomalies) | frozenset(announced if announcing(plan) else ())
