"""Values as record batches of magic 2 and back, for clients that are simulated.

https://kafka.apache.org/documentation/#recordbatch. Nothing is compressed. Fetched batches are the
same objects for every reader, so what they hold is kept.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from crc32c import crc32c

from results.record.contents import NO_HEADERS, UNKNOWN_MS, coded_header, damage, mark_of, messages
from results.record.values import VALUE_BYTES

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BEFORE_SUMMED = struct.Struct(">qiibI")
_BEHIND_SUM = struct.Struct(">hiqqqhii")
_VALUE = struct.Struct(">q")
_MAGIC = 2
_LENGTH_FROM = 12
_STAMPED = 0x08
"""The time stamps are the broker's."""
_CONTROL = 0x20
_NO_KEY = b"\1"
"""A length of -1, as a zigzag varint."""
_KEPT = 4096

Record = tuple[int, int | None, int, int]
"""Offset, value, leader epoch, damage."""


def record_batch(
    values: Sequence[int],
    *,
    payload_bytes: int,
    producer: tuple[int, int, int],
    at_ms: int,
    payload: Callable[[int], bytes] | None = None,
) -> bytes:
    """Return values as one batch.

    Args:
        values: One record each.
        payload_bytes: The size of each record's value.
        producer: Id, epoch and first sequence number; -1 each without idempotence.
        at_ms: Their time stamp.
        payload: Of a value, of messages that are nothing else; None: as `contents.messages` has it.
    """
    count = len(values)
    if payload is None:
        made = messages(np.array(values, np.int64), payload_bytes, at_ms, headers=True)
        body = b"".join(
            _record(delta, each, key, NO_HEADERS if headers is None else coded_header(key))
            for delta, (each, key, headers) in enumerate(made)
        )
    else:
        body = b"".join(
            _record(delta, payload(value), None, NO_HEADERS) for delta, value in enumerate(values)
        )
    summed = _BEHIND_SUM.pack(0, count - 1, at_ms, at_ms, *producer, count) + body
    length = _HEADER.size - _LENGTH_FROM + len(body)
    return _BEFORE_SUMMED.pack(0, length, -1, _MAGIC, crc32c(summed)) + summed


def fetched_records(data: bytes, *, offset: int) -> list[Record]:
    """Return the records of whole batches, from an offset on; of control batches none."""
    position = 0
    found: list[Record] = []
    while position + _LENGTH_FROM <= len(data):
        end = position + _LENGTH_FROM + int.from_bytes(data[position + 8 : position + 12], "big")
        if end > len(data):
            break
        whole = data if position == 0 and end == len(data) else data[position:end]
        found += _records(whole)
        position = end
    return found if not found or found[0][0] >= offset else [r for r in found if r[0] >= offset]


def end_of(data: bytes) -> int | None:
    """Return the offset behind the last whole batch; None: there is none."""
    position, found = 0, None
    while position + _HEADER.size <= len(data):
        base, length = struct.unpack_from(">qi", data, position)
        if position + _LENGTH_FROM + length > len(data):
            break
        found = base + int.from_bytes(data[position + 23 : position + 27], "big") + 1
        position += _LENGTH_FROM + length
    return found


def _record(delta: int, payload: bytes, key: bytes | None, headers: bytes) -> bytes:
    # Attributes, delta of time stamps, of offsets; the key; the value; headers.
    sizes = _NO_KEY if key is None else _varint(len(key)), _varint(len(payload))
    inner = b"\0\0%b%b%b%b%b%b" % (_varint(delta), sizes[0], key or b"", sizes[1], payload, headers)
    return _varint(len(inner)) + inner


@lru_cache(maxsize=_KEPT)
def _varint(number: int) -> bytes:
    """Return a number that is not negative as a zigzag varint (as protocol buffers')."""
    rest, out = number << 1, bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


@lru_cache(maxsize=_KEPT)
def _records(batch: bytes) -> tuple[Record, ...]:
    base, _, epoch, _, _, attributes, _, first_ms, _, _, _, _, count = _HEADER.unpack_from(batch)
    if attributes & _CONTROL:
        return ()
    position = _HEADER.size
    found: list[tuple[int, int | None, int]] = []
    held: list[tuple[bytes, bytes | None, object]] = []
    for _ in range(count):
        length, position = _read(batch, position)
        end = position + length
        _, position = _read(batch, position + 1)
        delta, position = _read(batch, position)
        key, position = _read(batch, position)
        size, behind = _read(batch, position + max(0, key))
        value = _VALUE.unpack_from(batch, behind)[0] if size >= VALUE_BYTES else None
        found.append((base + delta, value, epoch))
        payload = batch[behind : behind + max(0, size)]
        mark = mark_of(batch[behind + max(0, size) : end])
        held.append((payload, batch[position : position + key] if key >= 0 else None, mark))
        position = end
    payloads, keys, marks = zip(*held, strict=True) if held else ((), (), ())
    at_ms = UNKNOWN_MS if attributes & _STAMPED else first_ms
    hurt = damage(payloads, keys, marks, [at_ms] * count).tolist()
    return tuple((*record, bits) for record, bits in zip(found, hurt, strict=True))


def _read(data: bytes, position: int) -> tuple[int, int]:
    shift = raw = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte has no mark
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
