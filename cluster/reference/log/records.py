"""Whether the records of a batch are records: what a broker must know before it stores them.

Kafka's brokers walk over the records of every batch that a producer sends (LogValidator): a batch
with a true CRC around rubbish would make the log unreadable for everybody.
"""

from cramjam import DecompressionError

from cluster.files.compression import Codec, decompressed
from cluster.reference.log.batches import CODEC_BITS, HEADER_BYTES, Batch

_MAX_VARINT_SHIFT = 63


def check_records(batch: Batch) -> None:
    """Walk over a batch's records.

    Raises:
        ValueError: They are not what the header announces: one sentence says why.
    """
    body = batch.data[HEADER_BYTES:]
    codec = batch.attributes & CODEC_BITS
    if codec:
        try:
            body = decompressed(body, Codec(codec))
        except (DecompressionError, ValueError, IndexError) as broken:
            raise ValueError(f"the records cannot be decompressed: {broken}") from broken
    try:
        position = 0
        for delta in range(batch.count):
            position = _record(body, position, delta)
    except IndexError:
        raise ValueError("a record goes on behind the end of its batch") from None
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes follow the last record")


def _record(body: bytes, position: int, delta: int) -> int:
    """Check the record at a position; return the next one's."""
    length, position = _varint(body, position)
    end = position + length
    if length <= 0 or end > len(body):
        raise ValueError(f"a record of {length} bytes at byte {position} of {len(body)}")
    _, position = _varint(body, position + 1)  # Its attributes, then the time stamp's delta.
    found, position = _varint(body, position)
    if found != delta:
        raise ValueError(f"a record of offset delta {found} where {delta} is due")
    position = _bytes(body, position, least=-1)
    position = _bytes(body, position, least=-1)
    headers, position = _varint(body, position)
    if headers < 0:
        raise ValueError(f"a record of {headers} headers")
    for _ in range(headers):
        position = _bytes(body, position, least=0)
        position = _bytes(body, position, least=-1)
        if position > end:
            break
    if position != end:
        raise ValueError(f"a record ends at byte {position}, not {end} as it says")
    return end


def _bytes(body: bytes, position: int, *, least: int) -> int:
    """Return where some bytes end that follow their length; -1 stands for null."""
    length, position = _varint(body, position)
    if length < least:
        raise ValueError(f"a length of {length}")
    return position + max(length, 0)


def _varint(body: bytes, position: int) -> tuple[int, int]:
    byte = body[position]
    position += 1
    if byte < 0x80:  # noqa: PLR2004 - most of them are short
        return (byte >> 1) ^ -(byte & 1), position
    number, shift = byte & 0x7F, 7
    while True:
        byte = body[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte has no top bit
            return (number >> 1) ^ -(number & 1), position
        shift += 7
        if shift > _MAX_VARINT_SHIFT:
            raise ValueError("a number of more than 64 bits")
