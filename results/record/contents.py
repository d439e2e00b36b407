"""The contents of a message, from which a reader finds out whether the message was damaged.

The payload consists of the value, the time stamp and a filler. The key and the headers are computed
from the value. This is the payload:

    value (8 bytes) | time stamp (8 bytes, in ms) | filler

The filler consists of words of eight bytes. Each word is a hash of the value, the length and the
time stamp, mixed with the position of the word. So every byte is known, and a reader compares the
whole payload. This finds more errors than a checksum. The record's time stamp must equal the time
stamp in the payload.

The plan sets the length of payloads (`shapes`) and the headers of messages (`headers`). A message
with mixed headers has a different filler, which can be compressed. By this filler, the reader
recognizes the message. If the messages of a partition share a few keys (`keys`), each message has a
header, and some messages have no payload.

A payload shorter than `TIMED_FROM` bytes has no room for the time stamp, and the message has plain
headers. A payload of 8 bytes has no room for a filler. Then only the other fields are compared. A
message of a scenario has a name, but no key and no headers.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from operator import eq
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from results.record.hashing import ALL, Words, mix, mixed
from results.record.headers import (
    HEADER,
    KINDS,
    PLAIN_EVERY,
    Header,
    mark,
    mixed_headers,
)
from results.record.keys import is_tombstone, key_bytes, mark_of_value, marked_value
from results.record.shapes import Shape
from results.record.values import (
    SEQUENCE_BITS,
    VALUE_BYTES,
    decode_payload,
    encode_payload,
)

PAYLOAD, KEY, HEADERS, TIME = 1, 2, 4, 8
"""Bits of the column `damage`: the fields of a record that differ from the message sent. An intact
record has 0, an unchecked record has null."""
TIMED_FROM = 20
"""A payload of this many bytes has room for the time stamp and four bytes of filler."""
UNKNOWN_MS = -1
"""The number for a missing time stamp, and for a time stamp that the producer did not set."""
_WORD = 8
_OF_SIZE, _OF_TIME = 0xD6E8_FEB8_6659_FD93, 0xA076_1D64_78BD_642F
"""Odd factors that spread a length and a time stamp over all bits of a word."""
_OF_MIXED = 0xE703_7ED1_A0B4_28DB
"""Constant that makes the filler of messages with mixed headers different from other fillers."""
_AT_ONCE_BYTES = 8 << 20
_UNSEEN = object()
FEW = 16
"""Up to this number of messages, computing one by one is faster than computing whole columns."""

_MOST_SIZES = 64
"""If payloads have more distinct sizes than this, each payload is checked alone."""

_Bytes = npt.NDArray[np.uint8]
_Item = TypeVar("_Item")
Damage = npt.NDArray[np.int8]
Message = tuple[bytes | None, bytes, Header | None]
"""(payload, key, headers); a payload of None is a tombstone."""


def messages(values: npt.NDArray[np.int64], shape: Shape, at_ms: int) -> Iterator[Message]:
    """Yield the message (payload, key, headers) of each value.

    Args:
        values: The values.
        shape: Payload sizes and header kinds of the run's messages.
        at_ms: Time stamp of the messages, in milliseconds since 1970.
    """
    if len(values) <= FEW or shape.keys:
        for value in values.tolist():
            yield _message(value, shape, at_ms)
        return
    made = list(_alike(values.astype(np.uint64), shape, at_ms))
    for row in shape.longer(values).tolist():
        made[row] = _message(int(values[row]), shape, at_ms)
    yield from made


def damage(
    payloads: Sequence[bytes | None],
    keys: Sequence[bytes | None],
    headers: Sequence[object] | None,
    stamps_ms: Sequence[int],
    *,
    of_keys: int = 0,
) -> Damage:
    """Return, for each record, the bits of the fields that differ from the message sent.

    Args:
        payloads: Payloads that were read; None for a record without a payload.
        keys: Keys that were read; None for a record without a key.
        headers: Marks of the headers (see `headers.mark`); None if headers were not checked.
        stamps_ms: Time stamps of the records; `UNKNOWN_MS` if the producer did not set one.
        of_keys: Number of keys in the plan; 0 if the plan has none or is unknown.
    """
    if len(payloads) > FEW and all(
        _are_intact(
            _picked(payloads, rows),
            _picked(keys, rows),
            headers and _picked(headers, rows),
            _picked(stamps_ms, rows),
        )
        for rows in _alike_in_size(payloads)
    ):
        return np.zeros(len(payloads), np.int8)
    marks = repeat(_UNSEEN) if headers is None else headers
    records = zip(payloads, keys, marks, stamps_ms, strict=False)
    found = np.array([_damage_of(*record) for record in records], np.int8)
    found[_of_other_keys(headers or (), of_keys)] |= HEADERS
    return found


def _of_other_keys(marks: Sequence[object], usual: int) -> list[int]:
    """Return the rows whose header mark contains a number of keys that the run does not use.

    The same key may result from two different numbers of keys, so no other check finds this error.
    If the plan is unknown, the number of keys that most marks contain is taken as correct.
    """
    counts = [held[1] if (held := marked_value(found)) else 0 for found in marks]
    if not usual:
        ((usual, often),) = Counter(counts).most_common(1) or ((0, 0),)
        if 2 * often <= len(counts):
            return []
    return [row for row, count in enumerate(counts) if count and usual not in {0, count}]


def payload_of(value: int, size_bytes: int, at_ms: int, *, with_mixed: bool = False) -> bytes:
    """Return the payload that carries a value, in the format of the module's docstring."""
    head, sealed = encode_payload(value, 0), mix(value) ^ size_bytes * _OF_SIZE & ALL
    if size_bytes >= TIMED_FROM:
        head += at_ms.to_bytes(_WORD, "big")
        spread = at_ms * _OF_TIME & ALL
        sealed ^= spread ^ spread >> 32 ^ _OF_MIXED * with_mixed
    ones, places = _filler(size_bytes, with_mixed=with_mixed)
    filler = (sealed * ones ^ places).to_bytes(-(-size_bytes // _WORD) * _WORD, "little")
    return head + filler[len(head) : size_bytes]


def value_in(payload: bytes | None, found: object) -> int | None:
    """Return the value in a record's payload; a tombstone has the value in its header mark.

    Args:
        payload: Payload of the record.
        found: Mark of the record's headers, as in `damage`.

    Returns:
        The value, or None if there is none.
    """
    if payload is not None:
        return decode_payload(payload)
    held = marked_value(found)
    return held[0] if held else None


def key_of(value: int) -> bytes:
    """Return the message key that belongs to a value."""
    return mix(value).to_bytes(_WORD, "little")


def message_name(value: int) -> str:
    """Return the name of a scenario's message."""
    return f"message{value & ((1 << SEQUENCE_BITS) - 1)}"


def message_payload(value: int) -> bytes:
    """Return the payload of a scenario's message: its value and its name."""
    return encode_payload(value, 0) + message_name(value).encode("ascii")


def headers_of(value: int, key: bytes, *, with_mixed: bool) -> Header | None:
    """Return the headers of the message with this value; None if the message has no headers."""
    if with_mixed:
        return mixed_headers(key)
    return None if value % PLAIN_EVERY else [(HEADER, key)]


def _message(value: int, shape: Shape, at_ms: int) -> Message:
    if shape.keys:
        payload = None if is_tombstone(value) else _keyed_payload(
            value, shape.size_of(value), at_ms
        )  # fmt: skip
        of_key = [(HEADER, mark_of_value(value, shape.keys))]
        return payload, key_bytes(value, shape.keys), cast("Header", of_key)
    key, size_bytes = key_of(value), shape.size_of(value)
    with_mixed = shape.mixed and size_bytes >= TIMED_FROM
    headers = headers_of(value, key, with_mixed=with_mixed) if shape.headers else None
    return payload_of(value, size_bytes, at_ms, with_mixed=with_mixed), key, headers


def _keyed_payload(value: int, size_bytes: int, at_ms: int) -> bytes:
    """Return the payload of a message in a partition with few keys; it can be compressed."""
    return payload_of(value, size_bytes, at_ms, with_mixed=size_bytes >= TIMED_FROM)


def _alike(words: Words, shape: Shape, at_ms: int) -> Iterator[Message]:
    """Yield the messages of the given values, all with the usual payload size."""
    size_bytes, hashes = shape.size_bytes, mixed(words)
    timed = size_bytes >= TIMED_FROM
    with_mixed = shape.mixed and timed
    stamp = np.array([at_ms if timed else 0], np.uint64)
    payloads = _split(_payloads(words, hashes, size_bytes, stamp, with_mixed=with_mixed))
    keys = _split(_keys(hashes))
    found: list[Header | None] = [None] * len(words)
    due = _have_headers(words, hashes, with_mixed=with_mixed)
    for at in np.flatnonzero(due).tolist() if shape.headers else ():
        found[at] = mixed_headers(keys[at]) if with_mixed else [(HEADER, keys[at])]
    yield from zip(payloads, keys, found, strict=True)


def _alike_in_size(payloads: Sequence[bytes | None]) -> Iterator[slice | list[int]]:
    """Yield groups of payloads of one length each; the size of a group is limited."""
    distinct = set(map(_length, payloads))
    if len(distinct) > _MOST_SIZES:
        yield slice(None)  # Then Logquake did not write these messages.
        return
    sizes = np.fromiter(map(_length, payloads), np.int64) if len(distinct) > 1 else None
    for size in distinct:
        step = max(1, _AT_ONCE_BYTES // max(1, size))
        rows = None if sizes is None else np.flatnonzero(sizes == size).tolist()
        for start in range(0, len(payloads) if rows is None else len(rows), step):
            part = slice(start, start + step)
            yield part if rows is None else rows[part]


def _length(payload: bytes | None) -> int:
    return -1 if payload is None else len(payload)


def _picked(column: Sequence[_Item], rows: slice | list[int]) -> Sequence[_Item]:
    return column[rows] if isinstance(rows, slice) else [column[row] for row in rows]


def _are_intact(
    payloads: Sequence[bytes | None],
    keys: Sequence[bytes | None],
    marks: Sequence[object] | None,
    stamps_ms: Sequence[int],
) -> bool:
    """Return whether all records of a group are intact; checking the whole group at once is fast.

    The result is also False if payloads differ in length or contain names. Then the caller checks
    each record alone.
    """
    try:
        sizes = set(map(len, cast("Sequence[bytes]", payloads)))
        read_keys = b"".join(cast("Sequence[bytes]", keys))
    except TypeError:  # A payload or key is None.
        return False
    (size_bytes, *others) = sizes
    if others or size_bytes < VALUE_BYTES:
        return False
    joined = b"".join(cast("Sequence[bytes]", payloads))
    read = np.frombuffer(joined, np.uint8).reshape(len(payloads), size_bytes)
    words, times, with_mixed = _word(read, 0), np.zeros(1, np.uint64), False
    if size_bytes >= TIMED_FROM:
        times = _word(read, 1)
        stamps = np.array(stamps_ms, np.int64)
        if ((stamps != times.astype(np.int64)) & (stamps != UNKNOWN_MS)).any():
            return False
        first = payload_of(int(words[0]), size_bytes, int(times[0]), with_mixed=True)
        with_mixed = payloads[0] == first
    hashes = mixed(words)
    sent = _payloads(words, hashes, size_bytes, times, with_mixed=with_mixed)
    if read_keys != _keys(hashes).tobytes() or not np.array_equal(read, sent):
        return False
    due = np.flatnonzero(_have_headers(words, hashes, with_mixed=with_mixed)).tolist()
    return marks is None or (
        marks.count(None) == len(words) - len(due)
        and all(
            marks[at] == (mark(mixed_headers(keys[at] or b"")) if with_mixed else keys[at])
            for at in due
        )
    )


def _damage_of(payload: bytes | None, key: bytes | None, found: object, at_ms: int) -> int:
    """Return the damage bits of one record. A mark `_UNSEEN` means headers were not checked."""
    if (held := marked_value(found)) is not None:
        return _damage_of_keyed(payload, key, held, at_ms)
    value = decode_payload(payload)
    if payload is None or value is None:
        return PAYLOAD
    seen, size_bytes = found is not _UNSEEN, len(payload)
    if payload == message_payload(value):
        return KEY * (key is not None) | HEADERS * (seen and found is not None)
    sent_key, sent_ms = key_of(value), int.from_bytes(payload[VALUE_BYTES : VALUE_BYTES + _WORD])
    timed = size_bytes >= TIMED_FROM
    wrong, with_mixed = payload != payload_of(value, size_bytes, sent_ms), False
    if wrong and timed:
        beside_mixed = payload_of(value, size_bytes, sent_ms, with_mixed=True)
        wrong, with_mixed = payload != beside_mixed, _was(payload, beside_mixed)
    late = timed and not wrong and at_ms not in {UNKNOWN_MS, sent_ms}
    sent_mark = mark(headers_of(value, sent_key, with_mixed=with_mixed))
    headers = HEADERS * (seen and found != sent_mark)
    return PAYLOAD * wrong | KEY * (key != sent_key) | headers | TIME * late


def _damage_of_keyed(
    payload: bytes | None, key: bytes | None, held: tuple[int, int], at_ms: int
) -> int:
    """Return the damage bits of a record with a marked header, as in a partition with few keys."""
    value, keys = held
    wrong_key = KEY * (key != key_bytes(value, keys))
    if payload is None or is_tombstone(value):
        return PAYLOAD * ((payload is None) != is_tombstone(value)) | wrong_key
    sent_ms = int.from_bytes(payload[VALUE_BYTES : VALUE_BYTES + _WORD])
    read = decode_payload(payload)
    wrong = read is None or payload != _keyed_payload(read, len(payload), sent_ms)
    late = len(payload) >= TIMED_FROM and not wrong and at_ms not in {UNKNOWN_MS, sent_ms}
    # If payload and mark are intact but differ, the mark belongs to another message.
    return PAYLOAD * wrong | wrong_key | HEADERS * (not wrong and read != value) | TIME * late


def _was(payload: bytes, sent: bytes) -> bool:
    """Return whether all bytes of a payload, or most of them, equal the sent payload."""
    return payload == sent or 2 * sum(map(eq, payload, sent)) > len(sent) + 2 * VALUE_BYTES


def _payloads(
    words: Words, hashes: Words, size_bytes: int, at_ms: Words, *, with_mixed: bool
) -> _Bytes:
    """Return the payload of each value as a row of bytes; a time stamp of 0 means none."""
    spread = at_ms * np.uint64(_OF_TIME)
    sealed = hashes ^ np.uint64(size_bytes * _OF_SIZE & ALL) ^ spread ^ spread >> np.uint64(32)
    sealed ^= np.uint64(_OF_MIXED * with_mixed)
    block = sealed[:, np.newaxis] ^ _places(-(-size_bytes // _WORD), with_mixed=with_mixed)
    block = block.astype("<u8", copy=False)
    block[:, 0] = words.astype(">u8").view("<u8")
    if size_bytes >= TIMED_FROM:
        block[:, 1] = at_ms.astype(">u8").view("<u8")
    whole: _Bytes = block.view(np.uint8)
    return whole[:, :size_bytes]


def _keys(hashes: Words) -> _Bytes:
    return hashes.astype("<u8", copy=False).view(np.uint8).reshape(-1, _WORD)


def _have_headers(words: Words, hashes: Words, *, with_mixed: bool) -> npt.NDArray[np.bool_]:
    if with_mixed:  # The key's last byte decides, as in `mixed_headers`.
        found = hashes >> np.uint64(56) < np.uint64(KINDS)
    else:
        found = words & np.uint64(PLAIN_EVERY - 1) == 0
    return np.asarray(found, np.bool_)


@lru_cache(maxsize=64)
def _filler(size_bytes: int, *, with_mixed: bool) -> tuple[int, int]:
    """Return two integers of the filler's length.

    Each word of the first integer is 1. The words of the second integer are distinct numbers.
    """
    width = -(-size_bytes // _WORD)
    ones = int.from_bytes((1).to_bytes(_WORD, "little") * width, "little")
    return ones, int.from_bytes(
        _places(width, with_mixed=with_mixed).astype("<u8").tobytes(), "little"
    )


@lru_cache(maxsize=64)
def _places(width: int, *, with_mixed: bool) -> Words:
    """Return a distinct number for each word of a payload, so that swapped words are found.

    With mixed headers, these numbers differ in few bytes, so that the payload can be compressed.
    Otherwise librdkafka would send the batch uncompressed.
    """
    numbers = np.arange(width, dtype=np.uint64)
    return numbers if with_mixed else mixed(numbers)


def _word(block: _Bytes, at: int) -> Words:
    """Return eight bytes of each row as a big-endian number."""
    part = np.ascontiguousarray(block[:, at * _WORD : (at + 1) * _WORD])
    return part.view(">u8").ravel().astype(np.uint64)


def _split(block: _Bytes) -> list[bytes]:
    rows: Any = np.ascontiguousarray(block).view(f"V{block.shape[1]}")
    found: list[bytes] = rows.ravel().tolist()
    return found
