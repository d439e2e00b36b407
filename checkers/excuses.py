"""Sets of excuses (rows of the contract's table) that allow the same anomalies."""

from collections.abc import Iterable

from checkers.protocol import DISK_DOUBTS, DISK_EXCUSES, Excuse

TAKES_RECORDS = frozenset({Excuse.UNCLEAN, *DISK_EXCUSES})
"""The excuses for lost committed records: a leader lacked the records, or disks lost the records.

Other anomalies follow from such a loss. A record that was read may disappear, and may be written
again if its writer had no answer yet. Readers may be beyond the log's end. A transaction's records
may be kept without its marker. A group may get back an older committed offset.
"""
TAKES_ACKNOWLEDGED = TAKES_RECORDS | {Excuse.ACKS}
"""The excuses for lost acknowledged records. Another record may get the offset of a lost record."""
WRITES_TWICE = frozenset({Excuse.RETRIES, Excuse.NEW_EPOCH})
"""The excuses that allow a client library to write a message twice."""


def strength(excuses: Iterable[str]) -> int:
    """Return 0 if nothing explains an anomaly, 1 if something may, 2 if something does."""
    told = set(excuses)
    return 0 if not told else 1 if told <= {*DISK_DOUBTS} else 2
