"""Find the offsets of compacted topics at which idempotent clients began new producer epochs.

The compaction may have removed the records that show a new epoch directly. A record's sequence
number is the number of records before it in the same producer epoch and partition. So one remaining
record shows where the record's producer epoch began, if the offsets of the writer's records are
known. Acknowledgements, reads and replicas' logs show these offsets. Each worker has one producer
for its plain sends.

Let `q` be the sequence number of a remaining record. Take two records of the same writer at lower
offsets: two copies of a message, or two records in the wrong order.

- If at least `q` records of the writer lie between the lower record and the remaining one, the
  epoch of the remaining record began after the lower record.
- If fewer than `q` records lie between the higher record and the remaining one, the epoch includes
  the higher record. This number includes sends with an unknown offset. The number also includes
  offsets with an unknown record, because such a record may be a second copy.

If both conditions are true, the two records belong to different epochs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from checkers.columns import NONE, Ints, distinct, ints, present, stack, within
from checkers.group import Group, once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class _Writer:
    """The known offsets of a worker's plain sends.

    Attributes:
        places: The offsets of the worker's records, ascending.
        known: The offsets of all known records of any writer, ascending.
        astray: The number of the worker's records with an unknown offset.
        left, sequences: The offsets and sequence numbers of the worker's records in the last
            leader's final log.
    """

    places: Ints
    known: Ints
    astray: int
    left: Ints
    sequences: Ints

    def began_between(self, low: int, high: int) -> bool:
        """Return whether a producer epoch certainly began at an offset in (`low`, `high`]."""
        first = int(np.searchsorted(self.left, high))
        if first == len(self.left):
            return False
        at, sequence = int(self.left[first]), int(self.sequences[first])
        ends = np.searchsorted(self.places, np.array([low, high]), side="right")
        earlier, later = (np.searchsorted(self.places, at) - ends).tolist()
        behind, before = np.searchsorted(self.known, np.array([high + 1, at])).tolist()
        unknown = at - high - 1 - (before - behind) + self.astray
        return bool(sequence <= earlier and (at == high or later + unknown < sequence))


def in_epochs_of_their_own(group: Group, row: int, offsets: Sequence[int]) -> bool:
    """Return whether the given plain sends certainly all have different producer epochs.

    Args:
        group: The run's rows of one partition.
        row: A row of `sends` for one of the records. All records have the same writer.
        offsets: The offsets of the records, ascending.
    """
    worker = int(group.view(_workers)[row])
    writer = _writer(group, worker) if worker != NONE else None
    return writer is not None and all(writer.began_between(*pair) for pair in pairwise(offsets))


def _workers(group: Group) -> Ints:
    """Return the worker of each plain send, or -1 for sends in transactions."""
    plan, sends = group.facts.plan, group.table("sends")
    workers = ints(sends, "process") % plan.concurrency % plan.crews
    return np.where(present(sends, "txn_id"), NONE, workers)


@once
def _writer(group: Group, worker: int) -> _Writer | None:
    sends, log = group.table("sends"), group.final_log
    if log is None:
        return None
    mine = ints(sends, "value")[group.view(_workers) == worker]
    tables = [group.table(name) for name in ("sends", "polls", "replica_records")]
    offsets, found = (stack([ints(each, name) for each in tables]) for name in ("offset", "value"))
    placed = offsets >= 0
    known = placed & within(found, mine)
    left = within(log.values, mine)
    return _Writer(
        places=distinct(offsets[known]),
        known=distinct(stack([log.offsets, offsets[placed]])),
        astray=int((~within(mine, found[known])).sum()),
        left=log.offsets[left],
        sequences=log.sequences[left],
    )
