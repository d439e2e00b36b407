"""Encode and decode record batches (magic 2) for simulated clients.

See https://kafka.apache.org/documentation/#recordbatch. Batches are never compressed. Decoded
batches are cached, because all readers get the same bytes objects.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from io import BytesIO

import numpy as np
from crc32c import crc32c
from kio.serial.writers import write_signed_varint

from cluster.reference.log.batches import CONTROL, HEADER, HEADER_BYTES, MAGIC, batch
from cluster.reference.log.records import varint
from results.record.contents import UNKNOWN_MS, damage, messages
from results.record.headers import NO_HEADERS, coded_headers, mark_of
from results.record.shapes import Shape
from results.record.values import VALUE_BYTES

_PREFIX = struct.Struct(">qi")
_BEFORE_SUMMED = struct.Struct(">qiibI")
_BEHIND_SUM = struct.Struct(">hiqqqhii")
_VALUE = struct.Struct(">q")
_STAMPED = 0x08
"""The attribute bit that means: the timestamps come from the broker."""
_NO_KEY = b"\1"
"""The length -1 as a zigzag varint."""
_KEPT = 4096


Record = tuple[int, int | None, int, int]
"""A decoded record: offset, number (value) of the message, leader epoch, damage bits."""


def record_batch(
    values: Sequence[int],
    *,
    payload_bytes: int,
    producer: tuple[int, int, int],
    at_ms: int,
    payload: Callable[[int], bytes] | None = None,
) -> bytes:
    """Return one record batch with the given messages.

    Args:
        values: The numbers (values) of the messages.
        payload_bytes: The size of each record's payload.
        producer: Producer id, epoch and first sequence number; all -1 without idempotence.
        at_ms: The timestamp of all records.
        payload: The function that makes a payload from the number of a message; the records then
            have no key and no headers. None means that `contents.messages` makes key, payload and
            headers.
    """
    count = len(values)
    if payload is None:
        shape = Shape(size_bytes=payload_bytes)
        made = messages(np.array(values, np.int64), shape, at_ms)
        body = b"".join(
            _record(delta, each or b"", key, coded_headers(headers))
            for delta, (each, key, headers) in enumerate(made)
        )
    else:
        body = b"".join(
            _record(delta, payload(value), None, NO_HEADERS) for delta, value in enumerate(values)
        )
    summed = _BEHIND_SUM.pack(0, count - 1, at_ms, at_ms, *producer, count) + body
    length = HEADER_BYTES - _PREFIX.size + len(body)
    return _BEFORE_SUMMED.pack(0, length, -1, MAGIC, crc32c(summed)) + summed


def fetched_records(data: bytes, *, offset: int) -> tuple[list[Record], int]:
    """Return the records of all whole data batches, and the offset at which to read on.

    Args:
        data: The fetched bytes; the last batch may be cut off.
        offset: Records before this offset are left out.
    """
    position, found, behind = 0, list[Record](), offset
    while position + HEADER_BYTES <= len(data):
        _, length = _PREFIX.unpack_from(data, position)
        end = position + _PREFIX.size + length
        if end > len(data):
            break
        whole = data if position == 0 and end == len(data) else data[position:end]
        found += _records(whole)
        behind = max(behind, batch(whole).end_offset)
        position = end
    if found and found[0][0] < offset:
        found = [record for record in found if record[0] >= offset]
    return found, behind


@lru_cache(maxsize=_KEPT)
def _coded(number: int) -> bytes:
    """Return a number as a zigzag varint."""
    coded = BytesIO()
    write_signed_varint(coded, number)
    return coded.getvalue()


def _record(delta: int, payload: bytes, key: bytes | None, headers: bytes) -> bytes:
    # Attributes, timestamp delta, offset delta, key, value, headers.
    sizes = _NO_KEY if key is None else _coded(len(key)), _coded(len(payload))
    inner = b"\0\0%b%b%b%b%b%b" % (_coded(delta), sizes[0], key or b"", sizes[1], payload, headers)
    return _coded(len(inner)) + inner


@lru_cache(maxsize=_KEPT)
def _records(data: bytes) -> tuple[Record, ...]:
    base, _, epoch, _, _, attributes, _, first_ms, _, _, _, _, count = HEADER.unpack_from(data)
    if attributes & CONTROL:
        return ()
    position = HEADER_BYTES
    found: list[tuple[int, int | None, int]] = []
    held: list[tuple[bytes, bytes | None, object]] = []
    for _ in range(count):
        length, position = varint(data, position)
        end = position + length
        _, position = varint(data, position + 1)
        delta, position = varint(data, position)
        key, position = varint(data, position)
        size, behind = varint(data, position + max(0, key))
        value = _VALUE.unpack_from(data, behind)[0] if size >= VALUE_BYTES else None
        found.append((base + delta, value, epoch))
        payload = data[behind : behind + max(0, size)]
        mark = mark_of(data[behind + max(0, size) : end])
        held.append((payload, data[position : position + key] if key >= 0 else None, mark))
        position = end
    payloads, keys, marks = zip(*held, strict=True) if held else ((), (), ())
    at_ms = UNKNOWN_MS if attributes & _STAMPED else first_ms
    hurt = damage(payloads, keys, marks, [at_ms] * count).tolist()
    return tuple((*record, bits) for record, bits in zip(found, hurt, strict=True))
