"""Where an idempotent client began a new epoch, though the records of before were cleaned away.

A record's sequence is the number of records of its producer's epoch that stand before it in the
partition. So one record that is left tells how far back its epoch reaches, if it is known where its
writer's records stood: acknowledgements and reads say that. Each worker has one producer for its
plain sends.

Be `q` the sequence of a record that is left, and two copies of a value stand below it. If that many
records of the writer stood between the earlier copy and it, or more, the epoch did not reach the
earlier copy. If fewer stood between the later copy and it, with those whose place nobody knows, the
epoch reached the later one. If both hold, the copies have an epoch each.
"""

from collections.abc import Sequence

import numpy as np

from checkers.columns import Ints, Mask, distinct, ints, present, stack, within
from checkers.group import Group


def in_epochs_of_their_own(group: Group, value: int, offsets: Sequence[int]) -> bool:
    """Tell whether each copy of a plain send is certain to have another epoch than the one before.

    Args:
        group: The partition.
        value: What was sent.
        offsets: Of its copies, ascending.
    """
    log = group.final_log
    mine = _of_its_writer(group, value)
    if log is None or not len(mine):
        return False
    places, astray = _places(group, mine)
    left = np.flatnonzero(within(log.values, mine) & (log.offsets >= offsets[-1]))
    if not len(left) or len(offsets) != 2:  # noqa: PLR2004 - of three one record tells too little
        return False
    at, sequence = int(log.offsets[left[0]]), int(log.sequences[left[0]])
    behind = np.searchsorted(places, at) - np.searchsorted(places, np.array(offsets), side="right")
    earlier, later = behind.tolist()
    return bool(sequence <= earlier and (at == offsets[1] or later + astray < sequence))


def _of_its_writer(group: Group, value: int) -> Ints:
    """Return the values of all plain sends of the worker that sent one."""
    sends = group.table("sends")
    values, plain = ints(sends, "value"), ~present(sends, "txn_id")
    workers = ints(sends, "process") % group.facts.plan.concurrency % group.facts.plan.crews
    own = workers[plain & (values == value)]
    if not len(own):
        return values[:0]
    theirs: Mask = plain & (workers == own[0])
    return values[theirs]


def _places(group: Group, values: Ints) -> tuple[Ints, int]:
    """Return where records of some values stood, ascending, and how many are nowhere known."""
    tables = [group.table(name) for name in ("sends", "polls", "replica_records")]
    offsets, found = (stack([ints(each, name) for each in tables]) for name in ("offset", "value"))
    known = (offsets >= 0) & within(found, values)
    return distinct(offsets[known]), int((~within(values, found[known])).sum())
