"""Messages of a compacted topic: few keys, and tombstones. Both follow from the value.

So whoever knows a value, and how many keys a partition has, knows the message's key and whether its
payload is null: the record needs no column for either. A key is its number in four bytes,
big-endian, as Kafka's `IntegerSerializer` writes it; those of 0 and 1 are also the keys of markers
of transactions, which a cleaner must keep apart (KAFKA-14055).

A tombstone has no payload to hold its value. So each of these messages has a header, the mark,
that holds value and number of keys: 12 bytes, where other messages' marks have 8.
"""

import struct

import numpy as np
import numpy.typing as npt

from results.record.hashing import mix, mixed

_MARK = struct.Struct(">QI")
MARK_BYTES = _MARK.size
_KEY = struct.Struct(">I")
_HALF = 32
_TOMBSTONES = 8
"""One message of so many has no payload."""


def key_number(value: int, keys: int) -> int:
    """Return the number of a value's key, below `keys`.

    It is the smaller one of two draws: the first keys are written often, the last ones seldom, so
    that a cleaner meets both what is superseded at once, and what it has to keep for long.
    """
    hashed = mix(value)
    return min((hashed & (1 << _HALF) - 1) % keys, (hashed >> _HALF) % keys)


def key_numbers(values: npt.NDArray[np.int64], keys: int) -> npt.NDArray[np.int64]:
    """Return the number of each value's key, as `key_number` has it."""
    hashed, count = mixed(values.astype(np.uint64)), np.uint64(keys)
    low = hashed & np.uint64((1 << _HALF) - 1)
    numbers = np.minimum(low % count, (hashed >> np.uint64(_HALF)) % count)
    return np.asarray(numbers, np.int64)


def is_tombstone(value: int) -> bool:
    """Tell whether a value's message has no payload, which deletes its key."""
    return mix(mix(value)) % _TOMBSTONES == 0


def are_tombstones(values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell which values' messages have no payload, as `is_tombstone` has it."""
    hashed = mixed(mixed(values.astype(np.uint64)))
    return np.asarray(hashed % np.uint64(_TOMBSTONES) == 0, np.bool_)


def key_bytes(value: int, keys: int) -> bytes:
    """Return the key of a value's message."""
    return _KEY.pack(key_number(value, keys))


def mark_of_value(value: int, keys: int) -> bytes:
    """Return the mark of a value's message."""
    return _MARK.pack(value, keys)


def marked_value(mark: object) -> tuple[int, int] | None:
    """Return the value and the number of keys that a mark holds; None: it is none.

    Values have no bit in their first byte. Other headers begin with their number, which is not 0.
    """
    if not isinstance(mark, bytes) or len(mark) != MARK_BYTES or mark[0]:
        return None
    value, keys = _MARK.unpack(mark)
    return (value, keys) if keys else None
