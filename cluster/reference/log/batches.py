"""Record batches as a broker sees them: bytes with a header of 61.

A broker never unpacks what it stores. It stamps the base offset and its leader epoch into the
header: both lie before the CRC32C's cover, which begins at the attributes, so that the sum that the
producer made stays true (https://kafka.apache.org/documentation/#recordbatch).
"""

import struct
from collections.abc import Iterator

from crc32c import crc32c
from msgspec import Struct

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
_STAMP = struct.Struct(">qii")
_PREFIX = struct.Struct(">qi")
_STAMPED_BYTES, _PREFIX_BYTES = _STAMP.size, _PREFIX.size
_MAGIC_AT, _CRC_FROM = 16, 21
MAGIC = 2
CODEC_BITS = 0x07
TRANSACTIONAL = 0x10
CONTROL = 0x20
_MAX_SEQUENCE = 0x7FFF_FFFF


class BadBatchError(Exception):
    """Some bytes are no sound record batch: one sentence says why.

    Attributes:
        magic: Its format, if that is another one.
    """

    def __init__(self, what: str, *, magic: int | None = None) -> None:
        super().__init__(what)
        self.magic = magic


class Batch(Struct, kw_only=True, gc=False):
    """One batch; treated as a value, but for the log that stamps it as it is appended.

    Attributes:
        base_offset, end_offset: Of its first record, and behind its last.
        leader_epoch: In which the leader appended it.
        attributes: Codec, transactional, control: bits.
        max_timestamp: Of its records, in milliseconds.
        producer_id, producer_epoch, base_sequence: -1 without idempotence.
        count: How many records it announces.
        data: All of its bytes.
    """

    base_offset: int
    end_offset: int
    leader_epoch: int
    attributes: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    data: bytes

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record; numbers wrap behind 2^31 - 1."""
        return (self.base_sequence + self.end_offset - self.base_offset - 1) & _MAX_SEQUENCE


def batch(data: bytes) -> Batch:
    """Return the batch that some bytes are, unchecked.

    Raises:
        struct.error: They are shorter than a header.
    """
    return _unpacked(data)[0]


def sound_batch(data: bytes) -> Batch:
    """Return the batch that some bytes are, all of them.

    Raises:
        BadBatchError: It does not match its sum, or ends before it begins.
    """
    return _sound(data, *_unpacked(data))


def sound_batches(data: bytes) -> list[Batch]:
    """Return the batches that some bytes are, each checked against its sum.

    Raises:
        BadBatchError: One of them is torn, damaged, or none of magic 2.
    """
    if len(data) >= HEADER_BYTES and data[_MAGIC_AT] == MAGIC:
        found, size, crc = _unpacked(data)
        if size == len(data):
            return [_sound(data, found, size, crc)]
    return list(sound_batches_of(data))


def sound_batches_of(data: bytes) -> Iterator[Batch]:
    """Yield the sound batches that some bytes begin with.

    Raises:
        BadBatchError: As `sound_batches`, but after those before it.
    """
    position, size = 0, len(data)
    while position < size:
        end = position + _size_at(data, position)
        yield sound_batch(data[position:end])
        position = end


def _sound(data: bytes, found: Batch, _size: int, crc: int) -> Batch:
    if crc32c(memoryview(data)[_CRC_FROM:]) != crc:
        raise BadBatchError(f"the batch of offset {found.base_offset} does not match its CRC")
    if found.end_offset <= found.base_offset:
        raise BadBatchError(f"the batch of offset {found.base_offset} ends before it begins")
    return found


def _unpacked(data: bytes) -> tuple[Batch, int, int]:
    """Return the batch that some bytes are, the size and the sum that it should have."""
    (
        base_offset, length, leader_epoch, _, crc, attributes, last_offset_delta, _,
        max_timestamp, producer_id, producer_epoch, base_sequence, count,
    ) = HEADER.unpack_from(data)  # fmt: skip
    found = Batch(
        base_offset=base_offset,
        end_offset=base_offset + last_offset_delta + 1,
        leader_epoch=leader_epoch,
        attributes=attributes,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=count,
        data=data,
    )
    return found, length + _PREFIX_BYTES, crc


def stamped(data: bytes, *, base_offset: int, leader_epoch: int) -> bytes:
    """Return a batch with the offset and the epoch that its leader gives it."""
    return _STAMP.pack(base_offset, len(data) - _PREFIX_BYTES, leader_epoch) + data[_STAMPED_BYTES:]


def _size_at(data: bytes, position: int) -> int:
    remaining = len(data) - position
    if remaining < HEADER_BYTES:
        raise BadBatchError(f"a torn batch: {remaining} bytes are left")
    _, length = _PREFIX.unpack_from(data, position)
    size: int = length + _PREFIX_BYTES
    magic = data[position + _MAGIC_AT]
    if magic != MAGIC:
        raise BadBatchError(f"a batch of magic {magic}, not {MAGIC}", magic=magic)
    if not HEADER_BYTES <= size <= remaining:
        raise BadBatchError(f"a torn batch: {remaining} bytes of {size}")
    return size
