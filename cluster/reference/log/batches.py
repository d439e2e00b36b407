"""Record batches as a broker handles them: bytes with a header of 61 bytes.

A broker never unpacks the records that it stores. It only writes the base offset and the leader
epoch into the batch's header. The CRC32C covers only bytes after these two fields: it begins with
the attributes. So the producer's checksum stays valid
(https://kafka.apache.org/documentation/#recordbatch).
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
    """Bytes that are not a valid record batch. The message is one sentence with the reason.

    Attributes:
        magic: If the batch's format version is not 2: that version. Otherwise None.
    """

    def __init__(self, what: str, *, magic: int | None = None) -> None:
        super().__init__(what)
        self.magic = magic


class Batch(Struct, kw_only=True, gc=False):
    """One record batch.

    Treat a batch as immutable. Only the log changes a batch, when it appends the batch.

    Attributes:
        base_offset, end_offset: The offset of the batch's first record, and the offset after the
            batch's last record.
        leader_epoch: The epoch of the leader that appended the batch.
        attributes: Bits for codec, transactional and control.
        max_timestamp: The largest timestamp of the records, in milliseconds.
        producer_id, producer_epoch, base_sequence: -1 without idempotence.
        count: The number of records, as stated in the header.
        data: All bytes of the batch.
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
        """The sequence number of the batch's last record; numbers wrap after 2^31 - 1."""
        return (self.base_sequence + self.end_offset - self.base_offset - 1) & _MAX_SEQUENCE


def batch(data: bytes) -> Batch:
    """Return the batch in some bytes, without a check.

    Raises:
        struct.error: The bytes are shorter than a header.
    """
    return _unpacked(data)[0]


def sound_batch(data: bytes) -> Batch:
    """Return the batch in some bytes, after a check.

    Raises:
        BadBatchError: The checksum or the offsets of the batch are wrong.
    """
    return _sound(data, *_unpacked(data))


def sound_batches(data: bytes) -> list[Batch]:
    """Return the batches in some bytes, after a check of each batch.

    Raises:
        BadBatchError: A batch is torn, damaged, or not of magic 2.
    """
    if len(data) >= HEADER_BYTES and data[_MAGIC_AT] == MAGIC:
        found, size, crc = _unpacked(data)
        if size == len(data):
            return [_sound(data, found, size, crc)]
    return list(sound_batches_of(data))


def sound_batches_of(data: bytes) -> Iterator[Batch]:
    """Yield the batches in some bytes, up to the first invalid one.

    Raises:
        BadBatchError: A batch is torn, damaged, or not of magic 2. All batches before it are
            yielded first.
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
        raise BadBatchError(
            f"the batch of offset {found.base_offset} has an end before its base offset"
        )
    return found


def _unpacked(data: bytes) -> tuple[Batch, int, int]:
    """Return the batch in some bytes, its size, and its expected checksum."""
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
    """Return a batch's bytes after writing the leader's offset and epoch into the header."""
    return _STAMP.pack(base_offset, len(data) - _PREFIX_BYTES, leader_epoch) + data[_STAMPED_BYTES:]


def _size_at(data: bytes, position: int) -> int:
    remaining = len(data) - position
    if remaining < HEADER_BYTES:
        raise BadBatchError(f"a torn batch: only {remaining} bytes are left")
    _, length = _PREFIX.unpack_from(data, position)
    size: int = length + _PREFIX_BYTES
    magic = data[position + _MAGIC_AT]
    if magic != MAGIC:
        raise BadBatchError(f"a batch of magic {magic}, not {MAGIC}", magic=magic)
    if not HEADER_BYTES <= size <= remaining:
        raise BadBatchError(f"a torn batch: only {remaining} of {size} bytes")
    return size
