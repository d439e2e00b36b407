"""Append-only Arrow IPC streams: how rows reach the disk while a run is under way.

A stream belongs to one writer (a worker, the observer, the nemesis), so that nobody waits for a
lock of another process. Rows are buffered as Python tuples or handed over as whole batches, and are
flushed several times a second by whoever drives the writer. A stream that was cut by a
crash is read up to its last whole message.
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
"""Of one message: what writers gather between two flushes is far smaller."""
_LEAST_BYTES = 8
"""Of a message: its mark and its length."""
_MARK = b"\xff\xff\xff\xff"
END_MARK = _MARK + bytes(4)
_LEAST_PACKED_BYTES = 1 << 13
"""A smaller stream is hardly smaller when it is packed."""
_ROWS_A_WRITE = 1000
"""Where a run repeats: a write takes as long as hundreds of its rows."""


class StreamWriter:
    """One live stream of one writer.

    Args:
        folder: The run's `record/live`.
        table: A name in `LIVE`.
        writer: Who writes: part of the file's name.
    """

    def __init__(self, folder: Path, table: str, writer: str) -> None:
        self._schema = LIVE[table]
        self._rows: list[tuple[object, ...]] = []
        self._lock = threading.Lock()
        self._least_rows = _ROWS_A_WRITE if runtime().repeats else 1
        path = folder / f"{table}.{writer}{STREAM_SUFFIX}"
        path.touch(exist_ok=False)
        # Arrow's own file: no buffer that would die with the process, and the interpreter is free
        # while it writes, which a file of Python's is not.
        self._file = pa.OSFile(str(path), "wb")
        self._ipc = pa.ipc.new_stream(self._file, self._schema)

    def append(self, row: Sequence[object]) -> None:
        """Buffer one row, its values in the order of the stream's columns."""
        with self._lock:
            self._rows.append(tuple(row))

    def append_batch(self, batch: pa.RecordBatch) -> None:
        """Write a batch of the stream's schema at once, behind the rows that are buffered."""
        with self._lock:
            self._write_rows()
            self._ipc.write_batch(batch)

    def flush(self) -> None:
        """Write the buffered rows; the file is unbuffered, so they survive the process.

        In a run that repeats they need not, and are written when there are many.
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
    """Reads what was appended to a live stream since the last look, while it is being written.

    Args:
        path: The stream's file; it may still be empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._schema: pa.Schema | None = None

    def read(self, limit_bytes: int) -> tuple[list[pa.RecordBatch], bool]:
        """Return the whole batches that are new, and whether these are all of them.

        A message whose end is not there yet is left for the next look.

        Args:
            limit_bytes: No message is read after so many; a single one may be longer.

        Raises:
            OSError, pa.ArrowException: The stream cannot be read, or is no stream of its table.
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
    """Return the run's folder of a stream in `record/live`."""
    return stream.parent.parent.parent


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the whole batches of a live stream; stop at the first that is incomplete or broken."""
    with suppress(OSError, ValueError, pa.ArrowException):
        for _, batch in stream_parts(path):
            if batch is not None:
                yield batch


def read_whole(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the whole and sound batches of a live stream.

    Raises:
        OSError, ValueError, pa.ArrowException: The stream lacks its end mark, or is broken.
    """
    for _, batch in stream_parts(path, whole=True):
        if batch is not None:
            yield batch


def stream_parts(
    path: Path, *, whole: bool = False
) -> Iterator[tuple[pa.Schema, pa.RecordBatch | None]]:
    """Yield the schema of a live stream, then its batches; it may be packed.

    Args:
        path: The stream.
        whole: Whether one that lacks its end is refused once it was read.

    Raises:
        OSError, ValueError, pa.ArrowException: It is broken, or no stream of its table.
    """
    with open_file(path, root=root_of(path)) as file:
        if is_packed(file):
            yield from unpacked(path, file, table_of(path))
            return
        yield from messages(file, table_of(path))
        if whole and file.read(len(END_MARK) + 1) != END_MARK:
            raise pa.ArrowInvalid("it has no end mark")


def pack_stream(path: Path, stopped: threading.Event | None = None) -> bool:
    """Pack a live stream that nobody writes to any more, if it is whole and that saves room.

    Args:
        path: Of the stream.
        stopped: When it is set, the stream stays as it is.

    Returns:
        Whether that was done.

    Raises:
        OSError, ValueError, pa.ArrowException: It is cut, or broken; it stays as it is.
        InterruptedError: It was stopped.
        StoreError: The disk refuses; it stays as it is.
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
    """Return how many bytes a live stream has, or about how many it had before it was packed."""
    with open_file(path, root=root_of(path)) as file:
        if is_packed(file):
            return unpacked_bytes(path, file)
        return os.fstat(file.fileno()).st_size


def messages(
    file: BinaryIO, table: str, schema: pa.Schema | None = None
) -> Iterator[tuple[pa.Schema, pa.RecordBatch | None]]:
    """Yield the schema of a stream, and its whole and sound batches, from where a file stands.

    It stops before the end mark, and before a message whose end is not there. The file stands
    behind each message that was yielded, and at the end behind the last.

    Args:
        file: The stream.
        table: A name in `LIVE`.
        schema: The stream's, if the file stands behind it.

    Raises:
        pa.ArrowException: It is no stream of that table: a message is larger than any that a run
            wrote, or shrunk, or has other columns.
    """
    while (data := read_message(file)) is not None:
        message = pa.ipc.read_message(pa.BufferReader(data))
        if schema is None:
            schema = pa.ipc.read_schema(message)
            if not is_of(schema, table):
                raise pa.ArrowInvalid(f"it has not the columns of {table}")
            yield schema, None
        else:
            batch = pa.ipc.read_record_batch(message, schema)
            batch.validate(full=True)
            yield schema, batch


def read_message(file: BinaryIO) -> bytes | None:
    """Read one message whole; None, and the file stands as before, if there is none.

    Raises:
        pa.ArrowException: What stands there is no message of a run.
    """
    found = message_header(file)
    if found is None:
        return None
    start, _, body_bytes = found
    size = file.tell() - start + body_bytes
    file.seek(start)
    return file.read(size)


def message_header(file: BinaryIO) -> tuple[int, bytes, int] | None:
    """Read the header of a message; the file stands behind it then.

    Returns:
        Where the message begins, its header, and how many bytes follow that; None, and the file
        stands as before, if there is no whole message.

    Raises:
        pa.ArrowException: As `read_message`.
    """
    start, end = file.tell(), os.fstat(file.fileno()).st_size
    head = file.read(_LEAST_BYTES)
    size = int.from_bytes(head[len(_MARK) :], "little") if len(head) == _LEAST_BYTES else 0
    if size and (not head.startswith(_MARK) or size > MAX_HEADER_BYTES):
        raise pa.ArrowInvalid("it is no stream of messages")
    header = file.read(size)
    if not size or len(header) < size:
        file.seek(start)
        return None
    body_bytes = body_size(header)
    if body_bytes > MAX_MESSAGE_BYTES:
        raise pa.ArrowInvalid(f"a message of {body_bytes} bytes is none that a run wrote")
    if file.tell() + body_bytes > end:
        file.seek(start)
        return None
    return start, header, body_bytes


def table_of(path: Path) -> str:
    """Return the live table that a stream file belongs to (`polled.worker-0.arrows`: `polled`)."""
    return path.name.split(".", 1)[0]
