"""This module reads committed offsets of consumer groups from records of `__consumer_offsets`.

Keys are OffsetCommitKey (versions 0 and 1), values are OffsetCommitValue (versions 0 to 4). Each
key and each value begins with a version in two bytes. A key without a value deletes the committed
offset. Other records of the topic, such as group members, have keys of later versions.
"""

import struct
from dataclasses import dataclass

from kio.serial.errors import SerialError
from kio.serial.readers import read_compact_string

from cluster.files.batches import Record

OFFSETS_TOPIC = "__consumer_offsets"
_KEY_VERSIONS = frozenset({0, 1})
_WITH_EPOCH, _FLEXIBLE = 3, 4
"""Since version 3, values have a leader epoch. Since version 4, values have compact strings."""
_VERSION = struct.Struct(">h")
_OFFSET = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The key of a committed offset: group, topic and partition."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A committed offset. `leader_epoch` is -1 if the record has no leader epoch."""

    offset: int
    leader_epoch: int
    metadata: str


def position_of(record: Record) -> tuple[Place, Committed | None] | None:
    """Parse a record of `__consumer_offsets` as an offset commit.

    Any client can produce to the topic, so unknown content is not an error.

    Returns:
        The key and the committed offset. If the record deletes the offset, the committed offset is
        None. If the record is not an offset commit, the result is None.
    """
    try:
        place = _place(record.key or b"")
        if place is None:
            return None
        return place, _committed(record.value) if record.value is not None else None
    except (struct.error, ValueError, SerialError, IndexError):
        return None


def _place(key: bytes) -> Place | None:
    if len(key) < _VERSION.size or _VERSION.unpack_from(key)[0] not in _KEY_VERSIONS:
        return None
    group, at = _text(key, _VERSION.size)
    topic, at = _text(key, at)
    return Place(group=group, topic=topic, partition=_INT32.unpack_from(key, at)[0])


def _committed(value: bytes) -> Committed:
    (version,), (offset,) = _VERSION.unpack_from(value), _OFFSET.unpack_from(value, _VERSION.size)
    at, epoch = _VERSION.size + _OFFSET.size, _NONE
    if version >= _WITH_EPOCH:
        (epoch,), at = _INT32.unpack_from(value, at), at + _INT32.size
    if version >= _FLEXIBLE:
        metadata, _ = read_compact_string(value, at)
    else:
        metadata, _ = _text(value, at)
    return Committed(offset=offset, leader_epoch=epoch, metadata=metadata)


def _text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _VERSION.unpack_from(data, at)
    end = at + _VERSION.size + size
    return data[at + _VERSION.size : end].decode(), end
