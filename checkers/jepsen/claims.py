"""The log of a partition as Jepsen sees it: the pairs of offset and value that clients got.

A record that a reader got counts, even if the reader's op failed. With transactions, only
read_committed readers count (`checkers.group`). An acknowledgement counts only if its send
certainly committed. An offset may have several values, and a value several offsets.
"""

import numpy as np

from checkers.columns import NONE, Ints, ints, order_of, stack
from checkers.group import Group


def claims(group: Group) -> tuple[Ints, Ints]:
    """Return all pairs of offset and value that clients got, with repetitions."""
    tables = (group.table("polls"), group.committed)
    offsets, values = (
        stack([ints(table, name) for table in tables]) for name in ("offset", "value")
    )
    real = (offsets >= 0) & (values >= 0)
    return offsets[real], values[real]


def first_offsets(group: Group, values: Ints) -> Ints:
    """Return the lowest reported offset of each value, -1 if there is none."""
    ranked, offsets = group.view(_by_value)
    return _at(ranked, offsets, values, np.searchsorted(ranked, values, side="left"))


def last_offsets(group: Group, values: Ints) -> Ints:
    """Return the highest reported offset of each value, -1 if there is none."""
    ranked, offsets = group.view(_by_value)
    return _at(ranked, offsets, values, np.searchsorted(ranked, values, side="right") - 1)


def _by_value(group: Group) -> tuple[Ints, Ints]:
    offsets, values = group.view(claims)
    order = order_of(values, offsets)
    return values[order], offsets[order]


def _at(ranked: Ints, offsets: Ints, values: Ints, at: Ints) -> Ints:
    if not len(ranked):
        return np.full(len(values), NONE, dtype=np.int64)
    at = np.clip(at, 0, len(ranked) - 1)
    return np.where(ranked[at] == values, offsets[at], NONE)
