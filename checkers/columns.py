"""Read Arrow columns as numpy arrays, and provide set operations that checkers share."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NONE = -1
"""The integer that stands for null, because offsets, epochs and times are never negative."""
NEVER: Final = int(np.iinfo(np.int64).max)
"""Later than all times, and higher than all offsets, epochs and numbers."""
_FEW = 127
"""If there are fewer distinct strings than this, one byte is used for each number."""
PIECE_ROWS = 4_000_000
"""Where possible, checkers process big tables in chunks of about this many rows."""
_SOME = 10_000
"""How many keys are sampled. The key ranges of the chunks are estimated from this sample."""
_PIECE = 1 << 18
_DENSE = 4
"""A lookup table has at most this many places for each number. Otherwise, the code sorts."""


def array_of(table: pa.Table, name: str) -> "pa.Array[Any]":
    """Return a column as one chunk, without a copy if it already is one chunk."""
    column = table[name]
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return cast("pa.Array[Any]", whole)


def ints(table: pa.Table, name: str) -> Ints:
    """Return an integer or boolean column as int64 with nulls as `NONE`. It may be read-only."""
    column = array_of(table, name)
    if pa.types.is_integer(column.type) and not column.null_count:
        # Many groups are small. This takes a tenth of the time of the general code below.
        return np.asarray(column.to_numpy(), dtype=np.int64)
    whole = column.cast(pa.int64()).fill_null(NONE)
    return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.int64)


def codes(table: pa.Table, name: str) -> tuple[npt.NDArray[Any], list[str]]:
    """Return a string column as integer codes (-1 for nulls), and the sorted distinct strings.

    Big tables store such a column as a dictionary: a few strings, and one number for each row. The
    result has all strings of the dictionary, also if no row has them (see `words_of`).
    """
    column = array_of(table, name)
    if not isinstance(column, pa.DictionaryArray):
        column = column.dictionary_encode()
    told = [str(word) for word in column.dictionary.to_pylist()]
    words = sorted(set(told))
    rank = {word: at for at, word in enumerate(words)}
    kind = np.int8 if len(words) < _FEW else np.int64
    ranks = np.array([*(rank[word] for word in told), NONE], dtype=kind)
    at = column.indices.fill_null(len(told)) if column.null_count else column.indices
    return _looked_up(ranks, at.to_numpy(zero_copy_only=False)), words


def _looked_up(words: npt.NDArray[Any], at: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `words[at]`, in chunks, because numpy turns each small index into eight bytes."""
    if len(at) <= _PIECE:
        return np.asarray(words[at])
    found = np.empty(len(at), dtype=words.dtype)
    for start in range(0, len(at), _PIECE):
        found[start : start + _PIECE] = words[at[start : start + _PIECE]]
    return found


def texts(table: pa.Table, name: str) -> list[str]:
    """Return a string column as Python strings, with nulls as empty strings."""
    numbers, words = codes(table, name)
    found: list[str] = np.array([*words, ""], dtype=object)[numbers].tolist()
    return found


def words_of(table: pa.Table, name: str) -> list[str]:
    """Return the sorted distinct strings of a column, without nulls."""
    numbers, words = codes(table, name)
    return [words[at] for at in np.unique(numbers).tolist() if at >= 0]


def present(table: pa.Table, name: str) -> Mask:
    """Return a mask that is true where the column is not null."""
    column = array_of(table, name)
    if not column.null_count:
        return np.ones(len(column), dtype=np.bool_)
    return np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), dtype=np.bool_)


def equal(table: pa.Table, name: str, *words: object) -> Mask:
    """Return a mask that is true where the column holds one of the words. Nulls are false."""
    column = array_of(table, name)
    if isinstance(column, pa.DictionaryArray):
        numbers, known = codes(table, name)
        wanted: Mask = np.array([*(word in words for word in known), False], dtype=np.bool_)
        return np.asarray(_looked_up(wanted, numbers), dtype=np.bool_)
    found = pc.is_in(column, value_set=pa.array(words, type=column.type))
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def select(table: pa.Table, mask: Mask) -> pa.Table:
    """Return the rows where the mask is true. If all rows are selected, nothing is copied."""
    return table if mask.all() else table.filter(pa.array(mask)).combine_chunks()


def slices(table: pa.Table, names: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the named columns of a table in slices of `PIECE_ROWS` rows.

    An empty table gives one slice.
    """
    rows = table.select(list(names))
    for start in range(0, max(1, rows.num_rows), PIECE_ROWS):
        yield rows.slice(start, PIECE_ROWS)


def pieces(table: pa.Table, names: Sequence[str], keys: Ints) -> Iterator[pa.Table]:
    """Yield the named columns of a table in chunks of whole keys, in ascending order of the keys.

    All rows of a key are in one chunk.

    Args:
        table: A table of at most `PIECE_ROWS` rows is one chunk.
        names: The names of the columns.
        keys: The key of each row.
    """
    rows = table.select(list(names))
    if len(keys) <= PIECE_ROWS:
        yield rows
        return
    sample = np.sort(keys[:: max(1, len(keys) // _SOME)])
    edges = np.unique(sample[:: max(1, len(sample) * PIECE_ROWS // len(keys))])[1:]
    for low, high in zip([None, *edges], [*edges, None], strict=True):
        mask = np.ones(len(keys), dtype=np.bool_) if low is None else keys >= low
        if high is not None:
            mask &= keys < high
        yield rows.filter(pa.array(mask)).combine_chunks()


def runs_of(*columns: npt.NDArray[Any]) -> Ints:
    """Return where each group of successive equal rows begins, followed by the row count."""
    length = len(columns[0])
    if not length:
        return np.zeros(1, dtype=np.int64)
    differs = np.zeros(length, dtype=np.bool_)
    differs[0] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.append(np.flatnonzero(differs), length)


def distinct(numbers: Ints) -> Ints:
    """Return the distinct numbers of a column in ascending order.

    `np.unique` hashes every number. For millions of numbers that are mostly sorted, sorting takes
    one fiftieth of the time.
    """
    ranked = ascending(numbers)
    return ranked[runs_of(ranked)[:-1]]


def ascending(numbers: Ints) -> Ints:
    """Return the numbers in ascending order.

    If the array is already sorted, return the array itself.
    """
    return numbers if (numbers[1:] >= numbers[:-1]).all() else np.sort(numbers)


def within(numbers: Ints, among: Ints) -> Mask:
    """Return a mask of the numbers that also occur in `among`.

    `np.isin` uses a hash table if one number is far from the others. `NONE`, the value of a control
    record, is such a number. A hash table is thirty times slower than sorting.
    """
    if not len(numbers):
        return np.zeros(0, dtype=np.bool_)
    near = among[(among >= numbers.min()) & (among <= numbers.max())]
    if not len(near):
        return np.zeros(len(numbers), dtype=np.bool_)
    if int(near.max()) - int(near.min()) <= _DENSE * (len(numbers) + len(near)):
        return np.isin(numbers, near, kind="table")
    ranked = distinct(near)
    at = np.minimum(np.searchsorted(ranked, numbers), len(ranked) - 1)
    return np.asarray(ranked[at] == numbers, dtype=np.bool_)


def first_match(keys: Ints, among: Ints) -> Ints:
    """Return, for each key, the index of its first occurrence in `among`, or -1."""
    if not len(among):
        return np.full(len(keys), NONE, dtype=np.int64)
    low, high = int(among.min()), int(among.max())
    if high - low <= _DENSE * (len(keys) + len(among)):
        return _first_in_table(keys, among, low=low, width=high - low + 1)
    if (among[1:] >= among[:-1]).all():
        at = np.minimum(np.searchsorted(among, keys), len(among) - 1)
        return np.where(among[at] == keys, at, NONE)
    order = np.argsort(among, kind="stable")
    ranked = among[order]
    at = np.minimum(np.searchsorted(ranked, keys), len(among) - 1)
    return np.where(ranked[at] == keys, order[at], NONE)


def _first_in_table(keys: Ints, among: Ints, *, low: int, width: int) -> Ints:
    """Do the work of `first_match` with a lookup table, ten times faster than by search."""
    table = np.full(width + 1, NONE, dtype=np.int64)
    # Reversed, so the first index wins.
    table[among[::-1] - low] = np.arange(len(among) - 1, -1, -1)
    inside = (keys >= low) & (keys < low + width)
    return np.asarray(table[np.where(inside, keys - low, width)], dtype=np.int64)


def shared(one: Ints, other: Ints) -> tuple[Ints | slice, Ints | slice]:
    """Return the indices at which two ascending columns have equal numbers, each number once.

    Equal columns are neither searched nor copied. The offsets of two replicas are mostly equal.
    """
    if np.array_equal(one, other) and (one[1:] > one[:-1]).all():
        return slice(None), slice(None)
    _, left, right = np.intersect1d(one, other, return_indices=True)
    return left, right


def unique_pairs(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Return the distinct pairs of two columns, sorted by the first and then the second column."""
    one, two = _paired(first, second)
    fresh = np.ones(len(one), dtype=np.bool_)
    fresh[1:] = (one[1:] != one[:-1]) | (two[1:] != two[:-1])
    return one[fresh], two[fresh]


def _paired(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Return pairs in sorted order.

    If both numbers fit in one integer, the pairs are sorted as integers, which is much faster.
    """
    if not len(first) or (first[1:] > first[:-1]).all():
        return first, second
    low, high = (int(first.min()), int(second.min())), (int(first.max()), int(second.max()))
    width = high[1] - low[1] + 1
    if (high[0] - low[0] + 1) * width >= NEVER:
        order = np.lexsort((second, first))
        return first[order], second[order]
    packed = np.sort((first - low[0]) * width + (second - low[1]))
    return packed // width + low[0], packed % width + low[1]


def order_of(*keys: Ints) -> Ints:
    """Return the order that sorts rows by the given keys, the first key first. The sort is stable.

    If the keys and the row number fit in one integer, the rows are sorted as integers. That is many
    times faster.

    Args:
        keys: One array for each key.
    """
    count = len(keys[0])
    packed, width = np.zeros(count, dtype=np.int64), 1
    for key in (*keys, np.arange(count)) if count else ():
        low, high = int(key.min()), int(key.max())
        width *= high - low + 1
        if width >= NEVER:
            return np.asarray(np.lexsort(keys[::-1]), dtype=np.int64)
        packed = packed * (high - low + 1) + (key - low)
    return np.sort(packed) % max(count, 1)


def repeated(ordered: Ints) -> Ints:
    """Return the values that occur more than once in a sorted column, each value once."""
    return distinct(ordered[1:][ordered[1:] == ordered[:-1]])


def stack(columns: Sequence[Ints]) -> Ints:
    """Return columns joined end to end."""
    return np.concatenate([np.asarray(column, dtype=np.int64) for column in columns])


def rows_at(table: pa.Table, name: str, at: Ints) -> "pa.Array[Any]":
    """Return a column's values at the given row numbers; null where the row number is -1."""
    rows = pa.array(at, pa.int64(), mask=at < 0)
    return array_of(table, name).take(rows)


def take(table: pa.Table, at: Ints) -> pa.Table:
    """Return the given rows of a table, in the given order."""
    return table.take(pa.array(at, pa.int64()))


def repeat(word: str, times: int) -> "pa.StringArray":
    """Return a column with the same string in every row."""
    return pa.repeat(pa.scalar(word, pa.string()), times)


def coded(column: "pa.Array[Any] | pa.ChunkedArray[Any]") -> "pa.Array[Any]":
    """Return a column as one chunk. Strings are dictionary-coded, with byte indices if possible."""
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.DictionaryArray) and len(column.dictionary) < _FEW:
        few = column.indices.cast(pa.int8())
        return pa.DictionaryArray.from_arrays(few, column.dictionary)
    return cast("pa.Array[Any]", column)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Join tables with equal columns end to end. Each column becomes one chunk, as in `coded`."""
    names = tables[0].column_names
    return pa.table({name: _joined([table[name] for table in tables]) for name in names})


def _joined(columns: "Sequence[pa.ChunkedArray[Any]]") -> "pa.Array[Any]":
    chunks: list[pa.Array[Any]] = [chunk for column in columns for chunk in column.chunks]
    kind: pa.DataType = columns[0].type
    if any(pa.types.is_dictionary(column.type) for column in columns):
        kind = pa.dictionary(pa.int32(), pa.string())
        chunks = [
            (chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()).cast(kind)
            for chunk in chunks
        ]
    stacked: pa.ChunkedArray[Any] = pa.chunked_array(chunks, kind)  # type: ignore[call-overload]  # Any type.
    return coded(stacked)


def nullable(numbers: Ints) -> "pa.Int64Array":
    """Return integers as an Arrow column, with `NONE` as null."""
    return pa.array(numbers, pa.int64(), mask=numbers == NONE)


def schema_of(**columns: pa.DataType) -> pa.Schema:
    """Return a schema of nullable columns, in the given order."""
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])
