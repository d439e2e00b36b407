"""Reads new batches from a replica's log while its broker writes the log.

A log grows at its end, but a broker may also truncate it and append other batches. This module
therefore remembers the headers and positions of the last batches. Each read first checks whether
the last known batch is unchanged. If this batch has changed, reading restarts after the last
unchanged batch.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from cluster.files.batches import RecordBatch, read_segment
from cluster.files.message_sets import PREFIX

HEAD_BYTES = 61
"""The header size of a batch of format 2; older formats have shorter headers."""
MOST_HEADS = 2_000
"""The number of remembered batches. After a longer truncation, the segment is read from
its start."""


class _Head(NamedTuple):
    """The position, size and first bytes of a batch."""

    segment: Path
    position: int
    size: int
    offset: int
    data: bytes


class Parsed:
    """The batches that were just read from one replica of a partition.

    Other replicas mostly contain the same bytes, so these batches need not be parsed again.
    """

    def __init__(self) -> None:
        self._data = b""
        self._batches: list[RecordBatch] = []

    def batches(self, data: bytes) -> list[RecordBatch]:
        """Return the consecutive batches from the start of `data`, up to the first damaged one."""
        common = min(len(data), len(self._data))
        known: list[RecordBatch] = []
        if data[:common] == self._data[:common]:
            known = [each for each in self._batches if _end(self._data, each) <= common]
        start = _end(data, known[-1]) if known else 0
        rest = [
            replace(each, position=start + each.position) if start else each
            for each in _from(data[start:])
        ]
        self._data, self._batches = data, [*known, *rest]
        return self._batches


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The result of one read of a log.

    Attributes:
        batches: The new batches, ordered by offset.
        cut: If the log was truncated since the last read: the offset from which the old content is
            gone. None if the log only grew.
        start: The first offset of the log, according to its segments.
        end: The offset after the last batch that was read.
        whole: Whether `end` is the end of the log and no batch was damaged.
    """

    batches: tuple[RecordBatch, ...]
    cut: int | None
    start: int
    end: int
    whole: bool


class LogTail:
    """The log of one replica, from which new batches are read repeatedly.

    Args:
        folder: The folder `nodes/<node>/data/<topic>-<partition>`; it may appear later or be
            deleted.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._heads: deque[_Head] = deque(maxlen=MOST_HEADS)
        self._segment: Path | None = None
        self._at = 0
        self._end = 0

    def read(self, low: int, limit_bytes: int, parsed: Parsed | None = None) -> News:
        """Return the new batches. If the log is missing, the result is empty and not `whole`.

        Args:
            low: Skip the batches whose end offset is at or below this offset.
            limit_bytes: The largest number of bytes to read; a single batch may be larger.
            parsed: The batches just read from another replica.
        """
        try:
            segments = sorted(each for each in self._folder.glob("*.log") if each.stem.isdecimal())
            if not segments:
                return self._nothing()
            cut = self._cut_back(segments, low)
            batches, whole = self._read_on(segments, limit_bytes, parsed or Parsed())
        except OSError:  # The log is being deleted or recreated.
            return self._nothing()
        new = tuple(batch for batch in batches if batch.end_offset > low)
        first = int(segments[0].stem)
        return News(batches=new, cut=cut, start=first, end=max(self._end, first), whole=whole)

    def _nothing(self) -> News:
        self._heads.clear()
        self._segment, self._at, self._end = None, 0, 0
        return News(batches=(), cut=0, start=0, end=0, whole=False)

    def _cut_back(self, segments: list[Path], low: int) -> int | None:
        """Forget the batches that are no longer in the log.

        Returns:
            The offset from which the log was replaced, or None if all remembered batches are
                unchanged.
        """
        cut, had = None, bool(self._heads)
        while self._heads and not _stands(self._heads[-1]):
            cut = self._heads.pop().offset
        if self._heads and cut is not None:
            last = self._heads[-1]
            self._segment = last.segment
            self._at = last.position + last.size
            self._end = cut
        if self._segment in segments and (self._heads or not had):
            return cut
        self._heads.clear()
        # No batch is known to be unchanged: read the segment with offset `low` from its start.
        self._segment = next(
            (each for each in reversed(segments) if int(each.stem) <= low), segments[0]
        )
        self._at, self._end = 0, int(self._segment.stem)
        return 0

    def _read_on(
        self, segments: list[Path], limit_bytes: int, parsed: Parsed
    ) -> tuple[list[RecordBatch], bool]:
        """Return the batches after the current position.

        The second value is true if the log was read to its end and no batch was damaged.
        """
        found: list[RecordBatch] = []
        left = limit_bytes
        for segment in segments[segments.index(self._segment or segments[0]) :]:
            if segment != self._segment:
                self._segment, self._at = segment, 0
            data = _read(segment, self._at, left)
            batches = parsed.batches(data)
            while not batches and len(data) == left:
                left *= 2
                data = _read(segment, self._at, left)
                batches = parsed.batches(data)
            used = self._note(segment, data, batches)
            found += batches
            if len(data) == left:
                return found, False
            left -= used
            if any(data[used:]):
                rest = read_segment(data[used:])
                being_written = rest.torn and not rest.batches and len(rest.damage) == 1
                return found, being_written and segment == segments[-1]
        return found, True

    def _note(self, segment: Path, data: bytes, batches: list[RecordBatch]) -> int:
        """Remember the batches that were read, and return their size in bytes."""
        used = 0
        for batch in batches:
            start, used = batch.position, _end(data, batch)
            head = _Head(
                segment=segment,
                position=self._at + start,
                size=used - start,
                offset=batch.base_offset,
                data=data[start : min(used, start + HEAD_BYTES)],
            )
            self._heads.append(head)
            self._end = batch.end_offset
        self._at += used
        return used


def _from(data: bytes) -> Iterator[RecordBatch]:
    """Yield the consecutive batches from the start of `data`, up to the first damaged one."""
    expected = 0
    for batch in read_segment(data).batches:
        if batch.position != expected:
            return
        yield batch
        expected = batch.position + _size(data, batch.position)


def _end(data: bytes, batch: RecordBatch) -> int:
    """Return the position of a batch's end in the data that contains the batch."""
    return batch.position + _size(data, batch.position)


def _size(data: bytes, at: int = 0) -> int:
    _, length = PREFIX.unpack_from(data, at)
    return int(length) + PREFIX.size


def _read(path: Path, at: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(at)
        return file.read(size)


def _stands(head: _Head) -> bool:
    try:
        return _read(head.segment, head.position, len(head.data)) == head.data
    except OSError:
        return False
