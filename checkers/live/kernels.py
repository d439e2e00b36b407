"""Select the checks that can judge a run before its end.

A check runs during the run only if the final judge must find the same anomaly again. There are four
such cases:

- The anomaly is proved by rows that stay in the run's record until the end (`Proof.TOLD`).
- The same is true, and these rows are only responses to observers (`Proof.OBSERVED`).
- The replicas' files are copied immediately, and the final judge reads the copies (`Proof.COPIED`).
- A record is missing from every replica, so it cannot come back (`Proof.GONE`).

Each check declares its case (`Checker.meanwhile`), or why it waits (`Checker.waits`).
"""

from checkers.protocol import Checker
from checkers.registry import CHECKERS

WITH_PREMISES = "broker-hit-from-outside"
"""A check that reports no violation. It still takes part, because liveness checks depend on it."""


def kernels() -> tuple[Checker, ...]:
    """Return the checks that run during the run, in the registry's order."""
    return tuple(
        each for each in CHECKERS if each.meanwhile is not None or each.name == WITH_PREMISES
    )
