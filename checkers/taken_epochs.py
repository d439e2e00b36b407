"""Use the producer's sequence numbers to find the leader that appended a missing record.

A leader refuses a batch that does not follow the producer's last sequence number. Take the records
of an idempotent producer just before and just after the missing record. Suppose that one leader
wrote both records in one epoch. Suppose also that there are as many sequence numbers between the
two as missing sends of the process. Then this leader had appended the missing record. The producer
is known from records that the same process sent before and after the missing record, under one
producer epoch.
"""

from dataclasses import dataclass

import numpy as np

from checkers.columns import equal, ints, within
from checkers.group import Group, once


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Proof that a leader appended a record which is now missing from the leader's log.

    Attributes:
        epoch: The leader epoch.
        producer: The producer's id.
        before, after: (sequence, offset) of the producer's records before and after the missing
            record.
    """

    epoch: int
    producer: int
    before: tuple[int, int]
    after: tuple[int, int]

    @property
    def text(self) -> str:
        """The proof as a sentence for the report."""
        (last, at), (following, there) = self.before, self.after
        return (
            f"its log has sequence {last} of producer {self.producer} at offset {at} and then"
            f" sequence {following} at offset {there}, so it had accepted the missing sequence in"
            " between"
        )


@once
def taken(group: Group, value: int) -> Taken | None:
    """Return proof that a leader appended a message that the last leader's log lacks, or None."""
    log, sends = group.final_log, group.table("sends")
    if log is None or value < 0:
        return None
    rows = np.flatnonzero(ints(sends, "value") == value)
    if len(rows) != 1:
        return None
    process = ints(sends, "process")[rows[0]]
    mine = np.flatnonzero(equal(sends, "process", int(process)))
    columns = (ints(sends, name)[mine] for name in ("mop", "op_id", "invoke_ns"))
    mine = mine[np.lexsort(tuple(columns))]
    values, at = ints(sends, "value")[mine], int(np.flatnonzero(mine == rows[0])[0])
    stand = np.flatnonzero(within(values, log.values))
    next_ = int(np.searchsorted(stand, at))
    if not 0 < next_ < len(stand) or stand[next_] == at:
        return None
    ends = [np.flatnonzero(log.values == values[each]) for each in stand[next_ - 1 : next_ + 1]]
    if any(len(each) != 1 for each in ends):
        return None
    one, two = (int(each[0]) for each in ends)
    same = all(
        column[one] == column[two] >= 0
        for column in (log.epochs, log.producer_ids, log.producer_epochs)
    )
    sequences = log.sequences
    missing = int(stand[next_] - stand[next_ - 1])
    if not same or one > two or sequences[two] - sequences[one] != missing:
        return None
    return Taken(
        epoch=int(log.epochs[one]),
        producer=int(log.producer_ids[one]),
        before=(int(sequences[one]), int(log.offsets[one])),
        after=(int(sequences[two]), int(log.offsets[two])),
    )
