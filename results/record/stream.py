"""Append-only Arrow IPC streams, which store rows on disk during a run.

Each stream has one writer (a worker, the observer or the nemesis), so no process waits for a lock
that another process holds. Rows are buffered as Python tuples, or written as whole batches. The
owner of the writer flushes it several times per second. If a crash cuts a stream off, readers get
all its complete messages.
"""

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from results.record.flatbuffer import body_size
from results.record.packed import is_packed, pack, unpacked, unpacked_bytes
from results.record.reading import open_file
from results.record.runtime import runtime
from results.record.tables import LIVE, is_of

STREAM_SUFFIX = ".arrows"
MAX_HEADER_BYTES = 1 << 20
MAX_MESSAGE_BYTES = 256 << 20
"""Maximum size of one message. Between two flushes, writers buffer much less than this."""
_LEAST_BYTES = 8
"""Minimum size of a message: its start marker and its length."""
_MARK = b"\xff\xff\xff\xff"
END_MARK = _MARK + bytes(4)
_LEAST_PACKED_BYTES = 1 << 13
"""A stream smaller than this is not packed, because packing saves little."""
_ROWS_A_WRITE = 1000
"""Rows that a repeatable run writes at once. One write takes as much time as the buffering of
hundreds of rows."""


class StreamWriter:
    """The writer of one live stream.

    Args:
        folder: The run's `record/live`.
        table: A name in `LIVE`.
        writer: Name of the writer; part of the file's name.
    """

    def __init__(self, folder: Path, table: str, writer: str) -> None:
        self._schema = LIVE[table]
        self._rows: list[tuple[object, ...]] = []
        self._lock = threading.Lock()
        self._least_rows = _ROWS_A_WRITE if runtime().repeats else 1
        path = folder / f"{table}.{writer}{STREAM_SUFFIX}"
        path.touch(exist_ok=False)
        # Arrow's file class has no buffer that would be lost with the process. Unlike Python's
        # file, it releases the interpreter lock during a write.
        self._file = pa.OSFile(str(path), "wb")
        self._ipc = pa.ipc.new_stream(self._file, self._schema)

    def append(self, row: Sequence[object]) -> None:
        """Buffer one row, with values in the order of the stream's columns."""
        with self._lock:
            self._rows.append(tuple(row))

    def append_batch(self, batch: pa.RecordBatch) -> None:
        """Write the buffered rows, then a batch. The batch must have the stream's schema."""
        with self._lock:
            self._write_rows()
            self._ipc.write_batch(batch)

    def flush(self) -> None:
        """Write the buffered rows to the unbuffered file, so that they survive the process.

        In a run that can be repeated from its seed, rows are written only when many are buffered.
        """
        with self._lock:
            if len(self._rows) >= self._least_rows:
                self._write_rows()

    def close(self) -> None:
        """Write the buffered rows and end the stream."""
        with self._lock:
            self._write_rows()
            self._ipc.close()
            self._file.close()

    def _write_rows(self) -> None:
        if not self._rows:
            return
        columns = list(zip(*self._rows, strict=True))
        self._rows.clear()
        arrays = [
            pa.array(column, type=field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._ipc.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


class StreamTail:
    """A reader of the rows that were appended to a live stream since the last read.

    Args:
        path: The stream's file; it may still be empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._schema: pa.Schema | None = None

    def read(self, limit_bytes: int) -> tuple[list[pa.RecordBatch], bool]:
        """Return the new complete batches, and True if the file has no further complete batch.

        A message that is not complete yet is left for the next read.

        Args:
            limit_bytes: Size after which no further message is read. One message alone may be
                larger.

        Raises:
            OSError, pa.ArrowException: The stream cannot be read, or is not a stream of its table.
        """
        batches: list[pa.RecordBatch] = []
        with open_file(self._path, root=root_of(self._path)) as file:
            start = file.seek(self._at)
            for schema, batch in messages(file, table_of(self._path), self._schema):
                self._schema, self._at = schema, file.tell()
                batches += [batch] if batch is not None else []
                if self._at - start >= limit_bytes:
                    return batches, False
        return batches, True


def root_of(stream: Path) -> Path:
    """Return the run's folder for a stream in `record/live`."""
    return stream.parent.parent.parent


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a live stream, up to the first incomplete or damaged batch."""
    with suppress(OSError, ValueError, pa.ArrowException):
        for _, batch in stream_parts(path):
            if batch is not None:
                yield batch


def read_whole(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a live stream; a damaged stream or a missing end mark is an error.

    Raises:
        OSError, ValueError, pa.ArrowException: The stream has no end mark, or is damaged.
    """
    for _, batch in stream_parts(path, whole=True):
        if batch is not None:
            yield batch


def stream_parts(
    path: Path, *, whole: bool = False
) -> Iterator[tuple[pa.Schema, pa.RecordBatch | None]]:
    """Yield the schema of a live or packed stream, then its batches.

    Args:
        path: The stream.
        whole: Whether a missing end mark is an error. The error is raised after all batches.

    Raises:
        OSError, ValueError, pa.ArrowException: The stream is damaged, or not a stream of its table.
    """
    with open_file(path, root=root_of(path)) as file:
        if is_packed(file):
            yield from unpacked(path, file, table_of(path))
            return
        yield from messages(file, table_of(path))
        if whole and file.read(len(END_MARK) + 1) != END_MARK:
            raise pa.ArrowInvalid("the stream has no end mark")


def pack_stream(path: Path, stopped: threading.Event | None = None) -> bool:
    """Pack a live stream that has no writer, if it is complete and packing saves space.

    Args:
        path: The stream.
        stopped: An event that cancels packing; the stream then stays unchanged.

    Returns:
        Whether the stream was packed.

    Raises:
        OSError, ValueError, pa.ArrowException: The stream is cut off or damaged; it stays
            unchanged.
        InterruptedError: `stopped` was set.
        StoreError: The file cannot be written; the stream stays unchanged.
    """
    with open_file(path, root=root_of(path)) as file:
        size = os.fstat(file.fileno()).st_size
        if size < _LEAST_PACKED_BYTES or is_packed(file):
            return False
    parts = stream_parts(path, whole=True)
    schema, _ = next(parts)
    batches = (batch for _, batch in parts if batch is not None)
    return pack(path, schema, _until(stopped, batches), below=size)


def _until(
    stopped: threading.Event | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if stopped is not None and stopped.is_set():
            raise InterruptedError("it was stopped")
        yield batch


def stream_bytes(path: Path) -> int:
    """Return a live stream's size in bytes; for a packed stream, the approximate unpacked size."""
    with open_file(path, root=root_of(path)) as file:
        if is_packed(file):
            return unpacked_bytes(path, file)
        return os.fstat(file.fileno()).st_size


def messages(
    file: BinaryIO, table: str, schema: pa.Schema | None = None
) -> Iterator[tuple[pa.Schema, pa.RecordBatch | None]]:
    """Yield the schema and the complete batches of a stream, from the file's current position.

    The function stops before the end mark, and before an incomplete message. After each yielded
    message, the file's position is after that message.

    Args:
        file: The stream.
        table: A name in `LIVE`.
        schema: The stream's schema, if the schema was already read from the file.

    Raises:
        pa.ArrowException: The file is not a stream of that table: a message is too large, is
            compressed, or has other columns.
    """
    while (data := read_message(file)) is not None:
        message = pa.ipc.read_message(pa.BufferReader(data))
        if schema is None:
            schema = pa.ipc.read_schema(message)
            if not is_of(schema, table):
                raise pa.ArrowInvalid(f"the stream does not have the columns of {table}")
            yield schema, None
        else:
            batch = pa.ipc.read_record_batch(message, schema)
            batch.validate(full=True)
            yield schema, batch


def read_message(file: BinaryIO) -> bytes | None:
    """Read one complete message; if there is none, keep the file's position and return None.

    Raises:
        pa.ArrowException: The data is not a message that a run writes.
    """
    found = message_header(file)
    if found is None:
        return None
    start, _, body_bytes = found
    size = file.tell() - start + body_bytes
    file.seek(start)
    return file.read(size)


def message_header(file: BinaryIO) -> tuple[int, bytes, int] | None:
    """Read the header of a message; afterwards, the file's position is after the header.

    Returns:
        (start of the message, its header, size of its body). None if there is no complete message;
        the position is then unchanged.

    Raises:
        pa.ArrowException: As in `read_message`.
    """
    start, end = file.tell(), os.fstat(file.fileno()).st_size
    head = file.read(_LEAST_BYTES)
    size = int.from_bytes(head[len(_MARK) :], "little") if len(head) == _LEAST_BYTES else 0
    if size and (not head.startswith(_MARK) or size > MAX_HEADER_BYTES):
        raise pa.ArrowInvalid("the file is not a stream of messages")
    header = file.read(size)
    if not size or len(header) < size:
        file.seek(start)
        return None
    body_bytes = body_size(header)
    if body_bytes > MAX_MESSAGE_BYTES:
        raise pa.ArrowInvalid(
            f"a message of {body_bytes} bytes is larger than any message of a run"
        )
    if file.tell() + body_bytes > end:
        file.seek(start)
        return None
    return start, header, body_bytes


def table_of(path: Path) -> str:
    """Return the live table of a stream file (`polled` for `polled.worker-0.arrows`)."""
    return path.name.split(".", 1)[0]
