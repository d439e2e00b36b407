"""Find, from the copies of a record, the leader epochs in which the record was written.

No client sends an acknowledged record again. So a copy of an acknowledged value at the acknowledged
offset is the acknowledged record itself, or an earlier try to send this record. The copy's epoch is
the record's epoch or an earlier epoch.
"""

import numpy as np

from checkers.columns import Ints, ints, order_of, stack
from checkers.group import Group

_Rows = tuple[Ints, Ints, Ints]
"""Values, offsets and leader epochs."""


def written_epochs(group: Group, offset: int, value: int) -> frozenset[int]:
    """Return the leader epochs that polls and logs show for a value at an offset."""
    values, offsets, epochs = group.view(_scattered)
    low, high = np.searchsorted(values, (value, value + 1))
    found = epochs[low:high][offsets[low:high] == offset].tolist()
    log = group.final_log
    index = log.at(offset) if log is not None else None
    if log is not None and index is not None and int(log.values[index]) == value:
        found.append(int(log.epochs[index]))
    return frozenset(epoch for epoch in found if epoch >= 0)


def epochs_of(group: Group, value: int) -> frozenset[int]:
    """Return the leader epochs that polls and logs show for a value at any offset."""
    values, _, epochs = group.view(_scattered)
    found = epochs[values == value].tolist() if value >= 0 else []
    log = group.final_log
    if log is not None:
        found += log.epochs[log.values == value].tolist()
    return frozenset(epoch for epoch in found if epoch >= 0)


def _scattered(group: Group) -> _Rows:
    """Return the record copies that differ from the last leader's final log, ordered by value.

    Nearly all copies agree with that log, so the result is short even for a long run.
    """
    polls, last = group.table("polls"), group.final_log
    columns = [tuple(ints(polls, name) for name in ("value", "offset", "leader_epoch"))]
    columns += [
        (log.values, log.offsets, log.epochs)
        for copies in group.logs.values()
        for log in copies.values()
        if log is not last
    ]
    kept = [_others(group, values, offsets, epochs) for values, offsets, epochs in columns]
    values, offsets, epochs = (stack(each) for each in zip(*kept, strict=True))
    order = order_of(values)
    return values[order], offsets[order], epochs[order]


def _others(group: Group, values: Ints, offsets: Ints, epochs: Ints) -> _Rows:
    log = group.final_log
    if log is None or not len(log.offsets):
        return values, offsets, epochs
    at = np.minimum(np.searchsorted(log.offsets, offsets), len(log.offsets) - 1)
    alike = (log.offsets[at] == offsets) & (log.values[at] == values) & (log.epochs[at] == epochs)
    return values[~alike], offsets[~alike], epochs[~alike]
