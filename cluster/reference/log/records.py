"""Check that a producer's batch contains valid records, before a broker stores it.

Kafka's brokers iterate over the records of each produced batch (LogValidator). Otherwise a batch of
invalid bytes with a correct CRC would make the log unreadable for all consumers.
"""

from collections.abc import Callable

import cramjam

from cluster.files.compression import Codec, decompressed
from cluster.reference.log.batches import CODEC_BITS, HEADER_BYTES, Batch

_MAX_VARINT_SHIFT = 63
_TOP_BIT = 0x80
"""The highest bit of a byte; set in all bytes of a varint except the last."""
_SHORT_NUMBERS = 4
"""Bytes for a small record's attributes, timestamp delta, offset delta and key length."""
_MAX_BYTES = 64 << 20
"""A batch may have at most this many bytes when decompressed: a few can become gigabytes."""
_SNAPPY_RATIO = 32
"""Decompressed data are at most this many times larger: from 3 bytes, snappy makes up to 64."""
_FULL = "failed to write whole buffer"
_FRAMED = b"\x82SNAPPY\0"
_FRAME_BYTES = 16
_CHUNK_SIZE_BYTES = 4

_Into = Callable[[bytes, bytearray], int]
_DECOMPRESSORS: dict[Codec, _Into] = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}


def check_records(batch: Batch) -> None:
    """Check each record of a batch.

    Raises:
        ValueError: The records do not match the header. The message is one sentence with the
            reason.
    """
    body = batch.data[HEADER_BYTES:]
    codec = batch.attributes & CODEC_BITS
    if codec:
        try:
            body = _decompressed(body, Codec(codec))
        except (cramjam.DecompressionError, ValueError, IndexError) as broken:
            raise ValueError(f"the records cannot be decompressed: {broken}") from broken
    try:
        position = 0
        for delta in range(batch.count):
            position = _small_record(body, position, delta) or _record(body, position, delta)
    except IndexError:
        raise ValueError("a record continues after the end of its batch") from None
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes follow the last record")


def _decompressed(data: bytes, codec: Codec) -> bytes:
    """Decompress into a buffer of limited size, whatever size the data announce."""
    if codec is Codec.SNAPPY:
        return _snappy(data)
    room = max(1 << 16, 8 * len(data))
    while True:
        try:
            _into(_DECOMPRESSORS[codec], data, room)
        except cramjam.DecompressionError as failure:
            if _FULL not in str(failure) or room >= _MAX_BYTES:
                raise
            room *= 8
        else:
            # The data fit into the limit. Readers decompress all of the data, so check all of it.
            return decompressed(data, codec)


def _snappy(data: bytes) -> bytes:
    """Decompress snappy data, with or without the framing of Java's `SnappyOutputStream`."""
    into = cramjam.snappy.decompress_raw_into
    if not data.startswith(_FRAMED):
        return _into(into, data, _SNAPPY_RATIO * len(data))
    chunks, position = [], _FRAME_BYTES
    while position < len(data):
        start = position + _CHUNK_SIZE_BYTES
        position = start + int.from_bytes(data[start - _CHUNK_SIZE_BYTES : start], "big")
        if not start < position <= len(data):
            raise ValueError(f"a snappy chunk ends at byte {position} of {len(data)}")
        chunks.append(_into(into, data[start:position], _SNAPPY_RATIO * (position - start)))
    return b"".join(chunks)


def _into(decompress: _Into, data: bytes, room: int) -> bytes:
    buffer = bytearray(min(room, _MAX_BYTES))
    size = decompress(data, buffer)
    return bytes(memoryview(buffer)[:size])


def _small_record(body: bytes, position: int, delta: int) -> int:
    """Check a small record without headers: most records are like this.

    The length of the record and the length of the value have at most two bytes. The other numbers
    have one byte.

    Returns:
        The position of the next record; 0 if this record has another form. A record of another form
        may still be valid.
    """
    length, at = _short(body, position)
    numbers = body[at : at + _SHORT_NUMBERS]
    if len(numbers) < _SHORT_NUMBERS or not numbers.isascii() or numbers[2] != 2 * delta:
        return 0
    key, end = numbers[3], at + (length >> 1)
    if length & 1 or (key & 1 and key != 1):  # Negative: only null has such a length.
        return 0
    at += _SHORT_NUMBERS + (key >> 1)
    if at >= end or end > len(body):
        return 0
    value, at = _short(body, at)
    if value & 1 and value != 1:
        return 0
    at += value >> 1
    return end if at + 1 == end and body[at] == 0 else 0


def _short(body: bytes, position: int) -> tuple[int, int]:
    """Return a varint of one or two bytes (zigzag not decoded), and its end; -1 if longer."""
    coded = body[position : position + 2]
    if coded and coded[0] < _TOP_BIT:
        return coded[0], position + 1
    if len(coded) > 1 and coded[1] < _TOP_BIT:
        return coded[0] & 0x7F | coded[1] << 7, position + 2
    return -1, position


def _record(body: bytes, position: int, delta: int) -> int:
    """Check the record at a position; return the position of the next one."""
    length, position = varint(body, position)
    end = position + length
    if length <= 0 or end > len(body):
        raise ValueError(
            f"a record at byte {position} has {length} bytes, but the data has {len(body)} bytes"
        )
    _, position = varint(body, position + 1)  # The attributes, then the timestamp delta.
    found, position = varint(body, position)
    if found != delta:
        raise ValueError(f"a record has the offset delta {found} instead of {delta}")
    position = _bytes(body, position, least=-1)
    position = _bytes(body, position, least=-1)
    headers, position = varint(body, position)
    if headers < 0:
        raise ValueError(f"a record has {headers} headers")
    for _ in range(headers):
        position = _bytes(body, position, least=0)
        position = _bytes(body, position, least=-1)
        if position > end:
            break
    if position != end:
        raise ValueError(f"a record ends at byte {position}, but its length field says {end}")
    return end


def _bytes(body: bytes, position: int, *, least: int) -> int:
    """Return the end position of bytes with a length prefix; the length -1 means null."""
    length, position = varint(body, position)
    if length < least:
        raise ValueError(f"a length of {length}")
    return position + max(length, 0)


def varint(body: bytes, position: int) -> tuple[int, int]:
    """Return a zigzag varint and the position of its end.

    Raises:
        IndexError, ValueError: The varint does not end, or has more than 64 bits.
    """
    byte = body[position]
    position += 1
    if byte < _TOP_BIT:
        return (byte >> 1) ^ -(byte & 1), position
    number, shift = byte & 0x7F, 7
    while True:
        byte = body[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < _TOP_BIT:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
        if shift > _MAX_VARINT_SHIFT:
            raise ValueError("a number of more than 64 bits")
