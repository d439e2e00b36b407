"""Read a log dir at a node's start, and repair crash damage, as Kafka's LogLoader does.

- After a clean shutdown nothing is repaired. Otherwise each log is repaired from the segment that
  contains its recovery point. The log is cut before the first torn or damaged batch, and all later
  segments are removed.
- All data before the recovery point were flushed. All segments before the last one were flushed,
  too. If such data are damaged or missing, the disk lost them. If the log were cut before such
  data, acknowledged records would be lost. So the node refuses to start.
- Leader epochs are rebuilt from the batches. So a lost or damaged checkpoint of epochs does no
  harm.
- If recovery points are missing, all segments are checked. If high watermarks are missing, they
  begin at the logs' starts.
- After some kinds of damage, Kafka takes the log dir offline. Here the node refuses to start:
  damaged high watermarks, a damaged `partition.metadata`, or a folder that is not a log's folder. A
  log without `partition.metadata` is accepted, but belongs to no topic.
- Folders that were set aside (`-stray`) are not touched.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from cluster.files.checkpoints import (
    EpochStart,
    leader_epochs,
    offset_checkpoint,
    partition_topic_id,
)
from cluster.files.damage import DamagedFileError
from cluster.reference.log.batches import BadBatchError, sound_batches_of
from cluster.reference.log.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    place_of,
)
from cluster.reference.log.disk import Disk
from cluster.reference.log.files import STRAY, segment_path, segments
from cluster.reference.log.log import NO_LIMIT, Log

_ASIDE = ".tmp"


class DamagedLogError(Exception):
    """A log dir has damage that a crash cannot cause.

    The message is one sentence that names the remedy.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredLog:
    """The content of one log's files, after repair.

    Attributes:
        folder: `TOPIC-PARTITION`.
        batches: All valid batches, without a gap.
        start_offset: The first segment's offset, or the offset in the log start checkpoint: the
            larger of both.
        recovery_point: All offsets before this point are flushed.
        epochs: The leader epoch checkpoint.
        topic_id: The id of the log's topic; None if the file `partition.metadata` is missing.
    """

    folder: str
    batches: tuple[bytes, ...]
    start_offset: int
    recovery_point: int
    epochs: tuple[EpochStart, ...]
    topic_id: UUID | None

    def log(self, *, flush_messages: int = NO_LIMIT) -> Log:
        """Return the recovered log as a `Log` object in memory."""
        return Log(
            self.folder,
            batches=self.batches,
            start_offset=self.start_offset,
            epochs=self.epochs,
            recovery_point=self.recovery_point,
            flush_messages=flush_messages,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The content of a log dir, after repair.

    Attributes:
        logs: The logs by folder, sorted.
        high_watermarks: The high watermarks by folder, from the last checkpoint.
        clean: Whether the node had shut down cleanly.
        broker_epoch: The broker epoch at a clean shutdown (KIP-966); -1 if unknown.
        said: Lines for the node's log. They have the same text as Kafka's.
    """

    logs: Mapping[str, RecoveredLog]
    high_watermarks: Mapping[str, int]
    clean: bool
    broker_epoch: int
    said: tuple[str, ...]


def recovered(disk: Disk) -> Recovered:
    """Read a log dir and repair it; remove the marker of a clean shutdown.

    Raises:
        DamagedLogError: The log dir has damage that a crash cannot cause.
        OSError: The log dir cannot be read or repaired.
    """
    said: list[str] = []
    paths = _without_leftovers(disk)
    said += _strays(paths)
    files = {path: disk.read(path) for path in paths if "/" not in path}
    clean = CLEAN_SHUTDOWN in files
    points = _offsets(files, RECOVERY_POINTS, _reset(said, "recovery checkpoint to 0"))
    starts = _offsets(files, LOG_STARTS, _reset(said, "log start offsets to those of the segments"))
    marks = _offsets(files, HIGH_WATERMARKS, _refuse)
    logs = {
        folder: _Reader(disk, folder, clean=clean, said=said).log(
            bases, recovery_point=points.get(folder, 0), start=starts.get(folder, 0)
        )
        for folder, bases in segments(disk).items()
    }
    if clean:
        disk.remove(CLEAN_SHUTDOWN)
    return Recovered(
        logs=logs,
        high_watermarks=marks,
        clean=clean,
        broker_epoch=_broker_epoch(files.get(CLEAN_SHUTDOWN, b"")),
        said=tuple(said),
    )


class _Read(NamedTuple):
    """The end of a segment's readable part: the offset, the byte, and the problem there."""

    end: int
    size: int
    damage: str


@dataclass(slots=True)
class _Reader:
    """The reader of one log."""

    disk: Disk
    folder: str
    clean: bool
    said: list[str]

    def log(self, bases: Sequence[int], *, recovery_point: int, start: int) -> RecoveredLog:
        topic_id = self._topic_id()
        found: list[bytes] = []
        end = bases[0]
        for number, base in enumerate(bases):
            following = bases[number + 1 :]
            # A segment begins after all earlier ones were flushed. So no crash removes one from the
            # middle.
            flushed = (
                self.clean or base != end or bool(following and following[0] <= recovery_point)
            )
            read = self._segment(base, end, found)
            end = read.end
            if read.damage and flushed:
                raise DamagedLogError(
                    f"{segment_path(self.folder, base)}: {read.damage}; all of it had been"
                    " flushed, so the disk has lost data: restore the file, or remove the folder"
                    f" {self.folder}, so that the partition is copied from its leader"
                )
            if read.damage:
                self._cut(base, read, following)
                break
        return RecoveredLog(
            folder=self.folder,
            batches=tuple(found),
            start_offset=max(bases[0], min(start, end)),
            # All segments before the last one were flushed when the last one began. A recovery
            # point inside the last one may be older than a cut of the log there.
            recovery_point=end if self.clean else min(recovery_point, base),
            epochs=self._epochs(),
            topic_id=topic_id,
        )

    def _segment(self, base: int, end: int, found: list[bytes]) -> _Read:
        """Add a segment's valid batches to `found`. The first one must begin at offset `end`."""
        if base != end:
            return _Read(
                end,
                0,
                (f"the segment begins at offset {base}, but the previous segment ends at {end}"),
            )
        size = 0
        try:
            for each in sound_batches_of(self.disk.read(segment_path(self.folder, base))):
                if each.base_offset != end:
                    return _Read(
                        end,
                        size,
                        (f"a batch has the base offset {each.base_offset} instead of {end}"),
                    )
                found.append(each.data)
                end = each.end_offset
                size += len(each.data)
        except BadBatchError as bad:
            return _Read(end, size, str(bad))
        return _Read(end, size, "")

    def _cut(self, base: int, read: _Read, following: Sequence[int]) -> None:
        self.said.append(
            f"[LogLoader partition={self.folder}] Corruption found in segment {base},"
            f" truncating to offset {read.end}"
        )
        for each in following:
            self.disk.remove(segment_path(self.folder, each))
        path = segment_path(self.folder, base)
        self.disk.truncate(path, read.size)
        self.disk.flush(path)

    def _epochs(self) -> tuple[EpochStart, ...]:
        path = f"{self.folder}/{LEADER_EPOCHS}"
        try:
            return tuple(leader_epochs(self.disk.read(path).decode()))
        except FileNotFoundError:
            return ()
        except (DamagedFileError, UnicodeDecodeError) as damaged:
            self.said.append(f"{path} is damaged ({damaged}): recreated from the log")
            self.disk.remove(path)
            return ()

    def _topic_id(self) -> UUID | None:
        path = f"{self.folder}/{PARTITION_METADATA}"
        try:
            return UUID(partition_topic_id(self.disk.read(path).decode()))
        except FileNotFoundError:
            return None
        except (DamagedFileError, UnicodeDecodeError) as damaged:
            raise DamagedLogError(
                f"{path}: {damaged}: restore the file, or remove the folder {self.folder}, so"
                " that the partition is copied from its leader"
            ) from damaged


def _without_leftovers(disk: Disk) -> list[str]:
    """Remove temporary files that a crash left; return the paths of the other files."""
    paths = disk.paths()
    for path in paths:
        if path.endswith(_ASIDE):
            disk.remove(path)
    return [path for path in paths if not path.endswith(_ASIDE)]


def _strays(paths: Sequence[str]) -> list[str]:
    """Return the log lines about folders that were set aside.

    Raises:
        DamagedLogError: A folder is not the folder of a log.
    """
    folders = dict.fromkeys(path.rpartition("/")[0] for path in paths if "/" in path)
    for folder in folders:
        if not folder.endswith(STRAY) and not _is_log(folder):
            raise DamagedLogError(
                f"Found directory {folder}, which is not in the form of topic-partition: a log"
                " dir may contain only logs; move this directory elsewhere"
            )
    return [f"Loaded stray log: {folder}" for folder in folders if folder.endswith(STRAY)]


def _is_log(folder: str) -> bool:
    try:
        return "/" not in place_of(folder)[0]
    except ValueError:
        return False


_Damaged = Callable[[str, Exception], None]


def _offsets(files: Mapping[str, bytes], name: str, damaged: _Damaged) -> dict[str, int]:
    """Return, by folder, the offsets in a checkpoint; an empty mapping without a file."""
    try:
        found = offset_checkpoint(files.get(name, b"").decode())
    except (DamagedFileError, UnicodeDecodeError) as why:
        damaged(name, why)
        return {}
    return {f"{topic}-{partition}": offset for (topic, partition), offset in found.items()}


def _reset(said: list[str], what: str) -> _Damaged:
    def say(name: str, why: Exception) -> None:
        said.append(f"Error occurred while reading {name} ({why}), resetting the {what}")

    return say


def _refuse(name: str, why: Exception) -> None:
    raise DamagedLogError(
        f"{name}: {why}: restore the file, or remove it; without it all high watermarks begin at"
        " the logs' starts"
    ) from why


def _broker_epoch(text: bytes) -> int:
    """Return the epoch in the marker of a clean shutdown, or -1 (empty before KIP-966)."""
    try:
        return int(json.loads(text)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1
