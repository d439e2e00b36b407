"""The list of checkers: one line each."""

from checkers import (
    duplicate,
    faults,
    inconsistent_offsets,
    log_divergence,
    lost_write,
    malformed,
    phantom,
    traffic,
    two_leaders,
    unseen,
)
from checkers.protocol import Checker, Derivation
from results.record.terms import Judge

CHECKERS: tuple[Checker, ...] = (
    malformed.OPS_CHECKER,
    malformed.VALUES_CHECKER,
    traffic.CHECKER,
    faults.CHECKER,
    unseen.INCOMPLETE_CHECKER,
    lost_write.CHECKER,
    unseen.UNSEEN_CHECKER,
    duplicate.CHECKER,
    inconsistent_offsets.CHECKER,
    phantom.CHECKER,
    log_divergence.CHECKER,
    two_leaders.CHECKER,
    two_leaders.QUORUM_CHECKER,
)
"""In the order in which they run: is the history well formed, was there traffic, then safety."""

JEPSENS: tuple[Checker, ...] = CHECKERS
"""Those of Jepsen's own Kafka checker, by its definitions."""

DERIVATIONS: tuple[Derivation, ...] = ()
"""What is worked out in each partition for checks across them."""


def checkers_of(judge: Judge) -> tuple[Checker, ...]:
    """Return the checkers by which a judge judges."""
    return JEPSENS if judge is Judge.JEPSEN else CHECKERS
