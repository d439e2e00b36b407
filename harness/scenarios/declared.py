"""Declare the anomalies of a scripted run: it must show all of them, and no others."""

from collections.abc import Iterable

from checkers.announcements import announcing
from results.record.plan import Plan


def declared(plan: Plan, *anomalies: str, announced: Iterable[str] = ()) -> frozenset[str]:
    """Return the anomalies that a run of this plan must have.

    Args:
        plan: The run's plan.
        anomalies: Anomalies that appear with any Kafka version.
        announced: Anomalies that only appear if leaders announce their high watermarks, as they do
            since Kafka 2.2.
    """
    return frozenset(anomalies) | frozenset(announced if announcing(plan) else ())
