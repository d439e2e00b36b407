"""Append-only Arrow IPC streams: how rows reach the disk while a run is under way.

A stream belongs to one writer (a worker, the observer, the nemesis), so that nobody waits for a
lock of another process. Rows are buffered as Python tuples or handed over as whole batches, and are
flushed at least each `FLUSH_INTERVAL_NS` by whoever drives the writer. A stream that was cut by a
crash is read up to its last whole message.
"""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from results.record.tables import LIVE

FLUSH_INTERVAL_NS = 100_000_000
STREAM_SUFFIX = ".arrows"
_LEAST_BYTES = 8
"""Of a message: its mark and its length."""


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
        """Write the buffered rows; the file is unbuffered, so they survive the process."""
        with self._lock:
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
            limit_bytes: So much is read at most; a single message may be longer.

        Raises:
            OSError, pa.ArrowException: The stream cannot be read, or is no stream of its table.
        """
        with self._path.open("rb") as file:
            file.seek(self._at)
            data = file.read(limit_bytes)
            batches, used = self._messages(data)
            while not used and len(data) == limit_bytes:
                limit_bytes *= 2
                data += file.read(limit_bytes - len(data))
                batches, used = self._messages(data)
        self._at += used
        return batches, len(data) < limit_bytes

    def _messages(self, data: bytes) -> tuple[list[pa.RecordBatch], int]:
        source, batches, used = pa.BufferReader(data), list[pa.RecordBatch](), 0
        while used + _LEAST_BYTES <= len(data):
            try:
                message = pa.ipc.read_message(source)
            except (EOFError, OSError, pa.ArrowInvalid):  # The end mark, or half a message.
                break
            if message.type == "schema":
                self._schema = pa.ipc.read_schema(message)
                expected = LIVE.get(table_of(self._path))
                if expected is None or not self._schema.equals(expected):
                    raise pa.ArrowInvalid(f"{self._path.name} has not the columns of its table")
            elif self._schema is not None:
                batches.append(pa.ipc.read_record_batch(message, self._schema))
            used = source.tell()
        return batches, used


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the whole batches of a live stream; stop at the first incomplete message."""
    with path.open("rb") as file:
        try:
            with pa.ipc.open_stream(file) as reader:
                yield from reader
        except (OSError, pa.ArrowInvalid):
            return


def table_of(path: Path) -> str:
    """Return the live table that a stream file belongs to (`polled.worker-0.arrows`: `polled`)."""
    return path.name.split(".", 1)[0]
