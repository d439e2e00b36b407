"""What a message holds beside its value, so that whoever reads it can tell whether it is intact.

The payload is the value, the time stamp and a filler; key and header follow from the value:

    value (8 bytes) | time stamp (8 bytes, in ms) | filler

Each eight bytes of the filler are a hash of value, length and time stamp, mixed with their place.
So every byte is known, which is more than a sum of them: a reader compares the whole. The time
stamp of the record must be the one in the payload.

The plan decides how long payloads are (`shapes`), and which headers messages have (`headers`). The
filler of a message with mixed headers is another one, so a reader need not be told; it can be
compressed, too. Where a partition has few keys, each message has a header, and some have no payload
(`keys`).

A payload of less than `TIMED_FROM` bytes has no room for the time stamp, and its headers are plain
ones; one of 8 bytes has none for a filler: then only the rest is compared. A scenario's messages
have names, and neither key nor header.
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
"""What of a record differs: bits of the column `damage`, which is 0 of an intact record, and null
where nobody looked."""
TIMED_FROM = 20
"""A payload of so many bytes has room for the time stamp, and four bytes of filler."""
UNKNOWN_MS = -1
"""A time stamp that is none, or is not the producer's."""
_WORD = 8
_OF_SIZE, _OF_TIME = 0xD6E8_FEB8_6659_FD93, 0xA076_1D64_78BD_642F
"""Odd numbers, by which a length and a time stamp reach all bits of a word."""
_OF_MIXED = 0xE703_7ED1_A0B4_28DB
"""What the filler differs by where headers are mixed."""
_AT_ONCE_BYTES = 8 << 20
_UNSEEN = object()
FEW = 16
"""So many messages at most are cheaper one by one than as columns."""

_MOST_SIZES = 64
"""Payloads of more sizes are looked at one by one."""

_Bytes = npt.NDArray[np.uint8]
_Item = TypeVar("_Item")
Damage = npt.NDArray[np.int8]
Message = tuple[bytes | None, bytes, Header | None]
"""Payload (None: a tombstone), key, headers."""


def messages(values: npt.NDArray[np.int64], shape: Shape, at_ms: int) -> Iterator[Message]:
    """Yield the message of each value.

    Args:
        values: Which.
        shape: What they are like.
        at_ms: Their time stamp, in milliseconds since 1970.
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
    """Return what differs of each record from what was sent.

    Args:
        payloads: As they were read; None: a record without a payload.
        keys: None: without a key.
        headers: Marks of them, as `headers.mark` has it; None for all: they were not looked at.
        stamps_ms: Of the records; `UNKNOWN_MS` where there is none of a producer.
        of_keys: How many keys the plan has; 0: none, or that is not known.
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
    """Return which marks hold another number of keys than the plan: a run has one number.

    A key may fit both, so that nothing else tells. If the plan is not known, most marks decide.
    """
    counts = [held[1] if (held := marked_value(found)) else 0 for found in marks]
    if not usual:
        ((usual, often),) = Counter(counts).most_common(1) or ((0, 0),)
        if 2 * often <= len(counts):
            return []
    return [row for row, count in enumerate(counts) if count and usual not in {0, count}]


def payload_of(value: int, size_bytes: int, at_ms: int, *, with_mixed: bool = False) -> bytes:
    """Return the payload of a value; see the module."""
    head, sealed = encode_payload(value, 0), mix(value) ^ size_bytes * _OF_SIZE & ALL
    if size_bytes >= TIMED_FROM:
        head += at_ms.to_bytes(_WORD, "big")
        spread = at_ms * _OF_TIME & ALL
        sealed ^= spread ^ spread >> 32 ^ _OF_MIXED * with_mixed
    ones, places = _filler(size_bytes, with_mixed=with_mixed)
    filler = (sealed * ones ^ places).to_bytes(-(-size_bytes // _WORD) * _WORD, "little")
    return head + filler[len(head) : size_bytes]


def value_in(payload: bytes | None, found: object) -> int | None:
    """Return the value of a record; a tombstone's is in its mark.

    Args:
        payload: Of the record.
        found: As `damage` is told of its headers.
    """
    if payload is not None:
        return decode_payload(payload)
    held = marked_value(found)
    return held[0] if held else None


def key_of(value: int) -> bytes:
    """Return the key of a value."""
    return mix(value).to_bytes(_WORD, "little")


def message_name(value: int) -> str:
    """Return what a scenario's message is called."""
    return f"message{value & ((1 << SEQUENCE_BITS) - 1)}"


def message_payload(value: int) -> bytes:
    """Return the payload of a scenario's message: its value and its name."""
    return encode_payload(value, 0) + message_name(value).encode("ascii")


def headers_of(value: int, key: bytes, *, with_mixed: bool) -> Header | None:
    """Return the headers of a value, None: it has none."""
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
    """Return the payload of a value with one of few keys: it can be compressed."""
    return payload_of(value, size_bytes, at_ms, with_mixed=size_bytes >= TIMED_FROM)


def _alike(words: Words, shape: Shape, at_ms: int) -> Iterator[Message]:
    """Yield messages with payloads as long as most are."""
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
    """Yield which payloads are equally long, not too many at once."""
    distinct = set(map(_length, payloads))
    if len(distinct) > _MOST_SIZES:
        yield slice(None)  # Nothing is of ours then.
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
    """Tell whether all of some records are as they were sent; mostly they are, and soon known so.

    False also where payloads differ in length, or have names: then each is looked at by itself.
    """
    try:
        sizes = set(map(len, cast("Sequence[bytes]", payloads)))
        read_keys = b"".join(cast("Sequence[bytes]", keys))
    except TypeError:  # One of them is None.
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
    """Return what differs of one record; a mark of `_UNSEEN`: its headers were not looked at."""
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
    """Return what differs of a record that has one of few keys, by what its mark holds."""
    value, keys = held
    wrong_key = KEY * (key != key_bytes(value, keys))
    if payload is None or is_tombstone(value):
        return PAYLOAD * ((payload is None) != is_tombstone(value)) | wrong_key
    sent_ms = int.from_bytes(payload[VALUE_BYTES : VALUE_BYTES + _WORD])
    read = decode_payload(payload)
    wrong = read is None or payload != _keyed_payload(read, len(payload), sent_ms)
    late = len(payload) >= TIMED_FROM and not wrong and at_ms not in {UNKNOWN_MS, sent_ms}
    # Both are whole, and not of one message: the mark is another's.
    return PAYLOAD * wrong | wrong_key | HEADERS * (not wrong and read != value) | TIME * late


def _was(payload: bytes, sent: bytes) -> bool:
    """Tell whether a payload is what was sent, or most of it."""
    return payload == sent or 2 * sum(map(eq, payload, sent)) > len(sent) + 2 * VALUE_BYTES


def _payloads(
    words: Words, hashes: Words, size_bytes: int, at_ms: Words, *, with_mixed: bool
) -> _Bytes:
    """Return the payload of each value, a row of bytes each; time stamps of 0: without."""
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
    if with_mixed:  # By the last byte of the key, as `mixed_headers` has it.
        found = hashes >> np.uint64(56) < np.uint64(KINDS)
    else:
        found = words & np.uint64(PLAIN_EVERY - 1) == 0
    return np.asarray(found, np.bool_)


@lru_cache(maxsize=64)
def _filler(size_bytes: int, *, with_mixed: bool) -> tuple[int, int]:
    """Return ones, a word apart each, and the places, as the number that a payload's bytes are."""
    width = -(-size_bytes // _WORD)
    ones = int.from_bytes((1).to_bytes(_WORD, "little") * width, "little")
    return ones, int.from_bytes(
        _places(width, with_mixed=with_mixed).astype("<u8").tobytes(), "little"
    )


@lru_cache(maxsize=64)
def _places(width: int, *, with_mixed: bool) -> Words:
    """Return a number for each eight bytes of a payload, so that none may stand for another.

    Beside mixed headers they differ in few bytes, so that the payload can be compressed: librdkafka
    sends what does not shrink as it is.
    """
    numbers = np.arange(width, dtype=np.uint64)
    return numbers if with_mixed else mixed(numbers)


def _word(block: _Bytes, at: int) -> Words:
    """Return eight bytes of each row as a number, big-endian."""
    part = np.ascontiguousarray(block[:, at * _WORD : (at + 1) * _WORD])
    return part.view(">u8").ravel().astype(np.uint64)


def _split(block: _Bytes) -> list[bytes]:
    rows: Any = np.ascontiguousarray(block).view(f"V{block.shape[1]}")
    found: list[bytes] = rows.ravel().tolist()
    return found
