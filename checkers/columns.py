"""Columns of Arrow tables as numpy arrays, and the few set operations that kernels share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NONE = -1
"""What a null becomes in an integer column; offsets, epochs and times are never negative."""


def ints(table: pa.Table, name: str) -> Ints:
    """Return an integer or boolean column as int64, nulls as `NONE`."""
    column = table[name].combine_chunks().cast(pa.int64())
    return np.asarray(column.fill_null(NONE).to_numpy(zero_copy_only=False), dtype=np.int64)


def texts(table: pa.Table, name: str) -> list[str]:
    """Return a string column as Python strings, nulls as empty ones."""
    return [value or "" for value in table[name].to_pylist()]


def present(table: pa.Table, name: str) -> Mask:
    """Tell where a column is not null."""
    valid = pc.is_valid(table[name].combine_chunks())
    return np.asarray(valid.to_numpy(zero_copy_only=False), dtype=np.bool_)


def equal(table: pa.Table, name: str, *words: object) -> Mask:
    """Tell where a column holds one of some values; a null holds none."""
    column = table[name].combine_chunks()
    found = pc.is_in(column, value_set=pa.array(words, type=column.type))
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def select(table: pa.Table, mask: Mask) -> pa.Table:
    """Return the rows of a table where the mask is true."""
    return table.filter(pa.array(mask))


def first_match(keys: Ints, among: Ints) -> Ints:
    """Return for each key the first index at which `among` holds it, or -1."""
    if not len(among):
        return np.full(len(keys), NONE, dtype=np.int64)
    order = np.argsort(among, kind="stable")
    ranked = among[order]
    at = np.minimum(np.searchsorted(ranked, keys), len(among) - 1)
    return np.where(ranked[at] == keys, order[at], NONE)


def unique_pairs(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Return the distinct pairs of two columns, by the first and then the second."""
    order = np.lexsort((second, first))
    one, two = first[order], second[order]
    fresh = np.ones(len(one), dtype=np.bool_)
    fresh[1:] = (one[1:] != one[:-1]) | (two[1:] != two[:-1])
    return one[fresh], two[fresh]


def repeated(ordered: Ints) -> Ints:
    """Return the values that an ordered column holds more than once, each once."""
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def stack(columns: Sequence[Ints]) -> Ints:
    """Return columns end to end."""
    return np.concatenate([np.asarray(column, dtype=np.int64) for column in columns])


def rows_at(table: pa.Table, name: str, at: Ints) -> "pa.Array[Any]":
    """Return a column's values at some rows, null where the row is -1."""
    rows = pa.array(at, pa.int64(), mask=at < 0)
    return table[name].combine_chunks().take(rows)


def take(table: pa.Table, at: Ints) -> pa.Table:
    """Return some rows of a table, in the order given."""
    return table.take(pa.array(at, pa.int64()))


def repeat(word: str, times: int) -> "pa.StringArray":
    """Return a column that says the same in every row."""
    return pa.array([word] * times, pa.string())


def nullable(numbers: Ints) -> "pa.Int64Array":
    """Return integers as an Arrow column, null where they are `NONE`."""
    return pa.array(numbers, pa.int64(), mask=numbers == NONE)


def schema_of(**columns: pa.DataType) -> pa.Schema:
    """Return a schema of nullable columns, in the order given."""
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])
