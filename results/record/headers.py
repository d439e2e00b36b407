"""The headers of a message, and a short form of them (the mark) that readers compare.

With plain headers, every sixteenth message has one header, and other messages have none. With mixed
headers, about one message in forty has headers. All permitted kinds occur: null or empty contents,
a repeated or empty name, several headers, a long header. In both cases the message's value
determines the key, and the key determines the headers. Most messages have no headers, because
headers cost more time than the rest of a message.

A reader compares the mark. Every client and every log segment gives the same mark for one message.
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
"""A message has mixed headers if the last byte of the key is below this number."""


def mixed_headers(key: bytes) -> Header | None:
    """Return the mixed headers of the message with this key, or None if it has none."""
    kind = key[-1]
    return _MIXED[kind](key) if kind < KINDS else None


def coded_header(mark: bytes) -> bytes:
    """Return the encoding, in record format 2, of headers with `HEADER` as the only header."""
    return b"%b%b" % (_CODED, mark)


def coded_headers(headers: Header | None) -> bytes:
    """Return headers in the encoding of record format 2."""
    parts = [_length(len(headers or ()))]
    for name, content in headers or ():
        told = name.encode()
        held = content.encode() if isinstance(content, str) else content
        parts += (_length(len(told)), told, _length(-1 if held is None else len(held)), held or b"")
    return b"".join(parts)


def mark(headers: Header | None) -> bytes | None:
    """Return the mark of a message's headers, i.e. the bytes that readers compare.

    Suppose that `HEADER` is the only header, and that the content is as long as a key, or as a mark
    of few keys. Then the mark is this content. Otherwise the mark is all headers in the encoding of
    record format 2. If there are no headers, the mark is None.
    """
    match headers:
        case None | []:
            return None
        case [(name, bytes(content))] if name == HEADER and len(content) in {_WORD, MARK_BYTES}:
            return content
        case _:
            return coded_headers(headers)


def mark_of(coded: bytes) -> bytes | None:
    """Return the mark (the bytes that readers compare) of headers encoded in record format 2."""
    if coded == NO_HEADERS:
        return None
    # Headers that do not begin like Logquake's stay unchanged. They equal no key.
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
"""The encoding of an empty list of headers in record format 2."""
_CODED = bytes([1 << 1, len(HEADER) << 1, *HEADER.encode("ascii"), _WORD << 1])
"""Start of encoded headers: the count 1, the name's length, the name, and a key's length. Numbers
are zigzag varints."""
_CODED_MARK = bytes([*_CODED[:-1], MARK_BYTES << 1])
"""Like `_CODED`, but for a mark of few keys: it ends with the length of such a mark."""
