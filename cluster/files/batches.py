"""This module reads record batches of format 2 from `.log` segments of Kafka 0.11 and later.

Reading takes two steps. `read_segment` finds the batches, checks their CRCs and reports damage.
`records` decompresses and unpacks one batch. In a segment with an older format (see
`message_sets`), each message or wrapper message counts as a batch.

Layout: https://kafka.apache.org/documentation/#recordbatch. Numbers are big-endian; numbers inside
a record are zigzag-coded varints.
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
    """One batch whose records are not unpacked yet.

    An old message of magic 0 or 1, or a wrapper of such messages, is also represented as a batch.
    An old message has no epoch and no producer, and `body` holds the whole message.

    Attributes:
        position: The position of the batch's first byte in the segment.
        base_offset: The base of the records' offset deltas. For a wrapper, the offset of the last
            message in the wrapper.
        leader_epoch: The leader epoch of the append (`partitionLeaderEpoch`); -1 in old formats.
        attributes: The bits for codec, timestamp type, transactional and control.
        last_offset_delta: The offset delta of the last record, even if compaction removed the
            record.
        base_timestamp: In milliseconds, by the clock of the producer or the broker.
        max_timestamp: The largest timestamp. With `LogAppendTime`, the timestamp of all records.
        producer_id: -1 without idempotence.
        producer_epoch: -1 without idempotence.
        base_sequence: -1 without idempotence, and in control batches.
        count: How many records are left after compaction; -1 for a wrapper, because wrappers have
            no count.
        body: The records, compressed with the codec of `attributes`.
        magic: The message format: 2 for a batch, 0 or 1 for an old message.
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
        """The offset after the last offset of the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def control(self) -> bool:
        """Whether this is a control batch, i.e. a transaction marker or a message of the quorum."""
        return bool(self.attributes & _CONTROL)

    @property
    def transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    def sequence_of(self, offset: int) -> int:
        """Return the sequence number of the record at an offset, or -1 without idempotence.

        Sequence numbers wrap to 0 after 2^31 - 1.
        """
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + offset - self.base_offset) & _MAX_SEQUENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a batch.

    Attributes:
        offset: The offset in the partition.
        timestamp: In milliseconds, by a broker's or a client's clock. Timestamps never define an
            order.
        key: None if the record has no key.
        value: None for a tombstone.
        headers: The headers as format 2 encodes them; empty in formats without headers.
        stamped: Whether the broker set the timestamp.
        record_hash: Signed 64-bit hash of key, value, headers and timestamp. The hash is equal on
            all replicas, even if the batches on the replicas are compressed or compacted
            differently.
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
    """The readable content of one segment.

    Attributes:
        batches: The complete batches, in file order.
        damage: One sentence for each unreadable place; an empty list for an intact file. Zeros
            after the last batch are not damage, because a crashed broker leaves preallocated space.
        torn: Whether the end of the file cuts off the last batch.
    """

    batches: tuple[RecordBatch, ...]
    damage: tuple[str, ...]
    torn: bool = False


def read_segment(data: bytes) -> Segment:
    """Find the batches of a segment, or of a metadata snapshot, which has the same format.

    One file may mix formats: a newer Kafka appends batches to a log that an older Kafka began. A
    batch with a wrong CRC is left out. Reading continues after the bad batch, so that a flipped bit
    hides only one batch. Reading stops at the first place that does not look like a batch.

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
        DamagedFileError: The content of the batch contradicts the batch's header.
    """
    try:
        yield from _unpacked(batch) if batch.magic == _MAGIC else _old_records(batch)
    except (SerialError, ValueError, IndexError, cramjam.DecompressionError) as broken:
        raise DamagedFileError(
            f"the batch at offset {batch.base_offset} cannot be unpacked: {broken}"
        ) from broken


def _size_at(view: memoryview, position: int) -> int:
    """Return the size in bytes of the batch at a position, or 0 if the prefix is incomplete."""
    if len(view) - position < PREFIX.size:
        return 0
    _, length = PREFIX.unpack_from(view, position)
    return int(length) + PREFIX.size


def _misfit(view: memoryview, *, position: int, size: int) -> str | None:
    """Return the reason why no batch at a position can be read, or None if a batch can be read."""
    remaining = len(view) - position
    least = _HEADER.size
    if remaining > _MAGIC_AT and size > PREFIX.size:
        magic = view[position + _MAGIC_AT]
        if magic not in _LEAST_BYTES:
            return f"not a record batch (magic {magic})"
        least = _LEAST_BYTES[magic]
    if size < least or size > remaining:
        return _TORN
    return None


def _whole_batch(data: memoryview, position: int) -> RecordBatch | None:
    """Parse bytes as one batch, and return None if the CRC does not match."""
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
    """Return a key or value encoded as in format 2.

    The hash of a record uses this encoding for every format, so that equal records have equal
    hashes.
    """
    if data is None:
        return varint(_NONE)
    return varint(len(data)) + data


def varint(number: int) -> bytes:
    """Return a number encoded as a zigzag varint."""
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
            raise ValueError(
                f"a record at byte {position} has {length} bytes, but the data has"
                f" {len(body)} bytes"
            )
        delta, size = read_signed_varlong(body, start + 1)  # After the record's attributes.
        content = start + 1 + size
        offset_delta, size = read_signed_varint(body, content)
        content += size
        key, position = _nullable_bytes(body, content)
        value, position = _nullable_bytes(body, position)
        if position >= end:
            raise ValueError(
                f"a record's key and value end at byte {position}, after the"
                f" record's end at byte {end}"
            )
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
    """Return the 64-bit hash of a record.

    Args:
        content: The encoded key, value and headers. Equal records have equal encodings.
        timestamp: The record's timestamp in milliseconds.
    """
    digest = blake2b(content + _TIMESTAMP.pack(timestamp), digest_size=_HASH.size).digest()
    return int(_HASH.unpack(digest)[0])


def _decompressed(batch: RecordBatch) -> bytes:
    codec = Codec(batch.attributes & CODEC_BITS)
    return decompressed(bytes(batch.body), codec if batch.count else Codec.NONE)
