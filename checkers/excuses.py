"""Rows of the contract's table that allow the same anomalies, by what they bring about."""

from checkers.protocol import DISK_EXCUSES, Excuse

TAKES_RECORDS = frozenset({Excuse.UNCLEAN, *DISK_EXCUSES})
"""What takes committed records: a leader that lacks them, or disks that lost them.

Such a loss is also seen in what goes on from there. What was read may be taken back and, if its
writer had no answer yet, be written again; readers stand where the log does not reach; a
transaction's records were kept and its marker was not; a group's position is an older one.
"""
TAKES_ACKNOWLEDGED = TAKES_RECORDS | {Excuse.ACKS}
"""What takes records that were acknowledged: clients see another one in the place of each."""
WRITES_TWICE = frozenset({Excuse.RETRIES, Excuse.NEW_EPOCH})
"""What lets a client's library write a message twice."""
