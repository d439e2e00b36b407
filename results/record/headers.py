"""The headers of a message, and what readers compare of them.

Plain: every sixteenth value has one header, others have none. Mixed: about one message in forty has
some, of each kind that clients and brokers permit: a value that is null or empty, a name that comes
several times or is empty, several headers, a long one. Either way they follow from the value, by
its key. To make them costs more than the rest of a message, so most messages have none.

A reader compares a mark of them, which is the same from each client and from a segment.
"""

from collections.abc import Callable
from functools import lru_cache

from results.record.keys import MARK_BYTES

Header = list[tuple[str, str | bytes | None]]
HEADER = "logquake"
PLAIN_EVERY = 16
_WORD = 8
_MANY, _LONG = 5, 128
_MIXED: tuple[Callable[[bytes], Header], ...] = (
    lambda key: [(HEADER, key)],
    lambda _: [(HEADER, None)],
    lambda key: [(HEADER, key), (HEADER, key[:3]), (HEADER, None), (HEADER, b"")],
    lambda key: [("", key)],
    lambda key: [(f"{HEADER}-{at}", key * at) for at in range(_MANY)],
    lambda key: [("κεφαλίδα", key * _LONG)],
)
KINDS = len(_MIXED)
"""A key whose last byte is below has them."""


def mixed_headers(key: bytes) -> Header | None:
    """Return the headers of a message of a run with mixed ones; None: it has none."""
    kind = key[-1]
    return _MIXED[kind](key) if kind < KINDS else None


def coded_header(mark: bytes) -> bytes:
    """Return the headers of a record, as format 2 codes them, that are `HEADER` alone."""
    return b"%b%b" % (_CODED, mark)


def coded_headers(headers: Header | None) -> bytes:
    """Return the headers of a record as format 2 codes them."""
    parts = [_length(len(headers or ()))]
    for name, content in headers or ():
        told = name.encode()
        held = content.encode() if isinstance(content, str) else content
        parts += (_length(len(told)), told, _length(-1 if held is None else len(held)), held or b"")
    return b"".join(parts)


def mark(headers: Header | None) -> bytes | None:
    """Return what readers compare of headers: None where there are none.

    The content of `HEADER` if it is the only one and as long as a key, or as a mark of few keys;
    else all, as format 2 codes them.
    """
    match headers:
        case None | []:
            return None
        case [(name, bytes(content))] if name == HEADER and len(content) in {_WORD, MARK_BYTES}:
            return content
        case _:
            return coded_headers(headers)


def mark_of(coded: bytes) -> bytes | None:
    """Return the mark of a record's headers, as format 2 codes them."""
    if coded == NO_HEADERS:
        return None
    # Whatever does not begin like ours is nobody's key, and stays as it is.
    return coded.removeprefix(_CODED).removeprefix(_CODED_MARK)


@lru_cache
def _length(number: int) -> bytes:
    """Return a length as a zigzag varint."""
    left, coded = number << 1 ^ number >> 31, bytearray()
    while left > _LOW:
        coded.append(left & _LOW | _LOW + 1)
        left >>= 7
    coded.append(left)
    return bytes(coded)


_LOW = 0x7F
NO_HEADERS = b"\0"
"""How format 2 codes that there are none."""
_CODED = bytes([1 << 1, len(HEADER) << 1, *HEADER.encode("ascii"), _WORD << 1])
"""Numbers are zigzag varints: one header, the length of its name, its name, and that of a key."""
_CODED_MARK = bytes([*_CODED[:-1], MARK_BYTES << 1])
"""The same, and the length of a mark of few keys."""
