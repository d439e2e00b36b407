"""Decompress batches and message sets, in every framing that Kafka writes."""

import struct
from collections.abc import Callable
from enum import IntEnum

import cramjam
from xxhash import xxh32_intdigest

CODEC_BITS = 0x07
"""The mask of the codec bits in the attributes of a batch or message."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_XERIAL_CHUNK = struct.Struct(">i")

_LZ4_DESCRIPTOR_FROM = 4
_LZ4_DESCRIPTOR_BYTES = 2
_LZ4_CONTENT_SIZE = 0x08
_LZ4_CONTENT_SIZE_BYTES = 8
_LZ4_DICTIONARY = 0x01
_LZ4_DICTIONARY_BYTES = 4


class Codec(IntEnum):
    """The compression codec, stored in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def decompressed(data: bytes, codec: Codec, *, broken_lz4: bool = False) -> bytes:
    """Decompress the body of a batch or the value of a wrapper message.

    Args:
        data: The compressed bytes.
        codec: The codec from the attributes of the batch or message.
        broken_lz4: Whether the lz4 frame has the wrong checksum that Kafka wrote before 0.10.

    Raises:
        ValueError, IndexError, cramjam.DecompressionError: The bytes do not match the codec.
    """
    if broken_lz4 and codec is Codec.LZ4:
        return _DECOMPRESSORS[codec](_with_right_checksum(data))
    return _DECOMPRESSORS[codec](data)


def _snappy(data: bytes) -> bytes:
    """Decompress snappy data: raw data, or the frame of Java's `SnappyOutputStream`.

    librdkafka writes raw snappy. The Java frame has a magic number, two version numbers and then
    chunks. Before each chunk, the frame has the compressed size of the chunk.
    """
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    chunks = []
    position = _XERIAL_HEADER_BYTES
    while position + _XERIAL_CHUNK.size <= len(data):
        (size,) = _XERIAL_CHUNK.unpack_from(data, position)
        start = position + _XERIAL_CHUNK.size
        if not 0 < size <= len(data) - start:
            raise ValueError(
                f"a snappy chunk at byte {position} has {size} bytes, but the data"
                f" has {len(data)} bytes"
            )
        chunks.append(bytes(cramjam.snappy.decompress_raw(data[start : start + size])))
        position = start + size
    return b"".join(chunks)


def _with_right_checksum(frame: bytes) -> bytes:
    """Replace the wrong header checksum of an old lz4 frame with the correct checksum.

    In messages of magic 0 the checksum includes the frame's magic number (KAFKA-3160). lz4 decoders
    reject such a frame.
    """
    flags = frame[_LZ4_DESCRIPTOR_FROM]
    size = _LZ4_DESCRIPTOR_BYTES
    size += _LZ4_CONTENT_SIZE_BYTES if flags & _LZ4_CONTENT_SIZE else 0
    size += _LZ4_DICTIONARY_BYTES if flags & _LZ4_DICTIONARY else 0
    end = _LZ4_DESCRIPTOR_FROM + size
    checksum = xxh32_intdigest(frame[_LZ4_DESCRIPTOR_FROM:end]) >> 8 & 0xFF
    return frame[:end] + bytes([checksum]) + frame[end + 1 :]


_DECOMPRESSORS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: lambda data: bytes(cramjam.gzip.decompress(data)),
    Codec.SNAPPY: _snappy,
    Codec.LZ4: lambda data: bytes(cramjam.lz4.decompress(data)),
    Codec.ZSTD: lambda data: bytes(cramjam.zstd.decompress(data)),
}
