"""Represent tables that are too large for memory, and read their columns on demand.

A partition with ten million sends has sixty million rows. A check needs only a few columns, but all
columns together take gigabytes. So a large table keeps only the names of its columns. The table
reads a column from the file when a check uses that column. The group's `Shelf` caches the columns.
Between two checks, the runner clears the cache if it is larger than `ROOM_BYTES`.
"""

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

ROOM_BYTES = 1 << 30
"""The size in bytes above which the cache of columns is cleared."""
Reader = Callable[[str], "pa.Array[Any]"]


class Shelf:
    """A cache of columns that can be read again from their files."""

    def __init__(self) -> None:
        self._kept: dict[tuple[ShelvedTable, str], pa.Array[Any]] = {}

    @property
    def full(self) -> bool:
        """Whether the cached columns take more memory than `ROOM_BYTES`."""
        return sum(column.nbytes for column in self._kept.values()) > ROOM_BYTES

    def column(self, table: "ShelvedTable", name: str, read: Reader) -> "pa.Array[Any]":
        """Return a column of a table. Until the cache is cleared, each column is read only once."""
        if (table, name) not in self._kept:
            self._kept[table, name] = read(name)
        return self._kept[table, name]

    def clear(self) -> None:
        """Remove all columns from the cache."""
        self._kept.clear()


class ShelvedTable:
    """A table with the part of the `pyarrow.Table` interface that checks use.

    A column is read from its file only when a check uses it.

    Args:
        names: The names of the table's columns.
        rows: The number of rows.
        read: A function that returns a column as one array.
        shelf: The cache for the columns of this table, and of all tables that are derived from this
            table.
        kept: Whether columns are cached. The columns of a slice are not cached, because slicing a
            column costs nothing.
    """

    def __init__(
        self, names: Sequence[str], rows: int, read: Reader, *, shelf: Shelf, kept: bool = True
    ) -> None:
        self.column_names = list(names)
        self.num_rows = rows
        self.shelf = shelf
        self._read = read
        self._kept = kept

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.num_rows

    def __getitem__(self, name: str) -> "pa.ChunkedArray[Any]":
        """Return a column."""
        return pa.chunked_array([self.column(name)])

    def column(self, name: str) -> "pa.Array[Any]":
        """Return a column as one array."""
        if name not in self.column_names:
            raise KeyError(name)
        return self.shelf.column(self, name, self._read) if self._kept else self._read(name)

    def select(self, names: Sequence[str]) -> pa.Table:
        """Return the named columns as a table in memory."""
        return pa.table({name: self.column(name) for name in names})

    def slice(self, offset: int = 0, length: int | None = None) -> "ShelvedTable":
        """Return a range of consecutive rows."""
        rest = max(0, self.num_rows - offset)
        rows = rest if length is None else min(length, rest)
        return self._made(rows, lambda name: self.column(name).slice(offset, rows), kept=False)

    def filter(self, mask: "pa.BooleanArray") -> "ShelvedTable":
        """Return the rows for which a mask is true."""
        return self._made(int(mask.true_count), lambda name: self.column(name).filter(mask))

    def take(self, indices: "pa.Int64Array") -> "ShelvedTable":
        """Return the rows at the given indices, in the given order."""
        return self._made(len(indices), lambda name: self.column(name).take(indices))

    def sort_by(self, name: str) -> "ShelvedTable":
        """Return the rows sorted by a column."""
        order = pc.array_sort_indices(self.column(name)).to_numpy()
        return self.take(pa.array(order, type=pa.int64()))

    def combine_chunks(self) -> "ShelvedTable":
        """Return the table itself, because each column is one array already."""
        return self

    def _made(self, rows: int, read: Reader, *, kept: bool = True) -> "ShelvedTable":
        return ShelvedTable(self.column_names, rows, read, shelf=self.shelf, kept=kept)


def is_shelved(table: object) -> bool:
    """Return whether a table reads its columns on demand."""
    return isinstance(table, ShelvedTable)


def shelf_of(tables: Iterable[object]) -> Shelf | None:
    """Return the column cache of a group's large tables, or None if the group has no such table."""
    return next((table.shelf for table in tables if isinstance(table, ShelvedTable)), None)


def cleared(tables: MutableMapping[str, pa.Table]) -> None:
    """Delete a group's tables and return the memory to the operating system."""
    shelf = shelf_of(tables.values())
    if shelf is not None:
        shelf.clear()
    tables.clear()
    pa.default_memory_pool().release_unused()
