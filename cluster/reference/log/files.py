"""Execute a machine's disk effects on files; roll and name segments as Kafka does."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.reference.log.batches import HEADER_BYTES
from cluster.reference.log.batches import batch as batch_of
from cluster.reference.log.disk import Disk
from cluster.reference.machine import (
    Append,
    DropLog,
    Effect,
    Flush,
    RemoveFile,
    RollAt,
    SetAside,
    Truncate,
    WriteFile,
)

SUFFIX = ".log"
STRAY = "-stray"
"""Suffix of log folders that were set aside."""
DEFAULT_SEGMENT_BYTES = 1 << 30


@dataclass(slots=True, kw_only=True)
class _Segments:
    """A log's segments: their first offsets, and the last segment's path and size in bytes."""

    bases: list[int] = field(default_factory=list)
    path: str = ""
    size: int = 0


class LogFiles:
    """The logs of a log dir, as files on a disk.

    Attributes:
        segment_bytes: The size at which segments are rolled (`log.segment.bytes`).
        rolled_at: For each folder whose topic has its own `segment.bytes`: this size.
    """

    def __init__(self, disk: Disk, *, segment_bytes: int = DEFAULT_SEGMENT_BYTES) -> None:
        self._disk = disk
        self._logs: dict[str, _Segments] = {}
        self.segment_bytes = segment_bytes
        self.rolled_at: dict[str, int] = {}
        for folder, bases in segments(disk).items():
            path = segment_path(folder, bases[-1])
            self._logs[folder] = _Segments(bases=bases, path=path, size=len(disk.read(path)))

    def write(self, effect: Effect) -> None:
        """Execute a disk effect; ignore other effects.

        Raises:
            OSError: The disk refused the effect.
        """
        match effect:
            case Append():
                self._append(effect)
            case Flush():
                if mine := self._logs.get(effect.folder):
                    self._disk.flush(mine.path)
            case Truncate():
                self._truncate(effect.folder, effect.offset)
            case DropLog():
                self._drop(effect.folder)
            case WriteFile():
                self._disk.replace(effect.path, effect.data)
            case RemoveFile():
                self._disk.remove(effect.path)
            case RollAt():
                self.rolled_at[effect.folder] = effect.segment_bytes
            case SetAside():
                self._forget(effect.folder)
                self._disk.rename(effect.folder, effect.name)
            case _:
                raise TypeError(f"{type(effect).__name__} is not an effect on a disk")

    def _append(self, effect: Append) -> None:
        folder, data = effect.folder, effect.data
        mine = self._logs.get(folder)
        limit = self.rolled_at.get(folder, self.segment_bytes)
        if mine and not mine.size and mine.bases[-1] != effect.base_offset:
            # The log continues at another offset. The empty segment would wrongly mark the log's
            # start or end.
            self._disk.remove(segment_path(folder, mine.bases.pop()))
            mine = self._rolled(folder, effect.base_offset)
        elif mine is None or (mine.size and mine.size + len(data) > limit):
            mine = self._rolled(folder, effect.base_offset)
        self._disk.append(mine.path, data)
        mine.size += len(data)

    def _rolled(self, folder: str, base: int) -> _Segments:
        """Flush the last segment, then begin a new one.

        So a crash can tear only the last segment.
        """
        mine = self._logs.setdefault(folder, _Segments())
        if mine.bases:
            self._disk.flush(segment_path(folder, mine.bases[-1]))
        mine.bases.append(base)
        mine.path, mine.size = segment_path(folder, base), 0
        return mine

    def _truncate(self, folder: str, offset: int) -> None:
        mine = self._logs.get(folder)
        while mine and mine.bases and mine.bases[-1] >= offset:
            self._disk.remove(segment_path(folder, mine.bases.pop()))
        if mine is None or not mine.bases:
            # A log has at least one segment. Its name gives the log's start after a restart.
            self._logs.pop(folder, None)
            self._append(Append(folder=folder, base_offset=offset, data=b""))
            return
        mine.path = segment_path(folder, mine.bases[-1])
        mine.size = position_of(self._disk.read(mine.path), offset)
        self._disk.truncate(mine.path, mine.size)

    def _forget(self, folder: str) -> None:
        self._logs.pop(folder, None)
        self.rolled_at.pop(folder, None)

    def _drop(self, folder: str) -> None:
        self._forget(folder)
        for path in self._disk.paths():
            if path.startswith(f"{folder}/"):
                self._disk.remove(path)


def segments(disk: Disk) -> Mapping[str, list[int]]:
    """Return, for each log folder, the sorted first offsets of its segments.

    Folders that were set aside are skipped.
    """
    found: dict[str, list[int]] = {}
    for path in disk.paths():
        folder, slash, name = path.rpartition("/")
        stem = name.removesuffix(SUFFIX)
        if folder.endswith(STRAY):
            continue
        if slash and stem != name and stem.isdecimal() and stem.isascii():
            found.setdefault(folder, []).append(int(stem))
    return {folder: sorted(bases) for folder, bases in found.items()}


def segment_path(folder: str, base: int) -> str:
    """Return the path of a segment, given its first offset."""
    return f"{folder}/{base:020d}{SUFFIX}"


def position_of(data: bytes, offset: int) -> int:
    """Return where, in a valid segment, the first batch begins that ends after an offset."""
    position = 0
    while position < len(data):
        mine = batch_of(data[position : position + HEADER_BYTES])
        if mine.end_offset > offset:
            break
        position += int.from_bytes(data[position + 8 : position + 12], "big") + 12
    return position
