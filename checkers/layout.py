"""The format of a table's Parquet file: sorted by place, with one place in each row group.

So a task that judges one partition reads only that partition's row groups. A run of ten million
rows is never in memory as a whole. Older files can be read too. If a row group of such a file has
several places, it is split row by row.

Strings are read as dictionaries. A column with fewer than 127 distinct strings takes one byte for
each row.
"""

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.columns import coded, codes, equal, ints, present, runs_of, take
from checkers.ordering import PLACE
from checkers.shelf import Shelf, ShelvedTable
from results.record.parquet import open_parquet
from results.record.tables import BROKEN, LATER_COLUMNS, TABLES
from results.record.whole import written_whole

Place = tuple[str, str, int]
"""(topic, topic_id, partition); empty and -1 for a whole run."""
Reach = tuple[tuple[str | int, ...], tuple[str | int, ...]]
"""The lowest and the highest key of some rows. A key may be without its last columns."""
RUN: Place = ("", "", -1)
"""The place of a whole run."""
_TOGETHER_ROWS = 1 << 19
"""If there are more rows than this, columns are read one by one."""
GROUP_ROWS = 1 << 20
"""The maximum number of rows in a row group. A place has as many row groups as it needs."""


class DamagedError(Exception):
    """An error: some tables of a run are damaged.

    Attributes:
        names: The names of the damaged tables.
    """

    def __init__(self, *names: str) -> None:
        super().__init__(", ".join(names))
        self.names = names


def write_table(path: Path, name: str, parts: Iterable[pa.Table]) -> None:
    """Write a table's file.

    Args:
        path: The file.
        name: The table's name.
        parts: The table's rows in order, with coded or plain strings. A place is in one part, or in
            parts that follow each other.
    """
    schema = TABLES[name]
    strings = [each.name for each in schema if pa.types.is_string(each.type)]
    numbers = [each.name for each in schema if pa.types.is_integer(each.type)]
    written = pa.schema([
        pa.field(each.name, pa.dictionary(pa.int32(), pa.string()))
        if each.name in strings
        else each
        for each in schema
    ])  # fmt: skip
    with (
        written_whole(path) as file,
        pq.ParquetWriter(
            file,
            written,
            compression="zstd",
            compression_level=1,
            use_dictionary=strings,  # type: ignore[arg-type]  # The stubs lack lists.
            # Offsets, values and times grow slowly, so this takes half the time of plain numbers.
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
            # With checksums, a flipped bit is detected as damage.
            write_page_checksum=True,
            store_schema=False,
        ) as writer,
    ):
        for part in parts:
            # Coded strings are written unchanged. A cast to plain strings would need gigabytes.
            columns = [_written(part[each.name], each.type) for each in written]
            ready = pa.Table.from_arrays(columns, schema=written)
            for start, end in pairwise(_places(ready).tolist()):
                writer.write_table(ready.slice(start, end - start), row_group_size=GROUP_ROWS)
        # This schema gives readers plain strings.
        whole = base64.b64encode(schema.serialize().to_pybytes()).decode()
        writer.add_key_value_metadata({"ARROW:schema": whole})


def _written(
    column: "pa.ChunkedArray[Any]", kind: pa.DataType
) -> "pa.ChunkedArray[Any] | pa.Array[Any]":
    if pa.types.is_dictionary(kind):
        column = pa.chunked_array([coded(column)])
    return column.cast(kind)


def _places(table: pa.Table) -> "np.typing.NDArray[np.int64]":
    if not table.num_rows:
        return np.zeros(1, dtype=np.int64)
    keys = [name for name in PLACE if name in table.column_names]
    numbered = [codes(table, n)[0] if n != "partition" else _numbers(table) for n in keys]
    return runs_of(*numbered) if keys else np.unique([0, table.num_rows])


def _numbers(table: pa.Table) -> "np.typing.NDArray[np.int64]":
    return np.where(present(table, "partition"), ints(table, "partition"), np.iinfo(np.int64).min)


@dataclass(frozen=True)  # Not slotted, because what was read is cached.
class TableFile:
    """The Parquet file of one table of a record.

    Attributes:
        name: The table's name.
        path: The file's path.
        content: The file's bytes, if only Spark can read the path.
        own: Whether this check wrote the file. Then the file's declared sizes need no verification.
    """

    name: str
    path: Path
    content: pa.Buffer | None = None
    own: bool = False

    @cached_property
    def _file(self) -> pq.ParquetFile:
        strings = [each.name for each in TABLES[self.name] if pa.types.is_string(each.type)]
        return pq.ParquetFile(
            self._source(),
            page_checksum_verification=True,
            read_dictionary=strings,
            pre_buffer=False,
        )

    def _source(self) -> pa.NativeFile:
        if self.content is not None:
            return pa.BufferReader(self.content)
        return pa.OSFile(str(self.path), "rb") if self.own else open_parquet(self.path)

    @property
    def sound(self) -> bool:
        """Whether the file's footer lists the columns that its table must have."""
        try:
            there = self._file.schema.to_arrow_schema()
            whole = as_recorded(TABLES[self.name], there)
            return bool(there.equals(whole)) and self.rows >= 0
        except BROKEN:
            return False

    @property
    def rows(self) -> int:
        """The number of rows in the file."""
        return int(self._file.metadata.num_rows)

    def has(self, name: str) -> bool:
        """Return whether a column may have values that are not null. The statistics show this."""
        metadata = self._file.metadata
        if name not in metadata.schema.names:
            return False
        at = metadata.schema.names.index(name)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        told = [(group.column(at).statistics, group.num_rows) for group in groups]
        return any(not each or each.null_count != rows for each, rows in told)

    def reach(self, place: Place, names: Iterable[str]) -> Reach | None:
        """Return the lowest and the highest keys that rows of a place may have.

        Args:
            place: The place.
            names: The columns of the key. The result ends with the first column that varies, or
                before the first column without statistics.

        Returns:
            The two keys. The result is None if the first column has no statistics, or if the place
            has no rows.
        """
        low: list[str | int] = []
        high: list[str | int] = []
        for name in names:
            ends = self._ends(place, name)
            if not ends:
                break
            low.append(min(ends))
            high.append(max(ends))
            if low[-1] != high[-1]:
                break
        return (tuple(low), tuple(high)) if low else None

    def _ends(self, place: Place, name: str) -> list[Any]:
        """Return a column's lowest and highest values in each row group of a place.

        The result is empty if one row group has no statistics.
        """
        kind = TABLES[self.name].field(name).type
        read = int if pa.types.is_integer(kind) else str
        metadata = self._file.metadata
        if name not in metadata.schema.names or not (read is int or pa.types.is_string(kind)):
            return []
        at = metadata.schema.names.index(name)
        ends: list[Any] = []
        for number, of in enumerate(self.row_groups):
            if of == place:
                told = metadata.row_group(number).column(at).statistics
                if told is None or not told.has_min_max or told.null_count:
                    return []
                ends += [read(str(told.min)), read(str(told.max))]
        return ends

    @cached_property
    def row_groups(self) -> tuple[Place | None, ...]:
        """The place of each row group; None if it has several places, or rows without a place.

        Raises:
            DamagedError: The file's footer is damaged.
        """
        try:
            metadata = self._file.metadata
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            if "partition" not in TABLES[self.name].names:
                return (RUN,) * len(groups)
            at = [TABLES[self.name].names.index(name) for name in PLACE]
            return tuple(
                _one_place([group.column(each).statistics for each in at]) for group in groups
            )
        except BROKEN as broken:
            raise DamagedError(self.name) from broken

    @property
    def mixed(self) -> bool:
        """Whether any row group holds several places."""
        return None in self.row_groups

    def rows_by_place(self) -> dict[Place, int]:
        """Return the number of rows of each place.

        Raises:
            DamagedError: The file is damaged.
        """
        if self.mixed:
            return {place: rows.num_rows for place, rows in split(self.read_columns(PLACE))}
        rows: dict[Place, int] = {}
        for number, place in enumerate(self.row_groups):
            if place is not None:
                group = self._file.metadata.row_group(number)
                rows[place] = rows.get(place, 0) + group.num_rows
        return {place: count for place, count in rows.items() if count}

    def read(self, place: Place | None = None) -> pa.Table:
        """Return the rows of a place, or of all places.

        Every page is checked.

        Args:
            place: The place. It may be given only if the file is not mixed.

        Raises:
            DamagedError: The file is damaged.
        """
        if place is None:
            return self.read_columns(TABLES[self.name].names)
        table = self.rows_of(place)
        if place != RUN and not _all_of(table, place):
            raise DamagedError(self.name)
        return table

    def shelved(self, place: Place, shelf: Shelf) -> ShelvedTable:
        """Return the rows of a place as a table that reads each column on demand.

        To find damage, all columns are read once now, and then dropped. The table does not have the
        columns that identify the place.

        Args:
            place: The place. The file must not be mixed.
            shelf: The cache for columns.

        Raises:
            DamagedError: The file is damaged.
        """
        at = [at for at, of in enumerate(self.row_groups) if of == place]
        named = dict(zip(PLACE, place, strict=True))
        for name in TABLES[self.name].names:
            column = self._read(at, [name])
            if name in named and not equal(column, name, named[name]).all():
                raise DamagedError(self.name)
        rest = [name for name in TABLES[self.name].names if name not in {"run_id", *PLACE}]
        rows = self.rows_by_place()[place]
        return ShelvedTable(rest, rows, lambda name: self._columns(at, [name])[name], shelf=shelf)

    def read_columns(self, names: Sequence[str]) -> pa.Table:
        """Return the named columns of all rows.

        The pages of these columns are checked.

        Raises:
            DamagedError: The file is damaged.
        """
        return self._read(range(len(self.row_groups)), names)

    def pieces(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the named columns of all rows, one row group at a time.

        The pages of these columns are checked.

        Raises:
            DamagedError: The file is damaged.
        """
        for number in range(len(self.row_groups)):
            yield self._read([number], names)

    def rows_of(self, place: Place | None) -> pa.Table:
        """Return the rows in the row groups of a place.

        If the place is None, return the row groups that have several places, or rows without a
        place.

        Raises:
            DamagedError: The file is damaged.
        """
        at = [at for at, of in enumerate(self.row_groups) if of == place]
        return self._read(at, TABLES[self.name].names)

    def _read(self, numbers: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Return the given columns of the given row groups.

        If there are many rows, columns are read one by one, because two copies would need much
        memory.
        """
        try:
            rows = self._rows_of(numbers)
            shares = [names] if rows <= _TOGETHER_ROWS else [[name] for name in names]
            columns = [self._columns(numbers, share) for share in shares]
            return pa.table({name: each[name] for each in columns for name in each})
        except BROKEN as broken:
            raise DamagedError(self.name) from broken

    def _columns(self, numbers: Sequence[int], names: Sequence[str]) -> "dict[str, pa.Array[Any]]":
        later = {name for name in names if name in LATER_COLUMNS} - set(
            self._file.schema_arrow.names
        )
        read = [name for name in names if name not in later]
        table = self._file.read_row_groups(list(numbers), columns=read, use_threads=False)
        columns: dict[str, pa.Array[Any]] = {}
        for name in names:
            if name in later:
                kind = TABLES[self.name].field(name).type
                columns[name] = coded(pa.nulls(self._rows_of(numbers), kind))
            else:
                columns[name] = coded(table[name])
                columns[name].validate(full=True)
        return columns

    def _rows_of(self, numbers: Sequence[int]) -> int:
        return sum(self._file.metadata.row_group(number).num_rows for number in numbers)


def as_recorded(schema: pa.Schema, there: pa.Schema) -> pa.Schema:
    """Return a schema without the columns of `LATER_COLUMNS` that are not in another schema."""
    later = [name for name in schema.names if name in LATER_COLUMNS and name not in there.names]
    return pa.schema([field for field in schema if field.name not in later])


def _one_place(columns: Sequence[pq.Statistics | None]) -> Place | None:
    ends: list[Any] = []
    for told in columns:
        if told is None or not told.has_min_max or told.null_count or told.min != told.max:
            return None
        ends.append(told.min)
    return (str(ends[0]), str(ends[1]), int(ends[2]))


def _all_of(table: pa.Table, place: Place) -> bool:
    return all(equal(table, name, word).all() for name, word in zip(PLACE, place, strict=True))


def split(table: pa.Table) -> Iterator[tuple[Place, pa.Table]]:
    """Yield the rows of each place. Rows without a topic id or a partition are left out."""
    if "partition" not in table.column_names:
        yield RUN, table
        return
    (topic, topics), (topic_id, ids) = codes(table, "topic"), codes(table, "topic_id")
    partition = ints(table, "partition")
    named = np.flatnonzero((topic >= 0) & (topic_id >= 0) & present(table, "partition"))
    keys = [partition[named], topic_id[named], topic[named]]
    rows = named[np.lexsort(keys)]
    for start, end in pairwise(runs_of(topic[rows], topic_id[rows], partition[rows]).tolist()):
        first = rows[start]
        place = (topics[topic[first]], ids[topic_id[first]], int(partition[first]))
        yield place, _part(table, rows[start:end])


def _part(table: pa.Table, rows: "np.typing.NDArray[np.int64]") -> pa.Table:
    """Return the given rows of a table, without a copy if they are contiguous."""
    if rows[-1] - rows[0] + 1 == len(rows):
        return table.slice(int(rows[0]), len(rows))
    return take(table, rows)
