"""Which partitions an assignment leaves out, told as rows of those partitions.

An assignment has a row for each partition that it names. A partition's checks see that partition's
rows only, so they could not tell that a process was assigned others in its place. Whoever makes the
tables of a record adds a row of kind `left-out` for each partition with which the process had to do
since its last assignment (it was assigned, or sent to), and which the next one does not name.
"""

import numpy as np
import pyarrow as pa

from checkers.columns import (
    Ints,
    codes,
    equal,
    ints,
    joined,
    nullable,
    order_of,
    repeat,
    runs_of,
    select,
    take,
)
from checkers.positions import ASSIGN, LEFT_OUT, OpOrder
from results.record.terms import F, Outcome

_PLACE = ("topic", "topic_id", "partition")
_ASSIGN = ("op_id", "process", "f", "outcome", "invoke_ns")
_TOUCH = ("op_id", "process", *_PLACE)


def left_out(ops: pa.Table, assignments: pa.Table, sends: pa.Table) -> pa.Table:
    """Return the rows of `assignments` for partitions that an assignment leaves out.

    Args:
        ops: Of one writer, or of all: op_id, process, f, outcome, invoke_ns.
        assignments: Of the same, as they were recorded.
        sends: Of the same: op_id, process and place.

    Returns:
        Rows with the columns of `assignments`.
    """
    happened = ~equal(ops, "outcome", Outcome.FAIL.value) & (ints(ops, "process") >= 0)
    assigns = select(ops, equal(ops, "f", F.ASSIGN.value) & happened)
    named = select(assignments, equal(assignments, "kind", ASSIGN)).select(_TOUCH)
    touches = joined([named, _first_of_each(sends)])
    places, order = _places(touches), OpOrder(assigns, touches)
    keys = order.keys(ints(touches, "process"), ints(touches, "op_id"))
    assigned = order.keys(ints(assigns, "process"), ints(assigns, "op_id"))
    by_process = np.argsort(assigned, kind="stable")
    follows = np.searchsorted(assigned[by_process], keys, side="right")
    # A touch behind the last assignment of its process has none that could leave it out.
    followed = np.flatnonzero(follows < len(assigned))
    after = by_process[follows[followed]]
    same = order.begin(assigned[after]) == order.begin(keys[followed])
    rows, after = followed[same], after[same]
    due = assigned[after] * (len(places) + 1) + places[rows]
    _, first = np.unique(due, return_index=True)
    kept = keys[: named.num_rows] * (len(places) + 1) + places[: named.num_rows]
    missed = first[~np.isin(due[first], kept)]
    return _rows(take(touches, rows[missed]), take(assigns, after[missed]), assignments.schema)


def moved(ops: pa.Table, sends: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return what `left_out` needs of some ops in a row, which are not all: a few rows.

    Args:
        ops: As of `left_out`.
        sends: Of the same ops.

    Returns:
        `ops` and `sends` for it: those that assign, and of those that a process sent to a partition
        between two of them, one.
    """
    assigns = select(ops.select(_ASSIGN), equal(ops, "f", F.ASSIGN.value))
    touches = _first_of_each(sends)
    order = OpOrder(assigns, touches)
    keys = order.keys(ints(touches, "process"), ints(touches, "op_id"))
    assigned = np.sort(order.keys(ints(assigns, "process"), ints(assigns, "op_id")))
    between = np.searchsorted(assigned, keys, side="right")
    process, places = ints(touches, "process"), _places(touches)
    cuts = order_of(between, process, places)
    first = runs_of(between[cuts], process[cuts], places[cuts])[:-1]
    return assigns, take(touches, np.sort(cuts[first]))


def _first_of_each(sends: pa.Table) -> pa.Table:
    """Return a row of each op and place: a partition that was sent to."""
    cuts = runs_of(ints(sends, "op_id"), *(codes(sends, name)[0] for name in _PLACE[:2]),
                   ints(sends, "partition"))  # fmt: skip
    return take(sends.select(_TOUCH), cuts[:-1])


def _places(rows: pa.Table) -> Ints:
    """Number the partitions of some rows."""
    (topic, _), (topic_id, ids) = (codes(rows, name) for name in _PLACE[:2])
    _, partition = np.unique(ints(rows, "partition"), return_inverse=True)
    names = (topic.astype(np.int64) + 1) * (len(ids) + 1) + topic_id
    _, numbers = np.unique(names * (len(rows) + 1) + partition, return_inverse=True)
    return np.asarray(numbers, dtype=np.int64)


def _rows(touches: pa.Table, assigns: pa.Table, schema: pa.Schema) -> pa.Table:
    count = touches.num_rows
    columns = {
        "op_id": assigns["op_id"],
        "process": assigns["process"],
        "kind": repeat(LEFT_OUT, count),
        "time_ns": assigns["invoke_ns"],
        **{name: touches[name] for name in _PLACE},
        "offset": nullable(np.full(count, -1, dtype=np.int64)),
    }
    return pa.table({name: columns[name] for name in schema.names})
