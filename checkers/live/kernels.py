"""Which checks can look at an unfinished record.

A check looks meanwhile only if the judge at the end must find the same again. It must, where the
anomaly rests on rows that stay in the record whatever comes later (`Proof.TOLD`); where a copy of
the replicas' files is made at once, which the judge at the end reads as well (`Proof.COPIED`); and
where what is gone from every replica cannot come back (`Proof.GONE`).

Each check says so (`Checker.meanwhile`), or why it waits for the end (`Checker.waits`).
"""

from checkers.protocol import Checker
from checkers.registry import CHECKERS

WITH_PREMISES = "broker-hit-from-outside"
"""No violation; but it takes the trust of those of liveness, and so looks meanwhile, too."""


def kernels() -> tuple[Checker, ...]:
    """Return the checks that look meanwhile, in the registry's order."""
    return tuple(
        each for each in CHECKERS if each.meanwhile is not None or each.name == WITH_PREMISES
    )
