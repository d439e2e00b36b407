"""The version order of a partition: the message (its value) at each offset, as far as known.

All checks that need the records between two records use this order. For the contract, the order
contains the values that were certainly committed, that readers received, or that are in the
leader's final log. Values of failed sends, and of transactions that did not certainly commit, are
left out: readers need not receive such values, but a read_uncommitted reader may receive them.
Jepsen's version order contains every value that certainly committed or that a reader received,
including aborted values. Jepsen's order does not use replicas' logs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from checkers.columns import (
    NONE,
    Ints,
    Mask,
    distinct,
    equal,
    first_match,
    ints,
    select,
    stack,
    within,
)
from checkers.group import Group
from results.record.terms import Judge, Outcome

_Claims = tuple[Ints, Ints]
"""Offsets, and for each offset a value that some source reports."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class VersionOrder:
    """The values of a partition in the order of their offsets.

    Attributes:
        offsets: The offsets with a known value, ascending, without repeats.
        values: The value at each offset. If sources report several values, one is chosen.
    """

    offsets: Ints
    values: Ints

    def between(self, after: Ints, before: Ints) -> Ints:
        """Return, for each given pair of offsets, the number of known offsets between them."""
        low = np.searchsorted(self.offsets, after, side="right")
        high = np.searchsorted(self.offsets, before, side="left")
        return np.maximum(np.asarray(high - low, dtype=np.int64), 0)

    def without(self, values: Ints) -> "VersionOrder":
        """Return the order without the given values."""
        return self.where(~within(self.values, values))

    def where(self, kept: Mask) -> "VersionOrder":
        """Return the order with only those offsets for which the mask is true."""
        return VersionOrder(offsets=self.offsets[kept], values=self.values[kept])

    def last_index(self, values: Ints) -> Ints:
        """Return the last index of each value in the order; -1 if the value is missing."""
        at = first_match(values, self.values[::-1])
        return np.where(at >= 0, len(self.values) - 1 - at, NONE)


def version_order(group: Group) -> VersionOrder:
    """Return the version order of a partition, by the definitions of the run's judge.

    If sources report several values for an offset, these are preferred, in this order: the value in
    `RunFacts.picked`, the value in the leader's final log, the smallest value that was read, the
    smallest committed value.

    Args:
        group: The run's rows of one partition.
    """
    jepsen = group.facts.judge is Judge.JEPSEN
    sent = _real(*(ints(group.committed, name) for name in ("offset", "value")))
    read = _real(*_read(group, everything=jepsen))
    seen = [read] if jepsen else [read, _real(*_logged(group))]
    seen.append(_picked(group, [sent, *seen]))
    axis, (sent, *seen) = _on_axis([sent, *seen])
    stands = np.full(len(axis), NONE, dtype=np.int64)
    for claims in seen:  # Later, more trusted sources override the earlier ones.
        stands = _over(stands, _smallest(claims, len(axis)))
    told = sent if jepsen else _well_placed(sent, stands[sent[0]], seen)
    stands = _over(_smallest(told, len(axis)), stands)
    there = stands >= 0
    return VersionOrder(offsets=axis[there], values=stands[there])


def _real(offsets: Ints, values: Ints) -> _Claims:
    real = (offsets >= 0) & (values >= 0)
    return offsets[real], values[real]


def _picked(group: Group, claims: Sequence[_Claims]) -> _Claims:
    """Return the values that `RunFacts.picked` names, if some source reports them."""
    picks = group.facts.picked.get((group.topic, group.partition), {})
    wanted = np.array(list(picks), dtype=np.int64)
    near = [[column[within(part[0], wanted)].tolist() for column in part] for part in claims]
    found = {pair for part in near for pair in zip(*part, strict=True)}
    pairs = [pair for pair in picks.items() if pair in found]
    offsets, values = ([pair[side] for pair in pairs] for side in (0, 1))
    return np.array(offsets, dtype=np.int64), np.array(values, dtype=np.int64)


def _on_axis(parts: Sequence[_Claims]) -> tuple[Ints, list[_Claims]]:
    """Return a sorted array of all offsets. For each source, return values and array indices."""
    most = max(int(offsets.max(initial=NONE)) for offsets, _ in parts) + 1
    if most <= sum(len(offsets) for offsets, _ in parts):
        return np.arange(most, dtype=np.int64), list(parts)
    axis = distinct(stack([offsets for offsets, _ in parts]))
    return axis, [(np.searchsorted(axis, offsets), values) for offsets, values in parts]


def _smallest(claims: _Claims, length: int) -> Ints:
    """Return the smallest value for each index of the axis, or `NONE` if no value is claimed."""
    at, values = claims
    stands = np.full(length, NONE, dtype=np.int64)
    stands[at] = values
    np.minimum.at(stands, at, values)  # Several values may be claimed for one offset.
    return stands


def _over(below: Ints, above: Ints) -> Ints:
    return np.where(above >= 0, above, below)


def _well_placed(sent: _Claims, others: Ints, seen: Sequence[_Claims]) -> _Claims:
    """Return acknowledged offsets and values, without acknowledgements that are certainly wrong.

    An acknowledgement is wrong if no other source has a value at the acknowledged offset, and the
    acknowledged value is known to be at another offset (`ack-mismatch`). Then there is no record at
    the acknowledged offset that a reader could have skipped.
    """
    alone = np.flatnonzero(others == NONE)
    wrong = alone[within(sent[1][alone], stack([part[1] for part in seen]))]
    return np.delete(sent[0], wrong), np.delete(sent[1], wrong)


def _read(group: Group, *, everything: bool) -> tuple[Ints, Ints]:
    polls = group.table("polls")
    offsets, values = ints(polls, "offset"), ints(polls, "value")
    if everything:
        return offsets, values
    kept = ~within(values, _never_there(group))
    return offsets[kept], values[kept]


def _logged(group: Group) -> tuple[Ints, Ints]:
    log = group.final_log
    if log is None:
        nothing = np.array([], dtype=np.int64)
        return nothing, nothing
    kept = (log.controls != 1) & ~within(log.values, _never_there(group))
    return log.offsets[kept], log.values[kept]


def _never_there(group: Group) -> Ints:
    """Return the values that readers need not receive (failed sends, uncommitted transactions)."""
    sends = group.table("sends")
    failed = select(sends, equal(sends, "outcome", Outcome.FAIL.value))
    return stack([ints(group.doubtful, "value"), ints(failed, "value")])
