"""Drop old answers about leaders and replicas, to save memory.

The answers come from observers, which ask brokers during the run.

- Recent answers are all kept.
- If successive older answers have the same content, only the first and the last are kept. These two
  answers show when a leader epoch, an ISR or a broker's incarnation began.
- Very old answers are kept only if they are the first of a series. If a later answer differs from
  the first answer, something changed.

Each dropped row was already compared with its neighbours. The judge at the run's end reads all rows
again.
"""

import numpy as np
import pyarrow as pa

from checkers.columns import Mask, codes, ints, select

_SERIES = {
    "leadership": ("topic", "partition", "source", "observer"),
    "replica_states": ("topic", "partition", "node"),
}
"""The columns that identify a series of answers, by table. Each answer belongs to one series."""
_SAID = {
    "leadership": ("incarnation", "leader", "leader_epoch", "isr"),
    "replica_states": ("incarnation",),
}
"""The columns to compare, by table. A row is new if one of them differs from the previous row."""


def thinned(name: str, rows: pa.Table, *, fresh_ns: int, old_ns: int) -> pa.Table:
    """Return the rows of one observer that are worth keeping, in their original order.

    Args:
        name: The table: `leadership` or `replica_states`.
        rows: The rows, in the order in which they were written.
        fresh_ns: Every row that was observed at this time or later is kept.
        old_ns: Before this time, only the first row of each series is kept.
    """
    if not rows.num_rows:
        return rows
    series = [_numbers(rows, each) for each in _SERIES[name]]
    said = [_numbers(rows, each) for each in _SAID[name]]
    order = np.lexsort(series[::-1])
    first = _differs(series, order)
    news = first | _differs(said, order)
    last = np.append(news[1:], True)
    seen_ns = ints(rows, "observed_ns")[order]
    keep = np.zeros(rows.num_rows, dtype=np.bool_)
    keep[order] = first | (seen_ns >= fresh_ns) | ((news | last) & (seen_ns >= old_ns))
    return select(rows, keep)


def _differs(columns: list[np.ndarray], order: np.ndarray) -> Mask:
    """Return a mask of the rows that differ from the previous row in the given order."""
    new = np.zeros(len(order), dtype=np.bool_)
    new[0] = True
    for column in columns:
        taken = column[order]
        new[1:] |= taken[1:] != taken[:-1]
    return new


def _numbers(rows: pa.Table, name: str) -> np.ndarray:
    kind = rows.schema.field(name).type
    if pa.types.is_list(kind):
        return np.asarray(codes(_as_words(rows, name), name)[0])
    return np.asarray(codes(rows, name)[0] if _is_text(kind) else ints(rows, name))


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_dictionary(kind)


def _as_words(rows: pa.Table, name: str) -> pa.Table:
    return pa.table({name: pa.array([str(each) for each in rows[name].to_pylist()])})
