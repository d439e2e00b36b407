"""Where an idempotent client began a new epoch, though the records of before were cleaned away.

A record's sequence is the number of records of its producer's epoch that stand before it in the
partition. So one record that is left tells how far back its epoch reaches, if it is known where its
writer's records stood: acknowledgements and reads say that. Each worker has one producer for its
plain sends.

Let `q` be the sequence number of a remaining record. Two records of the writer stood below it: two
copies of a value, or two that stand in the wrong order. If `q` records of the writer or more stood
between the lower one and the remaining one, the epoch did not reach the lower one. If fewer stood
between the higher one and the remaining one, the epoch reached the higher one. Sends with an
unknown offset count there, and so does each offset with an unknown record, which may be a second
copy. If both hold, the two records have an epoch each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from checkers.columns import NONE, Ints, distinct, ints, present, stack, within
from checkers.group import Group, once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays have no one answer to ==.
class _Writer:
    """What is known of a worker's plain sends.

    Attributes:
        places: Where records of them stood, ascending.
        known: Where a record stood that anybody knows, of any writer; ascending.
        astray: How many are nowhere known to have stood.
        left, sequences: Of the records that the last leader's final log holds: where, and their
            sequence numbers.
    """

    places: Ints
    known: Ints
    astray: int
    left: Ints
    sequences: Ints

    def began_between(self, low: int, high: int) -> bool:
        """Tell whether the epoch of a record at an offset is certain to begin above a lower one."""
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
    """Tell whether each record of plain sends is certain to have another epoch than the one before.

    Args:
        group: The partition.
        row: Of `sends`, of one of them: all are of its writer.
        offsets: Of the records, ascending.
    """
    worker = int(group.view(_workers)[row])
    writer = _writer(group, worker) if worker != NONE else None
    return writer is not None and all(writer.began_between(*pair) for pair in pairwise(offsets))


def _workers(group: Group) -> Ints:
    """Return the worker of each plain send, -1 of those in transactions."""
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
