"""Counts of live streams, kept up to date: what was counted once is not read again.

A run of hours writes millions of operations; who watches it asks each second.
"""

import os
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from results.record.stream import STREAM_SUFFIX

MAX_STREAMS = 512
MAX_WORDS, OTHERS = 32, "others"
"""Different words that are counted by themselves; of outcomes there are three."""
_MAX_WORD = 100


@dataclass(slots=True)
class _Stream:
    inode: int
    offset: int = 0
    schema: pa.Schema | None = None
    rows: int = 0
    words: Counter[str] = field(default_factory=Counter)


class Tallies:
    """How many rows live streams have, and how often each word stands in a column of theirs."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._lock = threading.Lock()

    def rows(self, live: Path, table: str) -> int:
        """Return the rows of a table's streams.

        Args:
            live: The run's `record/live`.
            table: A name in `LIVE`.
        """
        return sum(each.rows for each in self._counted(live, table, column=""))

    def words(self, live: Path, table: str, *, column: str) -> Counter[str]:
        """Return how often each word stands in a column of a table's streams."""
        total: Counter[str] = Counter()
        for each in self._counted(live, table, column=column):
            total.update(each.words)
        return total

    def _counted(self, live: Path, table: str, *, column: str) -> list[_Stream]:
        with self._lock:
            if len(self._streams) > MAX_STREAMS:
                self._streams.clear()
            return [
                self._stream(path, column)
                for path in sorted(live.glob(f"{table}.*{STREAM_SUFFIX}"))
                if path.is_file() and not path.is_symlink()
            ]

    def _stream(self, path: Path, column: str) -> _Stream:
        known = self._streams.setdefault((str(path), column), _Stream(inode=0))
        with suppress(OSError), path.open("rb") as file:  # It may be removed this moment.
            inode = os.fstat(file.fileno()).st_ino
            if known.inode != inode:
                known = self._streams[str(path), column] = _Stream(inode)
            _go_on(file, known, column)
        return known


def _go_on(file: BufferedReader, stream: _Stream, column: str) -> None:
    """Count what a stream has beyond what was counted, up to the last whole message."""
    file.seek(stream.offset)
    while True:
        try:
            message = pa.ipc.read_message(file)
            if stream.schema is None:
                stream.schema = pa.ipc.read_schema(message)
            else:
                _count(stream, pa.ipc.read_record_batch(message, stream.schema), column)
        except (EOFError, OSError, ValueError, pa.ArrowException):
            return  # Its end, or what is being written, or garbage.
        stream.offset = file.tell()


def _count(stream: _Stream, batch: pa.RecordBatch, column: str) -> None:
    stream.rows += batch.num_rows
    if column not in batch.schema.names:
        return
    counted = pc.value_counts(batch[column])
    values, counts = counted.field("values"), counted.field("counts")
    for value, count in zip(values.to_pylist(), counts.to_pylist(), strict=True):
        word = str(value)[:_MAX_WORD]
        known = word in stream.words or len(stream.words) < MAX_WORDS
        stream.words[word if known else OTHERS] += count or 0
