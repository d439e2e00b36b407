"""Sets of excuses (rows of the contract's table) that allow the same anomalies."""

from checkers.protocol import DISK_EXCUSES, Excuse

TAKES_RECORDS = frozenset({Excuse.UNCLEAN, *DISK_EXCUSES})
"""Excuses for lost committed records: a leader lacked them, or disks lost them.

Other anomalies follow from such a loss. A record that was read may disappear, and may be written
again if its writer had no answer yet. Readers may be beyond the log's end. A transaction's records
may be kept without its marker. A group's offset may be an older one.
"""
TAKES_ACKNOWLEDGED = TAKES_RECORDS | {Excuse.ACKS}
"""Excuses for lost acknowledged records. Clients may see another record at such an offset."""
WRITES_TWICE = frozenset({Excuse.RETRIES, Excuse.NEW_EPOCH})
"""Excuses for a client library that writes a message twice."""
