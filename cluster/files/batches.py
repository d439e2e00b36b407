"""Log segments: record batches of format 2, as brokers since Kafka 0.11 keep them in `.log` files.

A segment is read in two steps. `read_segment` finds the batches, checks their sums and tells what
is damaged; `records` unpacks one batch. Only the second decompresses.

Layout: https://kafka.apache.org/documentation/#recordbatch (numbers are big-endian; inside of a
record they are varints, zigzag-coded).
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b

import cramjam
from crc32c import crc32c
from kio.serial.errors import SerialError
from kio.serial.readers import read_signed_varint, read_signed_varlong

from cluster.files.damage import DamagedFileError, OldFormatError

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qi")
_TIMESTAMP = struct.Struct(">q")
_HASH = struct.Struct(">q")

_MAGIC_AT = 16
_CRC_FROM = 21
_MAGIC = 2
_MAX_SEQUENCE = 0x7FFF_FFFF

_CODEC_BITS = 0x07
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_XERIAL_CHUNK = struct.Struct(">i")


class Codec(IntEnum):
    """How the records of a batch are compressed: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch:
    """One batch, its records still packed.

    Attributes:
        position: Of its first byte in the segment.
        base_offset: The offset that its records' offsets count from.
        leader_epoch: In which the leader appended it (`partitionLeaderEpoch`).
        attributes: Codec, time stamp type, transactional, control: bits.
        last_offset_delta: Of its last record, even if compaction has removed that.
        base_timestamp: In milliseconds, of the producer's or the broker's clock.
        max_timestamp: The time of all records if the broker stamps them (`LogAppendTime`).
        producer_id: -1 without idempotence.
        producer_epoch: -1 without idempotence.
        base_sequence: -1 without idempotence, and in control batches.
        count: How many records it still has.
        body: The records, compressed as the attributes say.
    """

    position: int
    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    body: memoryview

    @property
    def end_offset(self) -> int:
        """The offset behind the batch's last."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def control(self) -> bool:
        """Whether brokers wrote it (transaction markers, the quorum's messages), not a client."""
        return bool(self.attributes & _CONTROL)

    @property
    def transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    def sequence_of(self, offset: int) -> int:
        """Return a record's sequence number (it wraps behind 2^31 - 1), -1 without idempotence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + offset - self.base_offset) & _MAX_SEQUENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a batch.

    Attributes:
        offset: In the partition.
        timestamp: In milliseconds; a broker's or a client's clock, never to be used for order.
        key: None if it has none.
        value: None for a tombstone.
        record_hash: 64 bits, signed, of key, value, headers and time stamp: equal on all replicas,
            however the batch around it was compressed or compacted.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    record_hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What could be read of one segment.

    Attributes:
        batches: The whole ones, in the order of the file.
        damage: A sentence for each place that could not be read; none in a file that is whole.
            Zeros behind the last batch are no damage: a broker that dies leaves preallocated space.
    """

    batches: tuple[RecordBatch, ...]
    damage: tuple[str, ...]


def read_segment(data: bytes) -> Segment:
    """Find the batches of a segment (or of a metadata snapshot, which has the same form).

    A batch whose sum is wrong is left out, and reading goes on behind it as long as what follows
    looks like a batch: what a bit flip hides should be one batch, not the rest of the log.

    Args:
        data: The bytes of a `.log` or `.checkpoint` file.

    Raises:
        OldFormatError: The file begins with a message set of magic 0 or 1.
    """
    view = memoryview(data)
    found: list[RecordBatch] = []
    damage: list[str] = []
    position = 0
    while position < len(view):
        size = _size_at(view, position)
        reason = _misfit(view, position=position, size=size)
        if reason:
            if data.count(0, position) < len(data) - position:
                damage.append(f"{reason} at byte {position} of {len(view)}; the rest is left out")
            break
        batch = _whole_batch(view[position : position + size], position)
        if batch:
            found.append(batch)
        else:
            damage.append(f"the batch at byte {position} does not match its CRC; it is left out")
        position += size
    return Segment(batches=tuple(found), damage=tuple(damage))


def records(batch: RecordBatch) -> Iterator[Record]:
    """Unpack the records of a batch.

    Raises:
        DamagedFileError: The batch does not hold the records that it announces.
    """
    try:
        yield from _unpacked(batch, _decompressed(batch))
    except (SerialError, ValueError, IndexError, cramjam.DecompressionError) as broken:
        raise DamagedFileError(
            f"the batch at offset {batch.base_offset} cannot be unpacked: {broken}"
        ) from broken


def _size_at(view: memoryview, position: int) -> int:
    """Return the size in bytes of the batch at a position, 0 where not even its prefix is whole."""
    if len(view) - position < _PREFIX.size:
        return 0
    _, length = _PREFIX.unpack_from(view, position)
    return int(length) + _PREFIX.size


def _misfit(view: memoryview, *, position: int, size: int) -> str | None:
    """Return why no batch can be read at a position, None if one can."""
    remaining = len(view) - position
    if remaining > _MAGIC_AT and size > _PREFIX.size:
        magic = view[position + _MAGIC_AT]
        if magic < _MAGIC and position == 0:  # Further on it is more likely to be garbage.
            raise OldFormatError(
                f"the message set at byte {position} has magic {magic}; only record batches"
                " (magic 2, Kafka 0.11 and later) can be read"
            )
        if magic != _MAGIC:
            return f"no record batch (magic {magic})"
    if size < _HEADER.size or size > remaining:
        return "a torn batch"
    return None


def _whole_batch(data: memoryview, position: int) -> RecordBatch | None:
    (
        base_offset, _, leader_epoch, _, crc, attributes, last_offset_delta, base_timestamp,
        max_timestamp, producer_id, producer_epoch, base_sequence, count,
    ) = _HEADER.unpack_from(data)  # fmt: skip
    if crc32c(data[_CRC_FROM:]) != crc:
        return None
    return RecordBatch(
        position=position,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=count,
        body=data[_HEADER.size :],
    )


def _unpacked(batch: RecordBatch, body: bytes) -> Iterator[Record]:
    stamped = batch.max_timestamp if batch.attributes & _LOG_APPEND_TIME else None
    position = 0
    for _ in range(batch.count):
        length, size = read_signed_varint(body, position)
        start = position + size
        end = start + length
        if not start < end <= len(body):
            raise ValueError(f"a record of {length} bytes at byte {position} of {len(body)}")
        delta, size = read_signed_varlong(body, start + 1)  # Behind the record's attributes.
        content = start + 1 + size
        offset_delta, size = read_signed_varint(body, content)
        content += size
        key, position = _nullable_bytes(body, content)
        value, position = _nullable_bytes(body, position)
        if position >= end:
            raise ValueError(f"a record's key and value end at byte {position}, it at {end}")
        timestamp = batch.base_timestamp + delta if stamped is None else stamped
        yield Record(
            offset=batch.base_offset + offset_delta,
            timestamp=timestamp,
            key=key,
            value=value,
            record_hash=_hash(body[content:end], timestamp),
        )
        position = end


def _nullable_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    length, size = read_signed_varint(body, position)
    start = position + size
    if length < 0:
        return None, start
    return body[start : start + length], start + length


def _hash(content: bytes, timestamp: int) -> int:
    """Hash a record; `content` is its coded key, value and headers, which have one coding only."""
    digest = blake2b(content + _TIMESTAMP.pack(timestamp), digest_size=_HASH.size).digest()
    return int(_HASH.unpack(digest)[0])


def _decompressed(batch: RecordBatch) -> bytes:
    codec = Codec(batch.attributes & _CODEC_BITS)
    if codec is Codec.NONE or batch.count == 0:
        return bytes(batch.body)
    return _DECOMPRESSORS[codec](bytes(batch.body))


def _snappy(data: bytes) -> bytes:
    """Undo snappy, with the framing of Java's `SnappyOutputStream` or (librdkafka's) without.

    The framing: magic, two version numbers, then chunks, each behind its compressed size.
    """
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    chunks = []
    position = _XERIAL_HEADER_BYTES
    while position + _XERIAL_CHUNK.size <= len(data):
        (size,) = _XERIAL_CHUNK.unpack_from(data, position)
        start = position + _XERIAL_CHUNK.size
        if not 0 < size <= len(data) - start:
            raise ValueError(f"a snappy chunk of {size} bytes at byte {position} of {len(data)}")
        chunks.append(bytes(cramjam.snappy.decompress_raw(data[start : start + size])))
        position = start + size
    return b"".join(chunks)


_DECOMPRESSORS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.GZIP: lambda data: bytes(cramjam.gzip.decompress(data)),
    Codec.SNAPPY: _snappy,
    Codec.LZ4: lambda data: bytes(cramjam.lz4.decompress(data)),
    Codec.ZSTD: lambda data: bytes(cramjam.zstd.decompress(data)),
}
