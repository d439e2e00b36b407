"""The keys and tombstones of a compacted topic, computed from the number (value) of a message.

The value and the partition's number of keys determine a message's key, and whether its payload is
null. So the record of a run needs no columns for keys and tombstones. A key is a number in four
big-endian bytes, as Kafka's `IntegerSerializer` writes it. The keys 0 and 1 have the same bytes as
the keys of transaction markers. A cleaner must distinguish messages and markers (KAFKA-14055).

A tombstone has no payload that could contain its value. So each message has a header, the mark. The
mark consists of 12 bytes: the value and the number of keys. In topics that are not compacted, a
mark has 8 bytes.
"""

import struct

import numpy as np
import numpy.typing as npt

from results.record.hashing import mix, mixed

_MARK = struct.Struct(">QI")
MARK_BYTES = _MARK.size
_KEY = struct.Struct(">I")
_HALF = 32
ABORT_MARKER_KEY, COMMIT_MARKER_KEY = 0, 1
"""The numbers of the keys whose bytes are those of the markers of transactions."""
_TOMBSTONES = 8
"""On average, one message out of this many has no payload."""


def key_number(value: int, keys: int) -> int:
    """Return the key of the message with this value, as a number below `keys`.

    The key is the smaller of two pseudorandom numbers. Low keys are written often and high keys
    seldom. So a cleaner finds some records that soon got a successor, and others that stay for
    long.
    """
    hashed = mix(value)
    return min((hashed & (1 << _HALF) - 1) % keys, (hashed >> _HALF) % keys)


def key_numbers(values: npt.NDArray[np.int64], keys: int) -> npt.NDArray[np.int64]:
    """Return, for each value, the key of its message as a number, as `key_number` does."""
    hashed, count = mixed(values.astype(np.uint64)), np.uint64(keys)
    low = hashed & np.uint64((1 << _HALF) - 1)
    numbers = np.minimum(low % count, (hashed >> np.uint64(_HALF)) % count)
    return np.asarray(numbers, np.int64)


def is_tombstone(value: int) -> bool:
    """Return whether the message with this value is a tombstone, i.e. has no payload."""
    return mix(mix(value)) % _TOMBSTONES == 0


def are_tombstones(values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return for each value whether its message is a tombstone, as in `is_tombstone`."""
    hashed = mixed(mixed(values.astype(np.uint64)))
    return np.asarray(hashed % np.uint64(_TOMBSTONES) == 0, np.bool_)


def key_bytes(value: int, keys: int) -> bytes:
    """Return the key of the message with this value, if the partition has this number of keys."""
    return _KEY.pack(key_number(value, keys))


def mark_of_value(value: int, keys: int) -> bytes:
    """Return the header mark of the message with this value: the value and the number of keys."""
    return _MARK.pack(value, keys)


def marked_value(mark: object) -> tuple[int, int] | None:
    """Read the value and the number of keys from a header mark; return None for other headers.

    The first byte of a value is always 0. Other headers begin with the number of headers, which is
    never 0.
    """
    if not isinstance(mark, bytes) or len(mark) != MARK_BYTES or mark[0]:
        return None
    value, keys = _MARK.unpack(mark)
    return (value, keys) if keys else None
