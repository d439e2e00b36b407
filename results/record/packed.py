"""Live streams that were packed: the same rows as Parquet, in the same file.

While a run is under way its rows are written as they come, some hundred bytes each. Once its tables
are worked out, only a later version of the pipeline reads them again. So they are packed then, to
about a fortieth. A packed stream keeps its name, and is told from others by its first bytes: at any
moment, also after a crash, there is one file with all rows.

Only whole streams are packed. One that a crash cut off stays as it is.
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
"""About so many a row takes in a stream that is not packed, and in memory."""
_MAGIC = b"PAR1"
_GROUP_ROWS = 1 << 18
_READ_ROWS = 1 << 16
_LEVEL = 3
"""Of zstd: a higher one takes twice the time for a twentieth."""


def is_packed(file: BinaryIO) -> bool:
    """Tell whether a stream is packed; the file stands at its start afterwards."""
    file.seek(0)
    found = file.read(len(_MAGIC))
    file.seek(0)
    return found == _MAGIC


def unpacked_bytes(path: Path, file: BinaryIO) -> int:
    """Return about how many bytes a packed stream has in memory; 0 of a damaged one."""
    with suppress(OSError, pa.ArrowException), within_bounds(path, file) as opened:
        return int(pq.read_metadata(opened).num_rows) * BYTES_A_ROW
    return 0


def unpacked(
    path: Path, file: BinaryIO, table: str
) -> Iterator[tuple[pa.Schema, pa.RecordBatch | None]]:
    """Yield the schema of a packed stream, then its batches.

    Args:
        path: Of the stream, for sentences.
        file: The same, open.
        table: A name in `LIVE`.

    Raises:
        OSError, pa.ArrowException: It is damaged, or claims more than its size can hold, or has
            other columns than its table.
        ValueError: Its texts are longer than any that a run wrote.
    """
    with packed_file(path, file, table) as (schema, reader):
        yield schema, None
        for number in range(reader.metadata.num_row_groups):
            yield from ((schema, batch) for batch in group_rows(reader, number))


def group_rows(reader: pq.ParquetFile, number: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a row group, or none of them; raise as `unpacked`.

    So who reads all groups, and who reads some, have the same rows of a damaged stream.
    """
    for _ in _decoded(reader, number):  # Twice, as plain texts may fill the memory.
        pass
    yield from _decoded(reader, number)


def _decoded(reader: pq.ParquetFile, number: int) -> Iterator[pa.RecordBatch]:
    for batch in reader.iter_batches(_READ_ROWS, row_groups=[number], use_threads=False):
        yield from _plain(batch)


@contextmanager
def packed_file(
    path: Path, file: BinaryIO, table: str
) -> Iterator[tuple[pa.Schema, pq.ParquetFile]]:
    """Open a packed stream; arguments and errors as of `unpacked`. Give its schema, too."""
    with within_bounds(path, file) as opened:
        schema = pq.read_schema(opened)
        if not is_of(schema, table):
            raise pa.ArrowInvalid(f"it has not the columns of {table}")
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
    """Write a packed stream over the one that its rows come from; both have the same rows.

    Args:
        path: Of the stream.
        schema: Of its rows.
        batches: All of them.
        below: So large it would be in vain: then nothing changes.

    Returns:
        Whether it is packed now.

    Raises:
        StoreError: No permission, no space, or another refusal of the disk; nothing has changed.
        Exception: What the batches raised; nothing has changed either.
    """
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    numbers = [field.name for field in schema if pa.types.is_integer(field.type)]
    with suppress(_VainError), written_whole(path) as file:
        with pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            compression_level=_LEVEL,
            use_dictionary=texts,  # type: ignore[arg-type]  # The stubs lack lists.
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
            write_page_checksum=True,
        ) as writer:
            for table in _grouped(batches):
                writer.write_table(table, row_group_size=_GROUP_ROWS)
        file.flush()
        if os.fstat(file.fileno()).st_size >= below:
            raise _VainError
        # What readers would refuse must not take the place of what they take.
        with Path(f"/dev/fd/{file.fileno()}").open("rb") as again:
            within_bounds(path, again).close()
        os.fsync(file.fileno())
        return True
    return False


class _VainError(Exception):
    """What was packed is not smaller."""


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows of small batches together, so that a group of rows is worth its own end."""
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
