"""What observers told of leaders and replicas, thinned as it grows old.

The newest answers are kept as they are. Of older ones those are kept that say something new, for
they tell when an epoch, an ISR or a broker's life began; of very old ones the first that each
observer gave, so that whatever came after it is known to be a change. Every row that is left out
leaves pairs of answers that were compared before.
"""

import numpy as np
import pyarrow as pa

from checkers.columns import Mask, codes, ints, select

_SERIES = {
    "leadership": ("topic", "partition", "source", "observer"),
    "replica_states": ("topic", "partition", "node"),
}
"""Whose answers follow each other."""
_SAID = {
    "leadership": ("incarnation", "leader", "leader_epoch", "isr"),
    "replica_states": ("incarnation",),
}
"""What of an answer is new, if it is."""


def thinned(name: str, rows: pa.Table, *, fresh_ns: int, old_ns: int) -> pa.Table:
    """Return the rows of one observer that are worth keeping, in their order.

    Args:
        name: Of the table: `leadership` or `replica_states`.
        rows: In the order in which they were written.
        fresh_ns: What was observed later stays.
        old_ns: Of what was observed earlier only the first row of each series stays.
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
    """Tell which rows, taken in an order, differ from the one before them."""
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
