"""Which anomalies a story declares: what its run shows, all of it and nothing else."""

from collections.abc import Iterable

from checkers.announcements import announcing
from results.record.plan import Plan


def declared(plan: Plan, *anomalies: str, announced: Iterable[str] = ()) -> frozenset[str]:
    """Return the anomalies that the run of a plan must have.

    Args:
        plan: Of the run.
        anomalies: Whatever the brokers tell.
        announced: Those that rest on the high watermarks that leaders announce; brokers before 2.2
            announce none.
    """
    return frozenset(anomalies) | frozenset(announced if announcing(plan) else ())
