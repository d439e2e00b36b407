"""The order of each table's rows: the same whichever engine, however many files and tasks.

Rows that come in their order, as stored records do, are not sorted again: looking costs a hundredth
of sorting.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from checkers.columns import array_of, codes, ints, take

PLACE = ("topic", "topic_id", "partition")
"""What names a partition."""
_KEYS: dict[str, tuple[str, ...]] = {
    "ops": ("op_id", "invoke_ns", "complete_ns"),
    "sends": ("op_id", "mop", "value"),
    "polls": ("op_id", "mop", "pos", "offset", "value"),
    "arrivals": ("window_ns", "worker", "phase"),
    "availability": ("window_ns",),
    "assignments": ("op_id", "time_ns", *PLACE, "kind"),
    "transactions": ("txn_id", "op_id"),
    "final_reads": ("isolation", "target_end", "reached"),
    "reservations": ("value_from", "value_to", "worker"),
    "faults": ("fault_id", "requested_ns"),
    "leadership": ("source", "observer", "log_offset", "observed_ns", "asked_ns",
                   "leader_epoch", "leader"),
    "replica_records": ("snapshot", "node", "offset", "leader_epoch", "record_hash"),
    "replica_states": ("observed_ns", "node", "snapshot", "incarnation", "log_end_offset"),
    "truncations": ("observed_ns", "node", "from_offset", "to_offset", "source"),
    "quorum_states": ("observed_ns", "node", "incarnation", "epoch", "log_end_offset"),
}  # fmt: skip
_LAST = np.iinfo(np.int64).max
_Keys = list[npt.NDArray[Any]]


def ordered(name: str, table: pa.Table) -> pa.Table:
    """Return the rows of a table in its order, place by place; nulls come last."""
    if table.num_rows <= 1:
        return table
    names = [*PLACE, *(key for key in _KEYS[name] if key not in PLACE)]
    keys = [_key(table, each) for each in names if each in table.column_names]
    if in_order(keys):
        return table
    return take(table, np.lexsort(keys[::-1]))


def in_order(keys: Sequence[npt.NDArray[Any]]) -> bool:
    """Tell whether rows are in the order of their keys, the first one first."""
    tied = np.ones(max(0, len(keys[0]) - 1), dtype=np.bool_)
    for key in keys:
        if (tied & (key[:-1] > key[1:])).any():
            return False
        tied &= key[:-1] == key[1:]
        if not tied.any():
            break
    return True


def _key(table: pa.Table, name: str) -> npt.NDArray[Any]:
    column = array_of(table, name)
    if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
        numbers, words = codes(table, name)
        return np.where(numbers < 0, len(words), numbers) if column.null_count else numbers
    numbers = ints(table, name)
    return np.where(column.is_valid(), numbers, _LAST) if column.null_count else numbers
