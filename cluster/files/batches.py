"""Log segments: record batches of format 2, as brokers since Kafka 0.11 keep them in `.log` files.

A segment is read in two steps. `read_segment` finds the batches, checks their sums and tells what
is damaged; `records` unpacks one batch. Only the second decompresses. Where a segment has messages
of an older format (`message_sets`), each of them, or each wrapper, counts as a batch.

Layout: https://kafka.apache.org/documentation/#recordbatch (numbers are big-endian; inside of a
record they are varints, zigzag-coded).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO

import cramjam
from crc32c import crc32c
from kio.serial.errors import SerialError
from kio.serial.readers import read_signed_varint, read_signed_varlong
from kio.serial.writers import write_signed_varint

from cluster.files.compression import CODEC_BITS, Codec, decompressed
from cluster.files.damage import DamagedFileError
from cluster.files.message_sets import (
    LEAST_BYTES,
    LOG_APPEND_TIME,
    PREFIX,
    sound_message,
    unwrapped,
)
from results.record.headers import NO_HEADERS

_HEADER = struct.Struct(">qiibIhiqqqhii")
_TIMESTAMP = struct.Struct(">q")
_HASH = struct.Struct(">q")

_MAGIC_AT = 16
_CRC_FROM = 21
_MAGIC = 2
_LEAST_BYTES = {**LEAST_BYTES, _MAGIC: _HEADER.size}
_MAX_SEQUENCE = 0x7FFF_FFFF

_TRANSACTIONAL = 0x10
_CONTROL = 0x20

_TORN = "a torn batch"
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch:
    """One batch, its records still packed.

    A message, or a wrapper of messages, of magic 0 or 1 is one, too. It has neither epoch nor
    producer; its body is the whole message.

    Attributes:
        position: Of its first byte in the segment.
        base_offset: The offset that its records' offsets count from; of a wrapper its last one.
        leader_epoch: In which the leader appended it (`partitionLeaderEpoch`); -1 in old formats.
        attributes: Codec, time stamp type, transactional, control: bits.
        last_offset_delta: Of its last record, even if compaction has removed that.
        base_timestamp: In milliseconds, of the producer's or the broker's clock.
        max_timestamp: The time of all records if the broker stamps them (`LogAppendTime`).
        producer_id: -1 without idempotence.
        producer_epoch: -1 without idempotence.
        base_sequence: -1 without idempotence, and in control batches.
        count: How many records it still has; -1 in a wrapper, which does not tell.
        body: The records, compressed as the attributes say.
        magic: Its format: 2, or 0 or 1 of an old message.
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
    magic: int = _MAGIC

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
        headers: As format 2 codes them; empty in formats that have none.
        stamped: Whether the time stamp is the broker's.
        record_hash: 64 bits, signed, of key, value, headers and time stamp: equal on all replicas,
            however the batch around it was compressed or compacted.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: bytes
    stamped: bool
    record_hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What could be read of one segment.

    Attributes:
        batches: The whole ones, in the order of the file.
        damage: A sentence for each place that could not be read; none in a file that is whole.
            Zeros behind the last batch are no damage: a broker that dies leaves preallocated space.
        torn: Whether the last of these is a batch that the file's end cuts off.
    """

    batches: tuple[RecordBatch, ...]
    damage: tuple[str, ...]
    torn: bool = False


def read_segment(data: bytes) -> Segment:
    """Find the batches of a segment (or of a metadata snapshot, which has the same form).

    Formats may be mixed: a log that an older Kafka began goes on with batches. A batch whose sum
    is wrong is left out, and reading goes on behind it as long as what follows looks like a batch:
    what a bit flip hides should be one batch, not the rest of the log.

    Args:
        data: The bytes of a `.log` or `.checkpoint` file.
    """
    view = memoryview(data)
    found: list[RecordBatch] = []
    damage: list[str] = []
    position, torn = 0, False
    while position < len(view):
        size = _size_at(view, position)
        reason = _misfit(view, position=position, size=size)
        if reason:
            if data.count(0, position) < len(data) - position:
                damage.append(f"{reason} at byte {position} of {len(view)}; the rest is left out")
                torn = reason == _TORN
            break
        batch = _whole_batch(view[position : position + size], position)
        if batch:
            found.append(batch)
        else:
            damage.append(f"the batch at byte {position} does not match its CRC; it is left out")
        position += size
    return Segment(batches=tuple(found), damage=tuple(damage), torn=torn)


def records(batch: RecordBatch) -> Iterator[Record]:
    """Unpack the records of a batch.

    Raises:
        DamagedFileError: The batch does not hold the records that it announces.
    """
    try:
        yield from _unpacked(batch) if batch.magic == _MAGIC else _old_records(batch)
    except (SerialError, ValueError, IndexError, cramjam.DecompressionError) as broken:
        raise DamagedFileError(
            f"the batch at offset {batch.base_offset} cannot be unpacked: {broken}"
        ) from broken


def _size_at(view: memoryview, position: int) -> int:
    """Return the size in bytes of the batch at a position, 0 where not even its prefix is whole."""
    if len(view) - position < PREFIX.size:
        return 0
    _, length = PREFIX.unpack_from(view, position)
    return int(length) + PREFIX.size


def _misfit(view: memoryview, *, position: int, size: int) -> str | None:
    """Return why no batch can be read at a position, None if one can."""
    remaining = len(view) - position
    least = _HEADER.size
    if remaining > _MAGIC_AT and size > PREFIX.size:
        magic = view[position + _MAGIC_AT]
        if magic not in _LEAST_BYTES:
            return f"no record batch (magic {magic})"
        least = _LEAST_BYTES[magic]
    if size < least or size > remaining:
        return _TORN
    return None


def _whole_batch(data: memoryview, position: int) -> RecordBatch | None:
    """Return the batch that some bytes are, None if they do not match their sum."""
    if data[_MAGIC_AT] != _MAGIC:
        return _old_batch(data, position)
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


def _old_batch(data: memoryview, position: int) -> RecordBatch | None:
    try:
        message = sound_message(data)
    except ValueError:
        return None
    if message is None:
        return None
    return RecordBatch(
        position=position,
        base_offset=message.offset,
        leader_epoch=_NONE,
        attributes=message.attributes & (CODEC_BITS | LOG_APPEND_TIME),
        last_offset_delta=0,
        base_timestamp=message.timestamp,
        max_timestamp=message.timestamp,
        producer_id=_NONE,
        producer_epoch=_NONE,
        base_sequence=_NONE,
        count=_NONE if message.attributes & CODEC_BITS else 1,
        body=data,
        magic=message.magic,
    )


def _old_records(batch: RecordBatch) -> Iterator[Record]:
    outer = sound_message(batch.body)
    if outer is None:
        raise ValueError("it does not match its CRC")
    for message in unwrapped(outer):
        content = _coded(message.key) + _coded(message.value) + NO_HEADERS
        yield Record(
            offset=message.offset,
            timestamp=message.timestamp,
            key=message.key,
            value=message.value,
            headers=b"",
            stamped=bool(outer.attributes & LOG_APPEND_TIME),
            record_hash=_hash(content, message.timestamp),
        )


def _coded(data: bytes | None) -> bytes:
    """Return a key or value as a record of format 2 has it: so one message has one hash."""
    if data is None:
        return varint(_NONE)
    return varint(len(data)) + data


def varint(number: int) -> bytes:
    """Return a number as a zigzag varint."""
    coded = BytesIO()
    write_signed_varint(coded, number)
    return coded.getvalue()


def _unpacked(batch: RecordBatch) -> Iterator[Record]:
    body = _decompressed(batch)
    stamped = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None
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
            headers=body[position:end],
            stamped=stamped is not None,
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
    codec = Codec(batch.attributes & CODEC_BITS)
    return decompressed(bytes(batch.body), codec if batch.count else Codec.NONE)
