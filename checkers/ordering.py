"""Sort the rows of each table, so that all engines, files and tasks give the same row order.

Stored records are usually in order already. Such records are not sorted again. A check of the order
takes a hundredth of the time of a sort.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from checkers.columns import array_of, codes, ints, take

PLACE = ("topic", "topic_id", "partition")
"""The columns that identify a partition."""
_KEYS: dict[str, tuple[str, ...]] = {
    "ops": ("op_id", "invoke_ns", "complete_ns"),
    "sends": ("op_id", "mop", "value"),
    "polls": ("op_id", "mop", "pos", "offset", "value"),
    "arrivals": ("window_ns", "worker", "phase"),
    "availability": ("window_ns",),
    "assignments": ("op_id", "time_ns", *PLACE, "kind"),
    "commits": ("op_id", "asked_ns", "act", "process", "offset"),
    "transactions": ("txn_id", "op_id"),
    "final_reads": ("isolation", "target_end", "reached"),
    "reservations": ("value_from", "value_to", "worker"),
    "faults": ("fault_id", "requested_ns"),
    "leadership": ("source", "observer", "log_offset", "observed_ns", "asked_ns",
                   "leader_epoch", "leader"),
    "replica_records": ("snapshot", "node", "offset", "leader_epoch", "record_hash"),
    "replica_states": ("observed_ns", "node", "snapshot", "incarnation", "log_end_offset"),
    "kept_commits": ("snapshot", "node", "log_partition", "log_offset"),
    "transforms": ("offset", "op_id", "result"),
    "shared": ("offset", "op_id", "asked_ns", "act", "process"),
    "truncations": ("observed_ns", "node", "from_offset", "to_offset", "source"),
    "quorum_states": ("observed_ns", "node", "incarnation", "epoch", "log_end_offset"),
}  # fmt: skip
_LAST = np.iinfo(np.int64).max
_SMALL = np.iinfo(np.int16).max
"""The largest number of partitions that are sorted in one pass."""
_Keys = list[npt.NDArray[Any]]


def ordered(name: str, table: pa.Table) -> pa.Table:
    """Return a table sorted by partition, and then by the table's sort keys. Nulls come last."""
    if table.num_rows <= 1:
        return table
    names = [each for each in (*PLACE, *_KEYS[name]) if each in table.column_names]
    if in_order(_key(table, each) for each in names):  # Most often the first keys decide.
        return table
    keys = [_key(table, each) for each in _KEYS[name] if each in table.column_names]
    places = [_key(table, each) for each in PLACE if each in table.column_names]
    numbered = _numbered(places)
    if len(numbered) == 1 and in_order(keys):  # In a writer's order, one pass is enough.
        return take(table, np.argsort(numbered[0], kind="stable"))
    return take(table, np.lexsort([*keys[::-1], *numbered[::-1]]))


def _numbered(places: _Keys) -> _Keys:
    """Return the columns of the partition key as one 16-bit key; unchanged if they do not fit."""
    number = np.zeros(len(places[0]) if places else 0, dtype=np.int64)
    width = 1
    for key in places:
        least, most = int(key.min()), int(key.max())
        width *= most - least + 1
        if width > _SMALL:
            return places
        number = number * (most - least + 1) + (key - least)
    return [number.astype(np.int16)] if places else []


def sort_keys(name: str) -> Sequence[str]:
    """Return the columns that sort a partition's rows in a table, the most significant first."""
    return _KEYS[name]


def in_order(keys: Iterable[npt.NDArray[Any]]) -> bool:
    """Return whether rows are sorted by their key columns, most significant key first."""
    tied: npt.NDArray[np.bool_] | None = None
    for key in keys:
        back, same = key[:-1] > key[1:], key[:-1] == key[1:]
        if (back if tied is None else back & tied).any():
            return False
        tied = same if tied is None else same & tied
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
