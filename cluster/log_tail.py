"""Reads what is new in a replica's log while its broker writes it.

A log grows at its end, and sometimes its end is cut off and others stand there. So the heads of the
last batches are remembered, with where they stand: at each look the last of them is looked at again
first. Where it changed, the log is read again from the last batch that still stands.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from cluster.files.batches import RecordBatch, read_segment
from cluster.files.message_sets import PREFIX

HEAD_BYTES = 61
"""Of a batch of format 2: offset, leader epoch, checksum, producer. What is older is shorter."""
MOST_HEADS = 2_000
"""So many batches back a cut is found; one that goes further back has the segment read again."""


class _Head(NamedTuple):
    """Where a batch stands, how long it is, and how it begins."""

    segment: Path
    position: int
    size: int
    offset: int
    data: bytes


class Parsed:
    """What was read last of one of a partition's replicas: others mostly hold the same bytes."""

    def __init__(self) -> None:
        self._data = b""
        self._batches: list[RecordBatch] = []

    def batches(self, data: bytes) -> list[RecordBatch]:
        """Return the batches that follow each other from the start, up to one that is not sound."""
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
    """What a look at a log found.

    Attributes:
        batches: Those that are new, by offset.
        cut: From there on the log has others than at the last look; None: it only grew.
        start: Where the log starts, as far as segments tell.
        end: Behind the last batch that was read.
        whole: Whether that is the end of the log, and nothing of it was damaged.
    """

    batches: tuple[RecordBatch, ...]
    cut: int | None
    start: int
    end: int
    whole: bool


class LogTail:
    """One replica's log.

    Args:
        folder: `nodes/<node>/data/<topic>-<partition>`; it may come later, and go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._heads: deque[_Head] = deque(maxlen=MOST_HEADS)
        self._segment: Path | None = None
        self._at = 0
        self._end = 0

    def read(self, low: int, limit_bytes: int, parsed: Parsed | None = None) -> News:
        """Return what is new; a log that is not there is empty, and not whole.

        Args:
            low: Batches that end below are of no interest.
            limit_bytes: So much is read at most; a single batch may be longer.
            parsed: What was read of another replica just before.
        """
        try:
            segments = sorted(each for each in self._folder.glob("*.log") if each.stem.isdecimal())
            if not segments:
                return self._nothing()
            cut = self._cut_back(segments, low)
            batches, whole = self._read_on(segments, limit_bytes, parsed or Parsed())
        except OSError:  # It is being deleted, or made anew.
            return self._nothing()
        new = tuple(batch for batch in batches if batch.end_offset > low)
        first = int(segments[0].stem)
        return News(batches=new, cut=cut, start=first, end=max(self._end, first), whole=whole)

    def _nothing(self) -> News:
        self._heads.clear()
        self._segment, self._at, self._end = None, 0, 0
        return News(batches=(), cut=0, start=0, end=0, whole=False)

    def _cut_back(self, segments: list[Path], low: int) -> int | None:
        """Forget the batches that no longer stand; return from which offset on, None if all do."""
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
        # Nothing is known to stand: the segment in which the low end lies is read from its start.
        self._segment = next(
            (each for each in reversed(segments) if int(each.stem) <= low), segments[0]
        )
        self._at, self._end = 0, int(self._segment.stem)
        return 0

    def _read_on(
        self, segments: list[Path], limit_bytes: int, parsed: Parsed
    ) -> tuple[list[RecordBatch], bool]:
        """Return the batches from here on, and whether all of the log was read, without damage."""
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
        """Remember what was read; return how many bytes that were."""
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
    """Yield the batches that follow each other from the start, up to one that is not sound."""
    expected = 0
    for batch in read_segment(data).batches:
        if batch.position != expected:
            return
        yield batch
        expected = batch.position + _size(data, batch.position)


def _end(data: bytes, batch: RecordBatch) -> int:
    """Return where a batch ends in the data that it was read from."""
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
