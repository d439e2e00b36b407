"""The header of an Arrow message: how much follows it, and whether it is as runs write it.

Arrow makes room for as many bytes as a header names, and for as many as a shrunk buffer says it
has. Runs write neither shrunk buffers nor dictionaries: so a header that announces any is refused.

https://github.com/apache/arrow/blob/main/format/Message.fbs
https://flatbuffers.dev/internals/
"""

import struct

import pyarrow as pa

_KIND, _HEADER, _BODY = 1, 2, 3
"""Fields of `Message`."""
_SCHEMA, _BATCH = 1, 3
"""Of what kind its header is."""
_COMPRESSION = 3
"""A field of `RecordBatch`."""
_TABLE_BYTES = 4
"""Of a table of fields, before the first: its own size, and that of what it describes."""


def body_size(header: bytes) -> int:
    """Return how many bytes follow the header of a message.

    Raises:
        pa.ArrowInvalid: It is neither a schema nor a batch, or its buffers are shrunk.
    """
    try:
        message = _at(header, 0)
        kind = _field(header, message, _KIND, "<B")
        if kind not in {_SCHEMA, _BATCH}:
            raise pa.ArrowInvalid("a message is neither a schema nor a batch of rows")
        place = message + _offset(header, message, _HEADER)
        if kind == _BATCH and _offset(header, _at(header, place), _COMPRESSION):
            raise pa.ArrowInvalid("a message is shrunk, which no run does")
        size = _field(header, message, _BODY, "<q")
    except struct.error:
        raise pa.ArrowInvalid("the header of a message does not end") from None
    if size < 0:
        raise pa.ArrowInvalid("a message has no size")
    return size


def _at(data: bytes, place: int) -> int:
    """Follow the reference that stands at a place."""
    return place + _number(data, place, "<I")


def _field(data: bytes, table: int, number: int, form: str) -> int:
    """Return a number of a table; 0 if the table does not have it."""
    offset = _offset(data, table, number)
    return _number(data, table + offset, form) if offset else 0


def _offset(data: bytes, table: int, number: int) -> int:
    """Return where a field stands, from the table on; 0 if the table does not have it."""
    fields = table - _number(data, table, "<i")
    at = _TABLE_BYTES + 2 * number
    return _number(data, fields + at, "<H") if at < _number(data, fields, "<H") else 0


def _number(data: bytes, at: int, form: str) -> int:
    if at < 0:
        raise struct.error("before the header")
    number: int = struct.unpack_from(form, data, at)[0]
    return number
