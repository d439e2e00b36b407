"""Add `left-out` rows for the partitions that a process loses with its next assignment.

The assignments table has a row for each partition that an assignment names. The checks of a
partition see only the rows of that partition. So these checks cannot see that a process was
assigned other partitions instead.

This module adds the missing rows. A process touches a partition when it is assigned the partition
or sends to it. If the process's next assignment does not name that partition, a `left-out` row is
added for it.
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
    """Return a row for each partition that a process touched, but that its next assignment omits.

    Args:
        ops: The operations of one writer or of all writers, with the columns op_id, process, f,
            outcome, invoke_ns.
        assignments: The recorded assignments of the same writers.
        sends: The sends of the same writers, with the columns op_id, process, topic, topic_id,
            partition.

    Returns:
        The new `left-out` rows, with the columns of `assignments`.
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
    # After the last assignment, no later one can leave out a partition.
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
    """Reduce consecutive ops and their sends to the few rows that `left_out` needs.

    Args:
        ops: Some consecutive operations of a writer, with the columns that `left_out` needs.
        sends: The sends of these operations.

    Returns:
        Two tables. The first has the ops that assign partitions. The second has sends: for each
            process and partition, one send between two assignments.
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
    """Return one send for each operation and partition."""
    cuts = runs_of(ints(sends, "op_id"), *(codes(sends, name)[0] for name in _PLACE[:2]),
                   ints(sends, "partition"))  # fmt: skip
    return take(sends.select(_TOUCH), cuts[:-1])


def _places(rows: pa.Table) -> Ints:
    """Assign a number to each distinct partition of a table. Return the number for each row."""
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
