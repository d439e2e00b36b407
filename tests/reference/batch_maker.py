"""Batches as producers make them, for tests of the reference cluster."""

import struct
from io import BytesIO

from crc32c import crc32c
from kio.serial.writers import write_signed_varint, write_signed_varlong


def record(value: bytes, *, delta: int, time_delta: int = 0, key: bytes | None = None) -> bytes:
    body = BytesIO()
    body.write(b"\0")
    write_signed_varlong(body, time_delta)
    write_signed_varint(body, delta)
    write_signed_varint(body, -1 if key is None else len(key))
    body.write(key or b"")
    write_signed_varint(body, len(value))
    body.write(value)
    write_signed_varint(body, 0)
    length = BytesIO()
    write_signed_varint(length, len(body.getvalue()))
    return length.getvalue() + body.getvalue()


def produced(
    *values: bytes,
    producer: tuple[int, int, int] = (-1, -1, -1),
    time: int = 1000,
    attributes: int = 0,
    packed: bytes | None = None,
    count: int | None = None,
    magic: int = 2,
) -> bytes:
    """Return a batch; `producer` is id, epoch, base sequence; `packed` its body, as it is."""
    records = b"".join(record(value, delta=delta) for delta, value in enumerate(values))
    body = records if packed is None else packed
    announced = len(values) if count is None else count
    tail = struct.pack(">hiqqqhii", attributes, announced - 1, time, time, *producer, announced)
    tail += body
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, magic, crc32c(tail)) + tail
