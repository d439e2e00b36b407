"""Tables of a group that are too big to lie in memory: their columns are read when asked for.

A partition with ten million sends has sixty million rows; no check needs more than a few of their
columns, but all columns together are gigabytes. So a big table is only a promise: it has the names
of its columns, and reads one from its file when a kernel takes it. What was read is kept on the
group's `Shelf`, until that is cleared between two checks.
"""

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

ROOM_BYTES = 1 << 30
"""When more is kept, the shelf is cleared."""
Reader = Callable[[str], "pa.Array[Any]"]


class Shelf:
    """Columns that can be read again."""

    def __init__(self) -> None:
        self._kept: dict[tuple[ShelvedTable, str], pa.Array[Any]] = {}

    @property
    def full(self) -> bool:
        """Whether the columns take more memory than is meant for them."""
        return sum(column.nbytes for column in self._kept.values()) > ROOM_BYTES

    def column(self, table: "ShelvedTable", name: str, read: Reader) -> "pa.Array[Any]":
        """Return a column of a table, read at most once until the shelf is cleared."""
        if (table, name) not in self._kept:
            self._kept[table, name] = read(name)
        return self._kept[table, name]

    def clear(self) -> None:
        """Forget all columns."""
        self._kept.clear()


class ShelvedTable:
    """As much of a `pyarrow.Table` as kernels use, with columns that are read when asked for.

    Args:
        names: Of its columns.
        rows: How many it has.
        read: Gives a column, in one piece.
        shelf: Where columns are kept, of this table and of those that are made of it.
        kept: Whether they are: those of a slice cost nothing.
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
        """How many rows it has."""
        return self.num_rows

    def __getitem__(self, name: str) -> "pa.ChunkedArray[Any]":
        """Return a column."""
        return pa.chunked_array([self.column(name)])

    def column(self, name: str) -> "pa.Array[Any]":
        """Return a column in one piece."""
        if name not in self.column_names:
            raise KeyError(name)
        return self.shelf.column(self, name, self._read) if self._kept else self._read(name)

    def select(self, names: Sequence[str]) -> pa.Table:
        """Return some columns, read and in memory."""
        return pa.table({name: self.column(name) for name in names})

    def slice(self, offset: int = 0, length: int | None = None) -> "ShelvedTable":
        """Return rows that follow each other."""
        rest = max(0, self.num_rows - offset)
        rows = rest if length is None else min(length, rest)
        return self._made(rows, lambda name: self.column(name).slice(offset, rows), kept=False)

    def filter(self, mask: "pa.BooleanArray") -> "ShelvedTable":
        """Return the rows for which a mask holds."""
        return self._made(int(mask.true_count), lambda name: self.column(name).filter(mask))

    def take(self, indices: "pa.Int64Array") -> "ShelvedTable":
        """Return some rows, in the order given."""
        return self._made(len(indices), lambda name: self.column(name).take(indices))

    def sort_by(self, name: str) -> "ShelvedTable":
        """Return the rows in the order of a column."""
        order = pc.array_sort_indices(self.column(name)).to_numpy()
        return self.take(pa.array(order, type=pa.int64()))

    def combine_chunks(self) -> "ShelvedTable":
        """Return itself: each column is in one piece."""
        return self

    def _made(self, rows: int, read: Reader, *, kept: bool = True) -> "ShelvedTable":
        return ShelvedTable(self.column_names, rows, read, shelf=self.shelf, kept=kept)


def is_shelved(table: object) -> bool:
    """Tell whether columns of a table are read when asked for."""
    return isinstance(table, ShelvedTable)


def shelf_of(tables: Iterable[object]) -> Shelf | None:
    """Return where the columns of a group's big tables are kept, None if it has none."""
    return next((table.shelf for table in tables if isinstance(table, ShelvedTable)), None)


def cleared(tables: MutableMapping[str, pa.Table]) -> None:
    """Let go of a group's tables, and give their memory back."""
    shelf = shelf_of(tables.values())
    if shelf is not None:
        shelf.clear()
    tables.clear()
    pa.default_memory_pool().release_unused()
