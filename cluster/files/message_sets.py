"""This module reads messages of magic 0 and 1, the format before Kafka 0.11 (KIP-32, KIP-98).

Brokers up to 3.x still write this format if `log.message.format.version` asks for it. A message set
is a sequence of messages. Each message has its offset, its size and its own CRC. There are no
batches, leader epochs, producer ids or headers.

Compressed messages are the value of a wrapper message. The wrapper has the offset of the last
message inside it. In magic 0 the inner offsets are absolute. In magic 1 the inner offsets count
from the wrapper's first message (KIP-31).

Layout: https://kafka.apache.org/documentation/#messageset (numbers are big-endian).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from zlib import crc32

from cluster.files.compression import CODEC_BITS, Codec, decompressed

PREFIX = struct.Struct(">qi")
"""The prefix of a batch or message in all formats: the offset, and the size after the prefix."""
NO_TIMESTAMP = -1
LOG_APPEND_TIME = 0x08
"""The attribute bit of a message which says that the broker, not the producer, set the
timestamp."""

_CRC = struct.Struct(">I")
_HEAD = struct.Struct(">bb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_SUMMED_FROM = PREFIX.size + _CRC.size
LEAST_BYTES = {
    magic: _SUMMED_FROM + _HEAD.size + stamp + 2 * _LENGTH.size
    for magic, stamp in ((0, 0), (1, _TIMESTAMP.size))
}
"""For each magic, the size in bytes of the shortest message, including the prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message, or a wrapper with compressed messages.

    Attributes:
        offset: The offset in the partition; for a wrapper, the offset of the last inner message.
        magic: 0 or 1.
        attributes: The bits for codec and timestamp type.
        timestamp: In milliseconds; `NO_TIMESTAMP` in magic 0.
        key: None if the message has no key.
        value: None for a tombstone; for a wrapper, the compressed messages.
    """

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def sound_message(data: memoryview) -> Message | None:
    """Parse bytes as one message including the prefix; return None if the CRC is wrong.

    Raises:
        ValueError: The CRC is correct, but key and value are longer than the message.
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
    """Yield the messages in a wrapper, with absolute offsets; yield any other message unchanged.

    Raises:
        ValueError, IndexError, cramjam.DecompressionError: The wrapper's content is damaged.
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
            raise ValueError(f"a wrapper message has {len(view) - position} extra bytes")
        _, length = PREFIX.unpack_from(view, position)
        end = position + PREFIX.size + length
        if length < LEAST_BYTES[0] - PREFIX.size or end > len(view):
            raise ValueError(
                f"a message in a wrapper message has an invalid length of {length} bytes"
            )
        magic = view[position + _SUMMED_FROM]
        if end - position < LEAST_BYTES.get(magic, len(view) + 1):
            raise ValueError(
                f"a message in a wrapper message has magic {magic} and an invalid"
                f" length of {length} bytes"
            )
        message = sound_message(view[position:end])
        if message is None:
            raise ValueError(
                f"the message at byte {position} of a wrapper message does not match its CRC"
            )
        yield message
        position = end


def _nullable_bytes(data: memoryview, position: int) -> tuple[bytes | None, int]:
    if position + _LENGTH.size > len(data):
        raise ValueError(f"a message ends before the length field at byte {position} is complete")
    (length,) = _LENGTH.unpack_from(data, position)
    start = position + _LENGTH.size
    if length < 0:
        return None, start
    if start + length > len(data):
        raise ValueError(
            f"a key or value at byte {position} has {length} bytes, but the data has"
            f" {len(data)} bytes"
        )
    return bytes(data[start : start + length]), start + length
