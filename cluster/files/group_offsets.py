"""Positions of groups: records of `__consumer_offsets`, as a coordinator keeps them.

Keys and values are Kafka's OffsetCommitKey (versions 0 and 1) and OffsetCommitValue (versions 0 to
4), each behind two bytes with its version; a key without a value forgets a position. Other records
of the topic, such as a group's members, have keys of later versions.
"""

import struct
from dataclasses import dataclass

from kio.serial.errors import SerialError
from kio.serial.readers import read_compact_string

from cluster.files.batches import Record

OFFSETS_TOPIC = "__consumer_offsets"
_KEY_VERSIONS = frozenset({0, 1})
_WITH_EPOCH, _FLEXIBLE = 3, 4
"""Versions of a value: from these on it has a leader epoch, and codes its texts compactly."""
_VERSION = struct.Struct(">h")
_OFFSET = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whose position it is, and of what."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Up to where a partition was read; `leader_epoch` is -1 where the record has none."""

    offset: int
    leader_epoch: int
    metadata: str


def position_of(record: Record) -> tuple[Place, Committed | None] | None:
    """Return what a record of the topic commits; None in its place: it forgets the position.

    Anybody can produce to the topic: what is no commit gives None, whatever it is.
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
