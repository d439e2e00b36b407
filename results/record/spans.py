"""Find the rows of a live stream by op id, so that parallel tasks can read parts of the stream.

A span is a message of a stream, or a row group of a packed stream. To find spans, this module reads
only message headers and the column of op ids. The tasks read the other data.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from results.record.flatbuffer import buffer_at
from results.record.packed import BYTES_A_ROW, group_rows, is_packed, packed_file
from results.record.reading import open_file
from results.record.stream import END_MARK, message_header, read_message, root_of, table_of
from results.record.tables import LIVE, is_of

OP_ID = "op_id"
_ANY = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A section of a stream with consecutive rows.

    Attributes:
        at: Where the span begins: a byte offset in the stream, or the index of a row group.
        size: Size in bytes. For a packed stream, this is the approximate size before packing.
        low: Smallest op id; the lowest possible number if unknown.
        high: Largest op id; the highest possible number if unknown.
    """

    at: int
    size: int
    low: int = _ANY[0]
    high: int = _ANY[1]


def spans(path: Path) -> Iterator[Span]:
    """Yield the spans of a live stream, in order.

    Raises:
        OSError, ValueError, pa.ArrowException: The stream is damaged after the yielded spans, or
            has no end mark.
    """
    table = table_of(path)
    with open_file(path, root=root_of(path)) as file:
        if is_packed(file):
            with packed_file(path, file, table) as (_, reader):
                yield from _groups(reader.metadata)
            return
        schema: pa.Schema | None = None
        while (found := message_header(file)) is not None:
            start, header, body_bytes = found
            if schema is None:
                file.seek(start)
                schema = _schema_of(file, table)
                continue
            body = file.tell()
            low, high = _ops(file, header, body, schema)
            yield Span(at=start, size=body + body_bytes - start, low=low, high=high)
            file.seek(body + body_bytes)
        if file.read(len(END_MARK) + 1) != END_MARK:
            raise pa.ArrowInvalid("the stream has no end mark")


def span_rows(path: Path, places: Sequence[int]) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """For each span, yield (`at`, None), and then (`at`, batch) for each batch of the span.

    Args:
        path: The stream.
        places: `Span.at` of each span, ascending.

    Raises:
        OSError, ValueError, pa.ArrowException: The next span is damaged.
    """
    if not places:
        return
    table = table_of(path)
    with open_file(path, root=root_of(path)) as file:
        if is_packed(file):
            with packed_file(path, file, table) as (_, reader):
                for at in places:
                    yield at, None
                    yield from ((at, batch) for batch in group_rows(reader, at))
            return
        schema = _schema_of(file, table)
        for at in places:
            yield at, None
            file.seek(at)
            if (data := read_message(file)) is None:
                raise pa.ArrowInvalid("a message is incomplete")
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(pa.BufferReader(data)), schema)
            batch.validate(full=True)
            yield at, batch


def _schema_of(file: BinaryIO, table: str) -> pa.Schema:
    if (data := read_message(file)) is None:
        raise pa.ArrowInvalid("the stream has no schema at its beginning")
    schema = pa.ipc.read_schema(pa.ipc.read_message(pa.BufferReader(data)))
    if not is_of(schema, table):
        raise pa.ArrowInvalid(f"the stream does not have the columns of {table}")
    return schema


def _ops(file: BinaryIO, header: bytes, body: int, schema: pa.Schema) -> tuple[int, int]:
    """Return the smallest and largest op id of a message; the message is not checked."""
    if OP_ID not in schema.names:
        return _ANY
    # All columns before the op id are integers, with two buffers each: validity and values.
    at = 2 * schema.names.index(OP_ID)
    validity, found = buffer_at(header, at), buffer_at(header, at + 1)
    if validity is None or validity[1] or found is None:
        return _ANY
    data = os.pread(file.fileno(), found[1] // 8 * 8, body + found[0])
    ids = np.frombuffer(data[: len(data) // 8 * 8], dtype="<i8")
    return (int(ids.min()), int(ids.max())) if len(ids) else _ANY


def _groups(metadata: pq.FileMetaData) -> Iterator[Span]:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        size, (low, high) = group.num_rows * BYTES_A_ROW, _ANY
        if OP_ID in metadata.schema.names:
            told = group.column(metadata.schema.names.index(OP_ID)).statistics
            if told is not None and told.has_min_max and not told.null_count:
                low, high = int(str(told.min)), int(str(told.max))
        yield Span(at=number, size=size, low=low, high=high)


def has_ops(path: Path) -> bool:
    """Return whether the rows of a stream have op ids."""
    return OP_ID in LIVE[table_of(path)].names
