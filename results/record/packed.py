"""Packed streams: a live stream whose file is replaced by a compressed Parquet file.

During a run, rows are written as they occur, about a hundred bytes each. Once the tables exist,
only a later version of the pipeline reads the streams again. So the streams are packed then, to
about a fortieth of their size. A packed stream keeps its file name. Its first bytes show that it is
packed. At any moment, even after a crash, one file contains all rows.

Only complete streams are packed. A stream that a crash cut off stays unchanged.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from results.record.parquet import as_texts, within_bounds
from results.record.tables import is_of
from results.record.whole import written_whole

BYTES_A_ROW = 100
"""Approximate size of a row in an unpacked stream, and in memory."""
_MAGIC = b"PAR1"
_GROUP_ROWS = 1 << 18
_READ_ROWS = 1 << 16
_LEVEL = 3
"""Compression level of zstd. A higher level takes twice the time, but saves only 5 % more space."""


def is_packed(file: BinaryIO) -> bool:
    """Return whether a stream is packed; afterwards, the file's position is at the start."""
    file.seek(0)
    found = file.read(len(_MAGIC))
    file.seek(0)
    return found == _MAGIC


def unpacked_bytes(path: Path, file: BinaryIO) -> int:
    """Return the approximate size of a packed stream in memory; 0 if it is damaged."""
    with suppress(OSError, pa.ArrowException), within_bounds(path, file) as opened:
        return int(pq.read_metadata(opened).num_rows) * BYTES_A_ROW
    return 0


def unpacked(
    path: Path, file: BinaryIO, table: str
) -> Iterator[tuple[pa.Schema, pa.RecordBatch | None]]:
    """Yield the schema of a packed stream, then its batches.

    Args:
        path: Path of the stream, for error messages.
        file: The open stream.
        table: A name in `LIVE`.

    Raises:
        OSError, pa.ArrowException: The stream is damaged, declares more data than its size can
            hold, or does not have the columns of the table.
        ValueError: A text is longer than any text that a run writes.
    """
    with packed_file(path, file, table) as (schema, reader):
        yield schema, None
        for number in range(reader.metadata.num_row_groups):
            yield from ((schema, batch) for batch in group_rows(reader, number))


def group_rows(reader: pq.ParquetFile, number: int) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a row group, or none if a row is damaged; errors are as in `unpacked`.

    So from a damaged stream, a reader of all groups gets the same rows as readers of single groups.
    """
    # Decoded twice, because keeping the plain texts may fill the memory.
    for _ in _decoded(reader, number):
        pass
    yield from _decoded(reader, number)


def _decoded(reader: pq.ParquetFile, number: int) -> Iterator[pa.RecordBatch]:
    for batch in reader.iter_batches(_READ_ROWS, row_groups=[number], use_threads=False):
        yield from _plain(batch)


@contextmanager
def packed_file(
    path: Path, file: BinaryIO, table: str
) -> Iterator[tuple[pa.Schema, pq.ParquetFile]]:
    """Open a packed stream and yield its schema and reader.

    Arguments and errors are as in `unpacked`.
    """
    with within_bounds(path, file) as opened:
        schema = pq.read_schema(opened)
        if not is_of(schema, table):
            raise pa.ArrowInvalid(f"the stream does not have the columns of {table}")
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        with pq.ParquetFile(
            opened, read_dictionary=texts, page_checksum_verification=True, pre_buffer=False
        ) as reader:
            yield schema, reader


def _plain(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for plain in as_texts(pa.Table.from_batches([batch])).to_batches():
        plain.validate(full=True)
        yield plain


def pack(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, below: int) -> bool:
    """Replace a stream by its packed version, with the same rows.

    Args:
        path: Path of the stream.
        schema: Schema of the rows.
        batches: All rows of the stream.
        below: Size in bytes. If the packed stream is not smaller, the file stays unchanged.

    Returns:
        Whether the stream is packed now.

    Raises:
        StoreError: The file cannot be written; the stream is unchanged.
        Exception: An error from `batches`; the stream is unchanged.
    """
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    numbers = [field.name for field in schema if pa.types.is_integer(field.type)]
    with suppress(_VainError), written_whole(path) as file:
        with pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            compression_level=_LEVEL,
            use_dictionary=texts,  # type: ignore[arg-type]  # The type stubs lack lists.
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
            write_page_checksum=True,
        ) as writer:
            for table in _grouped(batches):
                writer.write_table(table, row_group_size=_GROUP_ROWS)
        file.flush()
        if os.fstat(file.fileno()).st_size >= below:
            raise _VainError
        # A file that readers would refuse must not replace a readable one.
        with Path(f"/dev/fd/{file.fileno()}").open("rb") as again:
            within_bounds(path, again).close()
        os.fsync(file.fileno())
        return True
    return False


class _VainError(Exception):
    """An error: the packed stream is not smaller than the original."""


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join small batches into tables large enough for a row group."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _GROUP_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
