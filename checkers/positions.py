"""Pair each record that a process read (or wrote) in a partition with the next such record.

A process does one thing at a time, and its op ids grow. So the op ids alone give the order of the
ops. The checks need no times. An assignment sets a reader's position to the assigned offset, or to
the beginning. A group member's seek also sets its position.

`Steps` holds pairs of consecutive records. The checks of readers and writers use the same pairs.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.columns import (
    NONE,
    Ints,
    Mask,
    distinct,
    equal,
    first_match,
    ints,
    present,
    runs_of,
    select,
    stack,
    within,
)
from checkers.group import Group
from results.record.terms import Outcome

ASSIGN, SUBSCRIBE, DEALT = "assign", "subscribe", "rebalance-assigned"
LEFT_OUT = "left-out"
"""An assignment row of this kind says that the process lost a partition that it had used."""
REVOKED = "rebalance-revoked"
REBALANCES = (DEALT, REVOKED)
SEEK = "seek"
"""A seek is a separate op, which reads no record."""
_BEGINNING = -1
_FORGOTTEN = -2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class Steps:
    """The pairs of records that a process read or wrote one after the other.

    Attributes:
        since: Row number of the earlier record. `NONE` if an assignment, a rebalance or a seek set
            the reader's position.
        at: Row number of the later record.
        after: Offset of the earlier record, or the offset before the assigned position.
        rebalanced: Whether a rebalance assigned or revoked the partition in between. Then the
            reader's new position is unknown.
        dealt: Whether the reader's position comes from a seek, or (after a rebalance) from the
            offset that the group had committed.
    """

    since: Ints
    at: Ints
    after: Ints
    rebalanced: Mask
    dealt: Mask

    def where(self, mask: Mask) -> "Steps":
        """Return the pairs of records for which a mask is true."""
        return Steps(
            since=self.since[mask],
            at=self.at[mask],
            after=self.after[mask],
            rebalanced=self.rebalanced[mask],
            dealt=self.dealt[mask],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Visits:
    """For each op that read or wrote a partition, in op order: first row, last row and key."""

    first: Ints
    last: Ints
    key: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Moves:
    """The rows of `assignments`, sorted by process and op, after one empty entry at the start."""

    key: Ints
    start: Ints
    """The offset before the reader's new position, or `_FORGOTTEN` if that position is unknown."""
    dealt: Mask
    """Whether a rebalance or a seek set the position."""


class OpOrder:
    """An order of all ops, in which the ops of one process directly follow one another."""

    def __init__(self, *tables: pa.Table) -> None:
        self._processes = distinct(stack([ints(table, "process") for table in tables]))
        self._ops = distinct(stack([ints(table, "op_id") for table in tables]))

    def keys(self, process: Ints, op_id: Ints) -> Ints:
        """Return the place of each op in this order, as a number."""
        at = first_match(process, self._processes) * (len(self._ops) + 1)
        return at + first_match(op_id, self._ops)

    def begin(self, keys: Ints) -> Ints:
        """Return, for each op, the lowest number that an op of the same process can have."""
        return keys - keys % (len(self._ops) + 1)


def read_rows(group: Group) -> Mask:
    """Return a mask of the `polls` rows that have a known offset and belong to an ok op."""
    return _known(group.table("polls"), "offset") & equal(
        group.table("polls"), "outcome", Outcome.OK.value
    )


def written_rows(group: Group) -> Mask:
    """Return a mask of the sends that were acknowledged at a known offset and did not fail."""
    sends = group.table("sends")
    kept = equal(sends, "outcome", Outcome.OK.value, Outcome.INFO.value)
    return _known(sends, "offset") & kept & equal(sends, "acked", True)  # noqa: FBT003 - a value


def poll_steps(group: Group) -> Steps:
    """Return pairs of a reader's position and the first record of the reader's next ok poll."""
    polls, moves = group.table("polls"), group.table("assignments")
    order = OpOrder(polls, moves)
    visits = _visits(polls, read_rows(group), order)
    before = _previous(visits, np.ones(len(visits.key), dtype=np.bool_), order)
    placing = _moves(select(moves, _placing(moves)), order)
    since = np.where(before >= 0, visits.key[before], order.begin(visits.key))
    # An assignment inside an op that polled (as after an abort) comes after the op's reads. But a
    # rebalance may come before them. So it counts only if the reader got no record in that op.
    move = np.searchsorted(placing.key, visits.key, side="left") - 1
    behind = np.where(before >= 0, placing.key[move] > since, placing.key[move] >= since)
    dealt = placing.dealt[move] & behind
    moved = dealt | (~placing.dealt[move] & (placing.key[move] >= since))
    stood = np.where(before >= 0, ints(polls, "offset")[visits.last[before]], _FORGOTTEN)
    after = np.where(moved, placing.start[move], stood)
    turned_since = np.where(moved, placing.key[move] + dealt, since)
    steps = Steps(
        since=np.where(moved, NONE, visits.last[before]),
        at=visits.first,
        after=after,
        rebalanced=_rebalanced(moves, order, turned_since, visits.key),
        dealt=dealt,
    )
    return steps.where(after > _FORGOTTEN)


def inner_poll_steps(group: Group, rows: Mask) -> Steps:
    """Return the pairs of consecutive records that one op read, over all polls of the op.

    Ops with a rebalance of the partition are left out.

    Args:
        group: The run's rows of one partition.
        rows: The rows of `polls` that count.
    """
    moves = group.table("assignments")
    turned = ints(select(moves, equal(moves, "kind", *REBALANCES)), "op_id")
    polls = group.table("polls")
    return _inner(polls, rows & ~within(ints(polls, "op_id"), turned), ("mop", "pos"))


def ok_inner_poll_steps(group: Group) -> Steps:
    """Return the pairs of consecutive records that one ok op read."""
    return inner_poll_steps(group, read_rows(group))


def send_steps(group: Group) -> Steps:
    """Return pairs: the last send of an op, and the first send of the process's next op."""
    sends = group.table("sends")
    order = OpOrder(sends)
    visits = _visits(sends, written_rows(group), order)
    before = _previous(visits, np.ones(len(visits.key), dtype=np.bool_), order)
    return _linked(sends, visits, before)


def inner_send_steps(group: Group, rows: Mask) -> Steps:
    """Return the pairs of consecutive sends of one op.

    Args:
        group: The run's rows of one partition.
        rows: The rows of `sends` that count.
    """
    return _inner(group.table("sends"), rows, ("mop",))


def remembered_steps(table: pa.Table, rows: Mask, moving: Mask, moves: pa.Table) -> Steps:
    """Return pairs of consecutive records by Jepsen's rule for positions.

    Only some ops move the position of their process. Each pair joins an op with the last earlier op
    of the process that moved the position. An assignment without the partition clears the position.
    An assignment that names the partition changes nothing, even if it names an offset. Jepsen has
    no seeks, so a seek clears the position too.

    Args:
        table: `polls` or `sends` of a partition.
        rows: The rows of the table that count.
        moving: The rows of ops that move the position of their process.
        moves: The partition's `assignments`.
    """
    order = OpOrder(table, moves)
    visits = _visits(table, rows, order)
    before = _previous(visits, moving[visits.first], order)
    forgotten = _moves(select(moves, equal(moves, "kind", LEFT_OUT, SEEK)), order)
    last = np.searchsorted(forgotten.key, visits.key, side="left") - 1
    kept = forgotten.key[last] < visits.key[before]
    return _linked(table, visits, np.where(kept, before, NONE))


def _known(table: pa.Table, *names: str) -> Mask:
    """Return a mask of the rows with a known process and a number in the given columns."""
    columns = [ints(table, name) >= 0 for name in ("process", *names)]
    return np.asarray(np.logical_and.reduce(columns), dtype=np.bool_)


def _visits(table: pa.Table, mask: Mask, order: OpOrder) -> _Visits:
    rows = np.flatnonzero(mask)
    op_ids = ints(table, "op_id")[rows]
    cuts = runs_of(op_ids)
    first = rows[cuts[:-1]]
    keys = order.keys(ints(table, "process")[first], op_ids[cuts[:-1]])
    by_process = np.argsort(keys, kind="stable")
    return _Visits(
        first=first[by_process], last=rows[cuts[1:] - 1][by_process], key=keys[by_process]
    )


def _previous(visits: _Visits, moving: Mask, order: OpOrder) -> Ints:
    """Return, for each op, the process's last earlier op that moved the position, or `NONE`."""
    at = np.where(moving, np.arange(len(moving)), NONE)
    last = np.maximum.accumulate(np.append(NONE, at))[:-1]
    # `NONE` as an index selects the last visit of all. Both branches then give `NONE`.
    return np.where(visits.key[last] >= order.begin(visits.key), last, NONE)


def _moves(rows: pa.Table, order: OpOrder) -> _Moves:
    keys = order.keys(ints(rows, "process"), ints(rows, "op_id"))
    placed = np.maximum(ints(rows, "offset") - 1, _BEGINNING)
    starts = np.where(equal(rows, "kind", ASSIGN, DEALT, SEEK), placed, _FORGOTTEN)
    by_process = np.argsort(keys, kind="stable")
    return _Moves(
        key=np.append(NONE, keys[by_process]),
        start=np.append(_FORGOTTEN, starts[by_process]),
        dealt=np.append(False, equal(rows, "kind", DEALT, SEEK)[by_process]),
    )


def _placing(moves: pa.Table) -> Mask:
    """Return a mask of the assignments that set a reader's position or clear it."""
    dealt = equal(moves, "kind", DEALT) & present(moves, "offset")
    return equal(moves, "kind", ASSIGN, SUBSCRIBE, LEFT_OUT, SEEK) | dealt


def _rebalanced(moves: pa.Table, order: OpOrder, since: Ints, at: Ints) -> Mask:
    turns = _moves(select(moves, equal(moves, "kind", *REBALANCES)), order).key
    return np.searchsorted(turns, at, "right") > np.searchsorted(turns, since, "left")


def _linked(table: pa.Table, visits: _Visits, before: Ints) -> Steps:
    linked = before >= 0
    since = visits.last[before[linked]]
    return Steps(
        since=since,
        at=visits.first[linked],
        after=ints(table, "offset")[since],
        rebalanced=np.zeros(len(since), dtype=np.bool_),
        dealt=np.zeros(len(since), dtype=np.bool_),
    )


def _inner(table: pa.Table, mask: Mask, place: tuple[str, ...]) -> Steps:
    rows = np.flatnonzero(mask)
    since, at = rows[:-1], rows[1:]
    op_ids = ints(table, "op_id")
    follows = op_ids[since] == op_ids[at]
    # Two rows at one place of an op contradict each other. They are not a step of a reader.
    places = [ints(table, name) for name in place]
    follows &= np.logical_or.reduce([column[since] != column[at] for column in places])
    since, at = since[follows], at[follows]
    return Steps(
        since=since,
        at=at,
        after=ints(table, "offset")[since],
        rebalanced=np.zeros(len(at), dtype=np.bool_),
        dealt=np.zeros(len(at), dtype=np.bool_),
    )
