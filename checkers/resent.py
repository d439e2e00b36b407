"""Where an idempotent client began a new epoch, though the records of before were cleaned away.

A record's sequence is the number of records of its producer's epoch that stand before it in the
partition. So one record that is left tells how far back its epoch reaches, if it is known where its
writer's records stood: acknowledgements and reads say that. Each worker has one producer for its
plain sends.

Be `q` the sequence of a record that is left, and two records of the writer stood below it, as two
copies of a value, or two that stand in the wrong order. If that many records of the writer stood
between the lower one and it, or more, the epoch did not reach the lower one. If fewer stood between
the higher one and it, with those whose place nobody knows, the epoch reached the higher one. If
both hold, they have an epoch each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from checkers.columns import Ints, distinct, ints, present, stack, within
from checkers.group import Group, once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays have no one answer to ==.
class _Writer:
    """What is known of a worker's plain sends.

    Attributes:
        places: Where records of them stood, ascending.
        astray: How many are nowhere known to have stood.
        left, sequences: Of the records that the last leader's final log holds: where, and their
            sequence numbers.
    """

    places: Ints
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
        return bool(sequence <= earlier and (at == high or later + self.astray < sequence))


def in_epochs_of_their_own(group: Group, value: int, offsets: Sequence[int]) -> bool:
    """Tell whether each record of plain sends is certain to have another epoch than the one before.

    Args:
        group: The partition.
        value: What one of them holds: all are of its writer.
        offsets: Of the records, ascending.
    """
    sends = group.table("sends")
    own = _workers(group)[(ints(sends, "value") == value) & ~present(sends, "txn_id")]
    writer = _writer(group, int(own[0])) if len(own) else None
    return writer is not None and all(writer.began_between(*pair) for pair in pairwise(offsets))


def _workers(group: Group) -> Ints:
    plan = group.facts.plan
    return ints(group.table("sends"), "process") % plan.concurrency % plan.crews


@once
def _writer(group: Group, worker: int) -> _Writer | None:
    sends, log = group.table("sends"), group.final_log
    if log is None:
        return None
    mine = ints(sends, "value")[~present(sends, "txn_id") & (_workers(group) == worker)]
    tables = [group.table(name) for name in ("sends", "polls", "replica_records")]
    offsets, found = (stack([ints(each, name) for each in tables]) for name in ("offset", "value"))
    known = (offsets >= 0) & within(found, mine)
    left = within(log.values, mine)
    return _Writer(
        places=distinct(offsets[known]),
        astray=int((~within(mine, found[known])).sum()),
        left=log.offsets[left],
        sequences=log.sequences[left],
    )
