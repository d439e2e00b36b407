"""Read the body size from an Arrow message's header, and refuse messages that no run writes.

Arrow allocates as many bytes as a header declares, also for a compressed buffer. No run writes
compressed buffers or dictionaries, so a header that declares them is refused.

https://github.com/apache/arrow/blob/main/format/Message.fbs https://flatbuffers.dev/internals/
"""

import struct

import pyarrow as pa

_KIND, _HEADER, _BODY = 1, 2, 3
"""Numbers of fields in `Message`."""
_SCHEMA, _BATCH = 1, 3
"""Kinds of a message's header."""
_COMPRESSION = 3
"""Number of a field in `RecordBatch`."""
_BUFFERS = 2
"""Number of the field in `RecordBatch` that lists the position and length of each buffer."""
_COUNT_BYTES, _BUFFER_BYTES = 4, 16
_TABLE_BYTES = 4
"""Bytes before the first entry of a vtable: the size of the vtable, and the size of the object."""


def body_size(header: bytes) -> int:
    """Return the number of bytes that follow the header of a message.

    Raises:
        pa.ArrowInvalid: The message is neither a schema nor a batch, or its buffers are compressed.
    """
    try:
        message = _at(header, 0)
        kind = _field(header, message, _KIND, "<B")
        if kind not in {_SCHEMA, _BATCH}:
            raise pa.ArrowInvalid("a message is neither a schema nor a batch of rows")
        place = message + _offset(header, message, _HEADER)
        if kind == _BATCH and _offset(header, _at(header, place), _COMPRESSION):
            raise pa.ArrowInvalid("a message is compressed, but a run never compresses messages")
        size = _field(header, message, _BODY, "<q")
    except struct.error:
        raise pa.ArrowInvalid("the header of a message is incomplete") from None
    if size < 0:
        raise pa.ArrowInvalid("a message has no size")
    return size


def buffer_at(header: bytes, number: int) -> tuple[int, int] | None:
    """Return (position, length) of a buffer in a batch's body, in bytes; None if there is none."""
    try:
        message = _at(header, 0)
        batch = _at(header, message + _offset(header, message, _HEADER))
        buffers = _at(header, batch + _offset(header, batch, _BUFFERS))
        if number >= _number(header, buffers, "<I"):
            return None
        place = buffers + _COUNT_BYTES + number * _BUFFER_BYTES
        start, length = (_number(header, place + at, "<q") for at in (0, 8))
    except struct.error:
        return None
    return (start, length) if start >= 0 and 0 <= length <= body_size(header) else None


def _at(data: bytes, place: int) -> int:
    """Read the reference at `place`, and return the position to which it points."""
    return place + _number(data, place, "<I")


def _field(data: bytes, table: int, number: int, form: str) -> int:
    """Return a numeric field of a table; 0 if the table has no such field."""
    offset = _offset(data, table, number)
    return _number(data, table + offset, form) if offset else 0


def _offset(data: bytes, table: int, number: int) -> int:
    """Return a field's position, relative to the table; 0 if the table has no such field."""
    fields = table - _number(data, table, "<i")
    at = _TABLE_BYTES + 2 * number
    return _number(data, fields + at, "<H") if at < _number(data, fields, "<H") else 0


def _number(data: bytes, at: int, form: str) -> int:
    if at < 0:
        raise struct.error("before the header")
    number: int = struct.unpack_from(form, data, at)[0]
    return number
