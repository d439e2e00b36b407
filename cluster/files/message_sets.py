"""Messages of magic 0 and 1: how brokers kept their logs before Kafka 0.11 (KIP-32, KIP-98).

Brokers up to 3.x still write them where `log.message.format.version` says so. A set is messages end
to end, each with its offset, its size and a CRC of its own; there are no batches, no leader epochs,
no producer ids and no headers. Compressed messages are the value of one more message, the wrapper,
whose offset is that of the last of them: inside, offsets are absolute in magic 0, and counted from
the wrapper's first in magic 1 (KIP-31).

Layout: https://kafka.apache.org/documentation/#messageset (numbers are big-endian).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from zlib import crc32

from cluster.files.compression import CODEC_BITS, Codec, decompressed

PREFIX = struct.Struct(">qi")
"""Offset and size of what follows: the same in every format."""
NO_TIMESTAMP = -1
LOG_APPEND_TIME = 0x08
"""Of the attributes: the time stamp is the broker's, not the producer's."""

_CRC = struct.Struct(">I")
_HEAD = struct.Struct(">bb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_SUMMED_FROM = PREFIX.size + _CRC.size
LEAST_BYTES = {
    magic: _SUMMED_FROM + _HEAD.size + stamp + 2 * _LENGTH.size
    for magic, stamp in ((0, 0), (1, _TIMESTAMP.size))
}
"""By magic: of the shortest message, prefix included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message, or a wrapper of some.

    Attributes:
        offset: In the partition; a wrapper's is that of its last message.
        magic: 0 or 1.
        attributes: Codec and kind of time stamp: bits.
        timestamp: In milliseconds; `NO_TIMESTAMP` in magic 0.
        key: None if it has none.
        value: None for a tombstone; of a wrapper the compressed messages.
    """

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def sound_message(data: memoryview) -> Message | None:
    """Return the message that some bytes are, prefix included; None if its CRC is wrong.

    Raises:
        ValueError: The CRC is right, and yet key and value do not fit in.
    """
    (crc,) = _CRC.unpack_from(data, PREFIX.size)
    if crc32(data[_SUMMED_FROM:]) != crc:
        return None
    offset, _ = PREFIX.unpack_from(data)
    magic, attributes = _HEAD.unpack_from(data, _SUMMED_FROM)
    position = _SUMMED_FROM + _HEAD.size
    timestamp = NO_TIMESTAMP
    if magic:
        (timestamp,) = _TIMESTAMP.unpack_from(data, position)
        position += _TIMESTAMP.size
    key, position = _nullable_bytes(data, position)
    value, position = _nullable_bytes(data, position)
    return Message(
        offset=offset, magic=magic, attributes=attributes, timestamp=timestamp, key=key, value=value
    )


def unwrapped(outer: Message) -> Iterator[Message]:
    """Yield the messages of a wrapper, with their absolute offsets; or the message itself.

    Raises:
        ValueError, IndexError, cramjam.DecompressionError: It does not hold whole messages.
    """
    codec = Codec(outer.attributes & CODEC_BITS)
    if codec is Codec.NONE:
        yield outer
        return
    packed = decompressed(outer.value or b"", codec, broken_lz4=outer.magic == 0)
    inner = list(_messages(memoryview(packed)))
    shift = outer.offset - inner[-1].offset if outer.magic and inner else 0
    stamped = outer.magic and outer.attributes & LOG_APPEND_TIME
    for message in inner:
        yield replace(
            message,
            offset=message.offset + shift,
            timestamp=outer.timestamp if stamped else message.timestamp,
        )


def _messages(view: memoryview) -> Iterator[Message]:
    position = 0
    while position < len(view):
        if len(view) - position < PREFIX.size:
            raise ValueError(f"{len(view) - position} bytes are left over inside of a wrapper")
        _, length = PREFIX.unpack_from(view, position)
        end = position + PREFIX.size + length
        if length < LEAST_BYTES[0] - PREFIX.size or end > len(view):
            raise ValueError(f"a message of {length} bytes inside of a wrapper")
        magic = view[position + _SUMMED_FROM]
        if end - position < LEAST_BYTES.get(magic, len(view) + 1):
            raise ValueError(f"a message of magic {magic} and {length} bytes inside of a wrapper")
        message = sound_message(view[position:end])
        if message is None:
            raise ValueError(f"the message at byte {position} of a wrapper does not match its CRC")
        yield message
        position = end


def _nullable_bytes(data: memoryview, position: int) -> tuple[bytes | None, int]:
    if position + _LENGTH.size > len(data):
        raise ValueError(f"a message ends within a length, at byte {position}")
    (length,) = _LENGTH.unpack_from(data, position)
    start = position + _LENGTH.size
    if length < 0:
        return None, start
    if start + length > len(data):
        raise ValueError(f"a key or value of {length} bytes at byte {position} of {len(data)}")
    return bytes(data[start : start + length]), start + length
