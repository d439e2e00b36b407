"""Read Parquet tables of a run, after checking that they cannot expand beyond a limit.

Any user may have written these files. Forty kilobytes of Parquet can expand to gigabytes, if rows
repeat one value, or if zstd has compressed pages to a thirty-thousandth. So the sizes that the
footer and each page declare are compared with the bytes of the columns. A file from a run has at
most about twelve rows per byte, and compression makes the pages of such a file ten times smaller.
Polls under heavy load have the most rows per byte, because they read thousands of consecutive
records. Bytes between the columns do not count, because such bytes may be zeros, which take no
space in an archive or in a sparse file.

Format: https://parquet.apache.org/docs/file-format/
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from results.record.reading import UnsafeFileError, open_file
from results.record.thrift import PageHeader, page_header

SPARE_ROWS = 100_000
ROWS_A_BYTE = 16
SPARE_BYTES = 64 << 20
TIMES_SMALLER = 64
"""Limits: the rows and bytes that any file may have, and how many more rows and bytes are allowed
for each byte of the columns."""
MAX_FOOTER_BYTES = 16 << 20
MAX_TEXT_BYTES = 512 << 20
"""Maximum size of a text column, computed as if each row had its own copy of the text."""
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "ZSTD"})
"""Compression codecs that runs use. Some other codecs have no limit of expansion."""
_TAIL_BYTES = 8
_HEADER_BYTES = 1 << 14
_MAX_SEEN = 4096
_seen: dict[tuple[int, ...], None] = {}
"""Files that passed the check: their device, inode, size and change time. So each file is checked
only once."""


def open_parquet(path: Path) -> pa.NativeFile:
    """Check that a Parquet file is within the size limits, and open it for `pyarrow.parquet`.

    Raises:
        FileNotFoundError: The file does not exist.
        UnsafeFileError: The path is not a regular file, or its size cannot hold the declared data.
        OSError, pa.ArrowException: The file is damaged.
    """
    with open_file(path, root=path.parent.parent) as file:
        return within_bounds(path, file)


def within_bounds(path: Path, file: BinaryIO) -> pa.NativeFile:
    """Check an open Parquet file's size limits, and open it again for `pyarrow.parquet`.

    Args:
        path: Path of the file, for error messages.
        file: The file, open for reading.

    Raises:
        UnsafeFileError, OSError, pa.ArrowException: As in `open_parquet`.
    """
    found = os.fstat(file.fileno())
    # Opened by its descriptor, because the name may refer to another file now.
    opened = pa.OSFile(f"/dev/fd/{file.fileno()}", "rb")
    key = (found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns)
    if key not in _seen:
        try:
            _see(path, file, opened, found.st_size)
        except UnicodeDecodeError as broken:
            opened.close()
            raise UnsafeFileError(path, "a table with invalid column names") from broken
        except BaseException:
            opened.close()
            raise
        while len(_seen) >= _MAX_SEEN:
            del _seen[next(iter(_seen))]
        _seen[key] = None
    return opened


def as_texts(table: pa.Table) -> pa.Table:
    """Return the same table, but with plain texts instead of dictionary-encoded texts.

    Raises:
        ValueError: The plain texts would fill the memory, because a long text is in many rows.
    """
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column = table.column(at)
            if _text_bytes(column) > MAX_TEXT_BYTES:
                raise ValueError(f"the texts of {field.name} are longer than any text of a run")
            kind = field.type.value_type
            table = table.set_column(at, pa.field(field.name, kind), column.cast(kind))
    return table


def _text_bytes(column: "pa.ChunkedArray[Any]") -> int:
    total = 0
    chunks: list[Any] = column.chunks
    for chunk in chunks:
        counted = pc.value_counts(chunk.indices.drop_null())
        lengths: Any = pc.binary_length(chunk.dictionary)
        lengths = lengths.take(counted.field("values"))
        total += pc.sum(pc.multiply(lengths.cast(pa.int64()), counted.field("counts"))).as_py() or 0
    return total


def _see(path: Path, file: BinaryIO, opened: pa.NativeFile, size: int) -> None:
    """Refuse a file that declares more rows or bytes than its size can hold."""
    file.seek(max(0, size - _TAIL_BYTES))
    if int.from_bytes(file.read(4), "little") > MAX_FOOTER_BYTES:
        raise UnsafeFileError(path, f"a table with a footer of more than {MAX_FOOTER_BYTES} bytes")
    metadata = pq.read_metadata(opened)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    rows = [group.num_rows for group in groups]
    if min(rows, default=0) < 0 or sum(rows) != metadata.num_rows:
        raise UnsafeFileError(path, "a table whose row counts contradict each other")
    # A row group without rows has no data page, and readers read no page of it.
    parts = [
        [each.column(at) for at in range(each.num_columns)] for each in groups if each.num_rows
    ]
    columns = [column for columns in parts for column in columns]
    packed = _packed_bytes(path, columns, size)
    if sum(rows) > SPARE_ROWS + ROWS_A_BYTE * packed:
        raise UnsafeFileError(path, f"a table that claims {sum(rows)} rows in {packed} bytes")
    _see_columns(path, file, columns, packed)


def _packed_bytes(path: Path, columns: Sequence[pq.ColumnChunkMetaData], size: int) -> int:
    """Return the total size of the columns in the file; refuse columns that overlap."""
    extents = sorted(_extent(column) for column in columns)
    ends = [end for _, end in extents]
    apart = all(start >= end for (start, _), end in zip(extents[1:], ends, strict=False))
    if any(start > end for start, end in extents) or not apart or max(ends, default=0) > size:
        raise UnsafeFileError(path, "a table with overlapping columns")
    return sum(end - start for start, end in extents)


def _extent(column: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Return the (begin, end) of a column chunk in its file."""
    at = column.data_page_offset
    first = column.dictionary_page_offset
    if column.has_dictionary_page and first is not None and 0 < first < at:
        at = first
    return at, at + column.total_compressed_size


def _see_columns(
    path: Path, file: BinaryIO, columns: Sequence[pq.ColumnChunkMetaData], size: int
) -> None:
    """Refuse columns and pages that declare too much data for their number of bytes."""
    if unknown := {column.compression for column in columns} - _CODECS:
        raise UnsafeFileError(path, f"a table with the compression {min(unknown)}")
    unpacked = 0
    values: dict[str, int] = {}
    for column in columns:
        name = column.path_in_schema
        for page in _pages(path, file, column):
            unpacked += page.unpacked_bytes
            values[name] = values.get(name, 0) + page.values
            if unpacked > SPARE_BYTES + TIMES_SMALLER * size:
                raise UnsafeFileError(
                    path, (f"a table that claims more than {unpacked} bytes in {size}")
                )
            if values[name] > 2 * (SPARE_ROWS + ROWS_A_BYTE * size):
                raise UnsafeFileError(path, f"a table that claims too many values in {size} bytes")


def _pages(path: Path, file: BinaryIO, column: pq.ColumnChunkMetaData) -> Iterator[PageHeader]:
    """Yield the header of each page of a column chunk."""
    at, end = _extent(column)
    while 0 < at < end:
        data = os.pread(file.fileno(), min(_HEADER_BYTES, end - at), at)
        try:
            page = page_header(data)
        except ValueError as broken:
            raise UnsafeFileError(path, f"a table with a broken page ({broken})") from broken
        at += page.header_bytes + page.packed_bytes
        if at > end:
            raise UnsafeFileError(path, "a table with a page that ends after its column")
        yield page
