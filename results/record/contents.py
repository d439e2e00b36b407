"""What a message holds beside its value, so that whoever reads it can tell whether it is intact.

The payload is the value, the time stamp and a filler; key and header follow from the value:

    value (8 bytes) | time stamp (8 bytes, in ms) | filler, up to the plan's `payload_bytes`

Each eight bytes of the filler are a hash of value, length and time stamp, mixed with their place.
So every byte is known, which is more than a sum of them: a reader compares the whole. The time
stamp of the record must be the one in the payload. Every sixteenth value has a header, others have
none: to make one costs more than the rest of a message. Where a partition has few keys, each
message has a header, and some have no payload (`results.record.keys`).

A payload of less than `TIMED_FROM` bytes has no room for the time stamp, one of 8 bytes none for a
filler: then only the rest is compared. A scenario's messages have names, and neither key nor
header.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from results.record.hashing import ALL, Words, mix, mixed
from results.record.keys import (
    MARK_BYTES,
    is_tombstone,
    key_bytes,
    mark_of_value,
    marked_value,
)
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
HEADER = "logquake"
UNKNOWN_MS = -1
"""A time stamp that is none, or is not the producer's."""
_WORD = 8
_MARKED = 16
_OF_SIZE, _OF_TIME = 0xD6E8_FEB8_6659_FD93, 0xA076_1D64_78BD_642F
"""Odd numbers, by which a length and a time stamp reach all bits of a word."""
_AT_ONCE_BYTES = 8 << 20
_UNSEEN = object()
FEW = 16
"""So many messages at most are cheaper one by one than as columns."""

_Bytes = npt.NDArray[np.uint8]
Damage = npt.NDArray[np.int8]
Header = list[tuple[str, str | bytes | None]]
Message = tuple[bytes | None, bytes, Header | None]
"""Payload (None: a tombstone), key, headers."""


def messages(
    values: npt.NDArray[np.int64], size_bytes: int, at_ms: int, *, headers: bool, keys: int = 0
) -> Iterator[Message]:
    """Yield the message of each value.

    Args:
        values: Which.
        size_bytes: Of each payload, at least 8.
        at_ms: Their time stamp, in milliseconds since 1970.
        headers: Whether the message format has headers.
        keys: How many a partition has (`results.record.keys`); 0: each message has its own.
    """
    if keys:
        yield from (_keyed(value, size_bytes, at_ms, keys) for value in values.tolist())
        return
    if len(values) <= FEW:
        for value in values.tolist():
            key = key_of(value)
            mark: Header | None = [(HEADER, key)] if headers and not value % _MARKED else None
            yield payload_of(value, size_bytes, at_ms), key, mark
        return
    words = values.astype(np.uint64)
    hashes, timed = mixed(words), size_bytes >= TIMED_FROM
    stamp = np.array([at_ms if timed else 0], np.uint64)
    payloads = _split(_payloads(words, hashes, size_bytes, stamp))
    own_keys = _split(_keys(hashes))
    marks: list[Header | None] = [None] * len(words)
    for at in np.flatnonzero(_is_marked(words)).tolist() if headers else ():
        marks[at] = [(HEADER, own_keys[at])]
    yield from zip(payloads, own_keys, marks, strict=True)


def damage(
    payloads: Sequence[bytes | None],
    keys: Sequence[bytes | None],
    headers: Sequence[object] | None,
    stamps_ms: Sequence[int],
) -> Damage:
    """Return what differs of each record from what was sent.

    Args:
        payloads: As they were read; None: a record without a payload.
        keys: None: without a key.
        headers: The content of the one header `HEADER`, None where there is no header at all,
            anything else where there are others; None for all: they were not looked at.
        stamps_ms: Of the records; `UNKNOWN_MS` where there is none of a producer.
    """
    if len(payloads) > FEW:
        step = max(1, _AT_ONCE_BYTES // max(1, len(payloads[0] or b"")))
        parts = [slice(start, start + step) for start in range(0, len(payloads), step)]
        if all(
            _are_intact(payloads[at], keys[at], headers and headers[at], stamps_ms[at])
            for at in parts
        ):
            return np.zeros(len(payloads), np.int8)
    marks = repeat(_UNSEEN) if headers is None else headers
    records = zip(payloads, keys, marks, stamps_ms, strict=False)
    return np.array([_damage_of(*record) for record in records], np.int8)


def payload_of(value: int, size_bytes: int, at_ms: int) -> bytes:
    """Return the payload of a value; see the module."""
    head, sealed = encode_payload(value, 0), mix(value) ^ size_bytes * _OF_SIZE & ALL
    if size_bytes >= TIMED_FROM:
        head += at_ms.to_bytes(_WORD, "big")
        spread = at_ms * _OF_TIME & ALL
        sealed ^= spread ^ spread >> 32
    ones, places = _filler(size_bytes)
    filler = (sealed * ones ^ places).to_bytes(-(-size_bytes // _WORD) * _WORD, "little")
    return head + filler[len(head) : size_bytes]


def value_in(payload: bytes | None, mark: object) -> int | None:
    """Return the value of a record; a tombstone's is in its mark.

    Args:
        payload: Of the record.
        mark: As `damage` is told of its headers.
    """
    if payload is not None:
        return decode_payload(payload)
    held = marked_value(mark)
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


def coded_header(mark: bytes) -> bytes:
    """Return the headers of a record, as format 2 codes them, that are `HEADER` alone."""
    return b"%b%b" % (_CODED, mark)


def mark_of(coded: bytes) -> bytes | None:
    """Return what `damage` is told of a record's headers, as format 2 codes them."""
    if coded == NO_HEADERS:
        return None
    # Whatever does not begin like ours is nobody's key, and stays as it is.
    return coded.removeprefix(_CODED).removeprefix(_CODED_MARK)


NO_HEADERS = b"\0"
"""How format 2 codes that there are none."""
_CODED = bytes([1 << 1, len(HEADER) << 1, *HEADER.encode("ascii"), _WORD << 1])
"""Numbers are zigzag varints: one header, the length of its name, its name, and that of a key."""
_CODED_MARK = bytes([*_CODED[:-1], MARK_BYTES << 1])
"""The same, and the length of a mark of few keys."""


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
    words, times = _word(read, 0), np.zeros(1, np.uint64)
    if size_bytes >= TIMED_FROM:
        times = _word(read, 1)
        stamps = np.array(stamps_ms, np.int64)
        if ((stamps != times.astype(np.int64)) & (stamps != UNKNOWN_MS)).any():
            return False
    hashes = mixed(words)
    sent = _payloads(words, hashes, size_bytes, times)
    if read_keys != _keys(hashes).tobytes() or not np.array_equal(read, sent):
        return False
    due = np.flatnonzero(_is_marked(words)).tolist()
    return marks is None or (
        marks.count(None) == len(words) - len(due) and all(marks[at] == keys[at] for at in due)
    )


def _damage_of(payload: bytes | None, key: bytes | None, mark: object, at_ms: int) -> int:
    """Return what differs of one record; a `mark` of `_UNSEEN`: its headers were not looked at."""
    if (held := marked_value(mark)) is not None:
        return _damage_of_keyed(payload, key, held, at_ms)
    value = decode_payload(payload)
    if payload is None or value is None:
        return PAYLOAD
    seen, size_bytes = mark is not _UNSEEN, len(payload)
    if payload == message_payload(value):
        return KEY * (key is not None) | HEADERS * (seen and mark is not None)
    sent_key, sent_ms = key_of(value), int.from_bytes(payload[VALUE_BYTES : VALUE_BYTES + _WORD])
    wrong = payload != payload_of(value, size_bytes, sent_ms)
    late = size_bytes >= TIMED_FROM and not wrong and at_ms not in {UNKNOWN_MS, sent_ms}
    sent_mark = None if value % _MARKED else sent_key
    headers = HEADERS * (seen and mark != sent_mark)
    return PAYLOAD * wrong | KEY * (key != sent_key) | headers | TIME * late


def _keyed(value: int, size_bytes: int, at_ms: int, keys: int) -> Message:
    payload = None if is_tombstone(value) else payload_of(value, size_bytes, at_ms)
    return payload, key_bytes(value, keys), [(HEADER, mark_of_value(value, keys))]


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
    wrong = read is None or payload != payload_of(read, len(payload), sent_ms)
    late = len(payload) >= TIMED_FROM and not wrong and at_ms not in {UNKNOWN_MS, sent_ms}
    # Both are whole, and not of one message: the mark is another's.
    return PAYLOAD * wrong | wrong_key | HEADERS * (not wrong and read != value) | TIME * late


def _payloads(words: Words, hashes: Words, size_bytes: int, at_ms: Words) -> _Bytes:
    """Return the payload of each value, a row of bytes each; time stamps of 0: without."""
    spread = at_ms * np.uint64(_OF_TIME)
    sealed = hashes ^ np.uint64(size_bytes * _OF_SIZE & ALL) ^ spread ^ spread >> np.uint64(32)
    block = sealed[:, np.newaxis] ^ _places(-(-size_bytes // _WORD))
    block = block.astype("<u8", copy=False)
    block[:, 0] = words.astype(">u8").view("<u8")
    if size_bytes >= TIMED_FROM:
        block[:, 1] = at_ms.astype(">u8").view("<u8")
    whole: _Bytes = block.view(np.uint8)
    return whole[:, :size_bytes]


def _keys(hashes: Words) -> _Bytes:
    return hashes.astype("<u8", copy=False).view(np.uint8).reshape(-1, _WORD)


def _is_marked(words: Words) -> npt.NDArray[np.bool_]:
    return np.asarray(words & np.uint64(_MARKED - 1) == 0, np.bool_)


@lru_cache(maxsize=64)
def _filler(size_bytes: int) -> tuple[int, int]:
    """Return ones, a word apart each, and the places, as the number that a payload's bytes are."""
    width = -(-size_bytes // _WORD)
    ones = sum(1 << 64 * at for at in range(width))
    return ones, int.from_bytes(_places(width).astype("<u8").tobytes(), "little")


@lru_cache(maxsize=64)
def _places(width: int) -> Words:
    """Return a number for each eight bytes of a payload, so that none may stand for another."""
    return mixed(np.arange(width, dtype=np.uint64))


def _word(block: _Bytes, at: int) -> Words:
    """Return eight bytes of each row as a number, big-endian."""
    part = np.ascontiguousarray(block[:, at * _WORD : (at + 1) * _WORD])
    return part.view(">u8").ravel().astype(np.uint64)


def _split(block: _Bytes) -> list[bytes]:
    rows: Any = np.ascontiguousarray(block).view(f"V{block.shape[1]}")
    found: list[bytes] = rows.ravel().tolist()
    return found
