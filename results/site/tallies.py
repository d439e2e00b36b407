"""Count the rows of live streams incrementally, so that no row is read twice.

A long run writes millions of operations, and its live page is refreshed every second.
"""

import os
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from results.record.packed import is_packed, unpacked
from results.record.reading import open_file
from results.record.stream import STREAM_SUFFIX, messages, root_of, table_of

MAX_STREAMS = 512
MAX_WORDS, OTHERS = 32, "others"
"""Maximum number of distinct words that are counted separately. A column of outcomes has three."""
_MAX_WORD = 100


@dataclass(slots=True)
class _Stream:
    inode: int
    offset: int = 0
    schema: pa.Schema | None = None
    rows: int = 0
    words: Counter[str] = field(default_factory=Counter)


class Tallies:
    """Counters of the rows in live streams, and of the words in one column of a stream."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._lock = threading.Lock()

    def rows(self, live: Path, table: str) -> int:
        """Return the number of rows in a table's streams.

        Args:
            live: The run's `record/live`.
            table: A name in `LIVE`.
        """
        return sum(each.rows for each in self._counted(live, table, column=""))

    def words(self, live: Path, table: str, *, column: str) -> Counter[str]:
        """Return how often each word occurs in a column of a table's streams."""
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
            ]

    def _stream(self, path: Path, column: str) -> _Stream:
        known = self._streams.setdefault((str(path), column), _Stream(inode=0))
        # The file may be removed at this moment.
        with suppress(OSError), open_file(path, root=root_of(path)) as file:
            inode = os.fstat(file.fileno()).st_ino
            if known.inode != inode:
                known = self._streams[str(path), column] = _Stream(inode)
            _go_on(path, file, known, column)
        return known


def _go_on(path: Path, file: BinaryIO, stream: _Stream, column: str) -> None:
    """Count the new rows of a stream, up to its last complete message."""
    if is_packed(file):
        _count_packed(path, file, stream, column)
        return
    file.seek(stream.offset)
    with suppress(ValueError, pa.ArrowException):  # Garbage.
        for schema, batch in messages(file, table_of(path), stream.schema):
            if batch is not None:
                _count(stream, batch, column)
            stream.schema, stream.offset = schema, file.tell()


def _count_packed(path: Path, file: BinaryIO, stream: _Stream, column: str) -> None:
    """Count a packed stream once, because it no longer grows."""
    if stream.offset:
        return
    stream.offset = os.fstat(file.fileno()).st_size
    with suppress(OSError, ValueError, pa.ArrowException):
        for _, batch in unpacked(path, file, table_of(path)):
            if batch is not None:
                _count(stream, batch, column)


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
