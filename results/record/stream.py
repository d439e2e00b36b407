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
