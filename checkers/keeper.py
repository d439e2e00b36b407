"""Find out whether the observer lost ZooKeeper during a run."""

import pyarrow as pa

from checkers.columns import NONE, equal, ints
from results.record.clock import NS_PER_S
from results.record.terms import Source

_REPEATED_NS = 10 * NS_PER_S
"""ZooKeeper's answers are recorded at least every two seconds, even if nothing has changed. A busy
machine may delay them."""


def keeper_lost(leadership: pa.Table) -> bool:
    """Return whether ZooKeeper's reports end well before the reports of brokers.

    Then ZooKeeper did not answer any more, and later leaders, epochs and ISRs are missing.

    Args:
        leadership: The rows of one partition.
    """
    times = ints(leadership, "observed_ns")
    told = times[equal(leadership, "source", Source.ZOOKEEPER)]
    return len(told) > 0 and int(times.max()) > int(told.max(initial=NONE)) + _REPEATED_NS
