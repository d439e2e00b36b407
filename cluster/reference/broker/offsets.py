"""Encode committed offsets as records of `__consumer_offsets`, exactly as Kafka does.

Keys and values are Kafka's OffsetCommitKey (version 1) and OffsetCommitValue (version 3). Each key
and each value begins with two bytes for its version. A key without a value deletes an offset.
"""

import struct
from collections.abc import Iterator, Sequence

from crc32c import crc32c

from cluster.files.batches import read_segment, records
from cluster.files.group_offsets import Committed, Place, position_of

MOST_NAME_BYTES = 32_767
"""The longest name that records can contain, in bytes. Requests can contain longer names."""
_KEY_VERSION, _VALUE_VERSION = 1, 3
_MAGIC = 2
_NONE = -1
_HEAD = struct.Struct(">qiibI")
_COVERED = struct.Struct(">hiqqqhii")
_PREFIX_BYTES = 12
_SEVEN_BITS, _MORE = 0x7F, 0x80


def offsets_batch(commits: Sequence[tuple[Place, Committed]], *, time_ms: int) -> bytes:
    """Return a record batch that commits these offsets."""
    body = b"".join(
        _record(number, _key(place), _value(committed, time_ms))
        for number, (place, committed) in enumerate(commits)
    )
    count = len(commits)
    covered = _COVERED.pack(0, count - 1, time_ms, time_ms, _NONE, _NONE, _NONE, count)
    length = _HEAD.size + _COVERED.size - _PREFIX_BYTES + len(body)
    head = _HEAD.pack(0, length, _NONE, _MAGIC, crc32c(covered + body))
    return head + covered + body


def committed_offsets(data: bytes) -> Iterator[tuple[Place, Committed | None]]:
    """Yield, in order, the commits in record batches; None means that the offset was deleted.

    Skip other records. Any client can produce to the topic, so an unknown record must not crash the
    partition's leader.
    """
    for batch in read_segment(data).batches:
        if batch.control:
            continue
        for each in records(batch):
            if (kept := position_of(each)) is not None:
                yield kept


def _key(place: Place) -> bytes:
    text = _text(place.group) + _text(place.topic)
    return struct.pack(">h", _KEY_VERSION) + text + struct.pack(">i", place.partition)


def _value(committed: Committed, time_ms: int) -> bytes:
    head = struct.pack(">hqi", _VALUE_VERSION, committed.offset, committed.leader_epoch)
    return head + _text(committed.metadata) + struct.pack(">q", time_ms)


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def _record(offset_delta: int, key: bytes, value: bytes) -> bytes:
    body = b"".join(
        (
            b"\0", _varint(0), _varint(offset_delta), _varint(len(key)), key,
            _varint(len(value)), value, _varint(0),
        )
    )  # fmt: skip
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    """Encode a small non-negative number as a zigzag varint."""
    number <<= 1
    parts = bytearray()
    while number > _SEVEN_BITS:
        parts.append(number & _SEVEN_BITS | _MORE)
        number >>= 7
    parts.append(number)
    return bytes(parts)
