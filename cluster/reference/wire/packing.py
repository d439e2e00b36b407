"""A fast codec for usual Produce and Fetch messages, ten times as fast as the library kio.

This codec handles only simple messages, without tags and without error details. All other messages
go through kio. The encoded bytes are equal
(https://kafka.apache.org/protocol#The_Messages_Produce).
"""

import struct

from cluster.reference.messages.data import (
    UNKNOWN,
    FetchedPartition,
    FetchResponse,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from cluster.reference.wire.data import ADMIN_CLIENT, by_topic
from cluster.reference.wire.shapes import MOST_ELEMENTS

PRODUCE, FETCH = 0, 1
_FLEXIBLE = {PRODUCE: 9, FETCH: 12}
"""From these versions on, lengths are varints, and every structure may have tags (KIP-482)."""
_MOST_VARINT, _LONGEST_VARINT = 0x7F, 5
"""The largest number that fits into a varint of one byte, and the most bytes of an encoded
length."""
_NAMELESS = 13
"""From this version on, a fetch names topics by their ids alone (KIP-516)."""

_CORRELATION = struct.Struct(">ii")
_I16, _I32, _I64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_PRODUCED, _PRODUCED_SINCE_5 = struct.Struct(">ihqq"), struct.Struct(">ihqqq")
_FETCHED = struct.Struct(">ihqq")
_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_HEAD = struct.Struct(">hhi")
_NO_TAGS = b"\0"
_NOT_THROTTLED = _I32.pack(0)


def answer(api_key: int, version: int, correlation: int, message: object) -> bytes | None:
    """Return the frame of a response; None if the response is not simple."""
    parts: list[bytes] | None = None
    if isinstance(message, ProduceResponse):
        parts = _produced(message, version)
    elif isinstance(message, FetchResponse):
        parts = _fetched(message, version)
    if parts is None:
        return None
    body = b"".join(parts)
    tags = _NO_TAGS if version >= _FLEXIBLE[api_key] else b""
    length = len(tags) + len(body) + _I32.size
    return _CORRELATION.pack(length, correlation) + tags + body


def _produced(own: ProduceResponse, version: int) -> list[bytes] | None:
    if any(each.error_message is not None for each in own.partitions):
        return None
    flexible = version >= _FLEXIBLE[PRODUCE]
    tags = _NO_TAGS if flexible else b""
    topics = by_topic(own.partitions)
    parts = [_count(len(topics), flexible=flexible)]
    for topic, partitions in topics:
        parts += (_text(topic, flexible=flexible), _count(len(partitions), flexible=flexible))
        parts += [_produced_partition(each, version) for each in partitions]
        parts.append(tags)
    parts.append(_NOT_THROTTLED + tags)
    return parts


def _produced_partition(each: ProducedPartition, version: int) -> bytes:
    head = (each.partition, each.error_code, each.base_offset, UNKNOWN)
    if version < 5:  # noqa: PLR2004 - KIP-107
        return _PRODUCED.pack(*head)
    data = _PRODUCED_SINCE_5.pack(*head, each.log_start_offset)
    if version >= _FLEXIBLE[PRODUCE]:
        data += b"\x01\0\0"  # No errors of single records and no message (KIP-467); no tags.
    elif version >= 8:  # noqa: PLR2004 - as above
        data += b"\0\0\0\0\xff\xff"
    return data


def _fetched(own: FetchResponse, version: int) -> list[bytes] | None:
    if any(
        each.current_leader_epoch >= 0
        or each.diverging_epoch >= 0
        or each.diverging_end_offset >= 0
        or each.snapshot_epoch >= 0
        or (version >= _NAMELESS and each.topic_id is None)
        for each in own.partitions
    ):
        return None
    flexible = version >= _FLEXIBLE[FETCH]
    tags = _NO_TAGS if flexible else b""
    topics = by_topic(own.partitions)
    parts = [_I32.pack(0)]
    if version >= 7:  # noqa: PLR2004 - KIP-227; there are no sessions.
        parts.append(_I16.pack(own.error_code) + _I32.pack(0))
    parts.append(_count(len(topics), flexible=flexible))
    for topic, partitions in topics:
        topic_id = partitions[0].topic_id
        if topic_id is not None and version >= _NAMELESS:
            parts.append(topic_id.bytes)
        else:
            parts.append(_text(topic, flexible=flexible))
        parts.append(_count(len(partitions), flexible=flexible))
        for each in partitions:
            parts += (_fetched_head(each, version), each.records, tags)
        parts.append(tags)
    parts.append(tags)
    return parts


def _fetched_head(each: FetchedPartition, version: int) -> bytes:
    data = _FETCHED.pack(
        each.partition, each.error_code, each.high_watermark, each.last_stable_offset
    )
    if version >= 5:  # noqa: PLR2004 - KIP-107
        data += _I64.pack(each.log_start_offset)
    flexible = version >= _FLEXIBLE[FETCH]
    data += _count(0, flexible=flexible)  # No transaction was aborted.
    if version >= 11:  # noqa: PLR2004 - KIP-392; only leaders are read.
        data += _I32.pack(UNKNOWN)
    return data + _count(len(each.records), flexible=flexible)


def produce_request(frame: bytes) -> tuple[str, ProduceRequest] | None:
    """Decode a frame with a Produce request; None if the request is not simple.

    Returns:
        The client's name and the request.
    """
    try:
        return _produce_request(frame)
    except (struct.error, IndexError, ValueError):
        return None


def _produce_request(frame: bytes) -> tuple[str, ProduceRequest]:
    _, version, _ = _HEAD.unpack_from(frame)
    flexible = version >= _FLEXIBLE[PRODUCE]
    read, tags = _Reading(frame, _HEAD.size, flexible=flexible), _NO_TAGS if flexible else b""
    client = read.old_text()
    read.pass_over(b"\0\0" if flexible else b"\xff\xff")  # No tags and no transaction.
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, read.at)
    read.at += _ACKS_AND_TIMEOUT.size
    partitions = []
    for _ in range(read.count()):
        topic = read.text()
        for _ in range(read.count()):
            (number,) = _I32.unpack_from(frame, read.at)
            read.at += _I32.size
            records = read.data()
            read.pass_over(tags)
            partitions.append(ProducePartition(topic=topic, partition=number, records=records))
        read.pass_over(tags)
    read.pass_over(tags)
    if read.at != len(frame):
        raise ValueError("it ends elsewhere")
    request = ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        partitions=tuple(partitions),
        to_internal=client == ADMIN_CLIENT,
    )
    return client, request


class _Reading:
    """A reading position in a frame.

    Each method raises ValueError if the next bytes do not belong to a simple message.
    """

    __slots__ = ("at", "elements", "flexible", "frame")

    def __init__(self, frame: bytes, at: int, *, flexible: bool) -> None:
        self.frame, self.at, self.flexible = frame, at, flexible
        self.elements = 0

    def pass_over(self, expected: bytes) -> None:
        if self.frame[self.at : self.at + len(expected)] != expected:
            raise ValueError(f"{expected!r} is expected but does not follow")
        self.at += len(expected)

    def count(self) -> int:
        count = self._length(_I32)
        self.elements += count
        if self.elements > MOST_ELEMENTS:
            raise ValueError(f"more than {MOST_ELEMENTS} elements")
        return count

    def old_text(self) -> str:
        (length,) = _I16.unpack_from(self.frame, self.at)
        self.at += _I16.size
        return self._take(max(length, 0)).decode()

    def text(self) -> str:
        return self._take(self._length(_I16)).decode()

    def data(self) -> bytes:
        return self._take(self._length(_I32))

    def _length(self, form: struct.Struct) -> int:
        """Return a length; raise if it is negative, which would mean null."""
        length: int
        if self.flexible:
            length = self._varint() - 1
        else:
            (length,) = form.unpack_from(self.frame, self.at)
            self.at += form.size
        if not 0 <= length <= len(self.frame):
            raise ValueError(f"a length of {length}")
        return length

    def _varint(self) -> int:
        number = self.frame[self.at]
        if number <= _MOST_VARINT:  # Most lengths have one byte.
            self.at += 1
            return number
        number = 0
        for shift in range(0, _LONGEST_VARINT * 7, 7):
            byte = self.frame[self.at]
            self.at += 1
            number |= (byte & _MOST_VARINT) << shift
            if byte <= _MOST_VARINT:
                return number
        raise ValueError("a variable-length number does not end")

    def _take(self, length: int) -> bytes:
        data = self.frame[self.at : self.at + length]
        self.at += length
        return data


def _text(text: str, *, flexible: bool) -> bytes:
    data = text.encode()
    return (_varint(len(data) + 1) if flexible else _I16.pack(len(data))) + data


def _count(count: int, *, flexible: bool) -> bytes:
    return _varint(count + 1) if flexible else _I32.pack(count)


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > _MOST_VARINT:
        data.append(number & _MOST_VARINT | _MOST_VARINT + 1)
        number >>= 7
    data.append(number)
    return bytes(data)
