"""The frames between a worker and its JVM. This module only encodes and decodes them.

    length of the rest (4 bytes) | seat (4) | kind (1) | body

A seat is one Kafka client with its own thread. Numbers are big-endian. A text is encoded as its
length (-1: no text) and its UTF-8 bytes. The fields of many records are sent as columns. numpy
reads a column at once, so no Python code runs for each record.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from results.record.contents import UNKNOWN_MS, Message
from results.record.headers import Header
from workloads.member import Answer
from workloads.protocol import Key, Send, Values

Settings = Mapping[str, str]
_HEAD = struct.Struct(">iib")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
HEAD_BYTES = _HEAD.size
_AFTER_LENGTH = HEAD_BYTES - _INT.size
BEGINNING, STORED = -1, -2
"""Special offsets that mean the beginning of a partition, or the group's committed offset."""
REPORTED, LOCAL, THROWN = range(3)
"""The ways in which a send can fail.

The delivery report may have an error, the producer may refuse the record, or `send` may raise an
exception, after which the producer is unusable.
"""


class Ask(IntEnum):
    """The requests to the JVM, as in `Frame.java`."""

    OPEN = 1
    CHECK = 2
    CLOSE = 3
    SEND = 4
    REACH = 5
    ASSIGN = 6
    POLL = 7
    SUBSCRIBE = 8
    SEEK = 9
    RESUME = 10
    COMMITTED = 11
    COMMIT = 12
    INIT = 13
    BEGIN = 14
    OFFSETS = 15
    COMMIT_TXN = 16
    ABORT_TXN = 17
    KNOWN = 18
    ACKNOWLEDGE = 19


class Tell(IntEnum):
    """The kinds of frames that the JVM sends."""

    DONE = 1
    FAILED = 2
    BATCH = 3
    ANSWERS = 4
    SENT = 5
    GIVEN = 6
    TAKEN = 7
    ENDED = 8
    GONE = 0
    """The JVM has ended. No real frame has this kind."""


class Role(IntEnum):
    """The kinds of clients."""

    PRODUCER = 0
    CONSUMER = 1
    SHARER = 2


class Ending(IntEnum):
    """The ways in which a client ends."""

    LEAVE = 0
    VANISH = 1


@dataclass(frozen=True, slots=True)
class Told:
    """A frame from the JVM."""

    kind: Tell
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a record was not sent.

    Attributes:
        index: The record's index in the op.
        how: `REPORTED`, `LOCAL` or `THROWN`.
        error: The error's text, such as `TimeoutException: Expiring 1 record(s) ...`.
    """

    index: int
    how: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of one op's records.

    Attributes:
        op: The number in the request's frame.
        offsets: The offsets; -1 means unknown.
        faults: The failures.
    """

    op: int
    offsets: Values
    faults: Sequence[Fault]


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """The records of a poll, as columns.

    Attributes:
        spans: The partition and the number of records, for each series of records of one partition.
        offsets, leader_epochs: The offset and the leader epoch of each record. If the broker sent
            no epoch, it is -1.
        stamps_ms: The producer's timestamps. -1 for other kinds of timestamps.
        payloads, keys: None for a record without a payload or key.
        marks: Marks of headers, as in `results.record.headers.mark`.
    """

    spans: Sequence[tuple[Key, int]]
    offsets: Values
    leader_epochs: npt.NDArray[np.int32]
    stamps_ms: Sequence[int]
    payloads: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    marks: Sequence[object]


def frame(seat: int, kind: Ask, body: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    return _HEAD.pack(len(body) + _AFTER_LENGTH, seat, kind) + body


def unframed(buffer: bytes | bytearray) -> tuple[list[tuple[int, Told]], int]:
    """Return (seat, frame) for each complete frame in a buffer, and the frames' total size."""
    frames, start = [], 0
    while len(buffer) - start >= HEAD_BYTES:
        length, seat, kind = _HEAD.unpack_from(buffer, start)
        end = start + _INT.size + length
        if end > len(buffer):
            break
        frames.append((seat, Told(Tell(kind), bytes(buffer[start + HEAD_BYTES : end]))))
        start = end
    return frames, start


def text(value: str) -> bytes:
    """Encode a text."""
    coded = value.encode()
    return _INT.pack(len(coded)) + coded


def integer(value: int) -> bytes:
    """Encode a four-byte number."""
    return _INT.pack(value)


def texts(values: Sequence[str]) -> bytes:
    """Encode a list of texts."""
    return _INT.pack(len(values)) + b"".join(map(text, values))


def settings(values: Settings) -> bytes:
    """Encode settings."""
    pairs = (text(name) + text(value) for name, value in values.items())
    return _INT.pack(len(values)) + b"".join(pairs)


def places(offsets: Mapping[Key, int]) -> bytes:
    """Encode partitions, each with an offset."""
    rows = (
        text(topic) + struct.pack(">iq", partition, offset)
        for (topic, partition), offset in offsets.items()
    )
    return _INT.pack(len(offsets)) + b"".join(rows)


def sending(op: int, send: Send, messages: Iterable[Message], at_ms: int) -> bytes:
    """Return the body of a frame that sends an op's messages; all keys have the same length."""
    topic, partition = send.key
    payloads, keys, headers = zip(*messages, strict=True)
    return b"".join([
        _LONG.pack(op), text(topic), struct.pack(">iq", partition, at_ms),
        _INT.pack(len(payloads)), np.fromiter(map(_size, payloads), ">i4").tobytes(),
        *map(_headers, headers), _INT.pack(len(keys[0])), *keys,
        *(payload for payload in payloads if payload is not None),
    ])  # fmt: skip


def _size(piece: bytes | None) -> int:
    return -1 if piece is None else len(piece)


def _headers(headers: Header | None) -> bytes:
    """Encode headers: the number of headers in one byte, and then the name and content of each."""
    if headers is None:
        return b"\0"
    pairs = (text(name) + _piece(content) for name, content in headers)
    return bytes([len(headers)]) + b"".join(pairs)


def _piece(content: str | bytes | None) -> bytes:
    if content is None:
        return _INT.pack(-1)
    return text(content) if isinstance(content, str) else _INT.pack(len(content)) + content


class Reading:
    """A decoder for the body of a frame. It begins at the start of the body."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def integer(self) -> int:
        """Decode a four-byte number."""
        (value,) = _INT.unpack_from(self._body, self._at)
        self._at += _INT.size
        return int(value)

    def number(self) -> int:
        """Decode an eight-byte number."""
        (value,) = _LONG.unpack_from(self._body, self._at)
        self._at += _LONG.size
        return int(value)

    def octet(self) -> int:
        """Decode a one-byte number."""
        self._at += 1
        return self._body[self._at - 1]

    def raw(self, size: int) -> bytes:
        """Return the next bytes."""
        self._at += size
        return self._body[self._at - size : self._at]

    def text(self) -> str | None:
        """Decode a text."""
        size = self.integer()
        return None if size < 0 else self.raw(size).decode()

    def key(self) -> Key:
        """Decode a partition."""
        return self.text() or "", self.integer()

    def column(self, kind: str, count: int) -> npt.NDArray[np.int64]:
        """Decode a column of numbers of a numpy type, such as `>i8`."""
        dtype = np.dtype(kind)
        read = np.frombuffer(self.raw(count * dtype.itemsize), dtype)
        return read.astype(dtype.newbyteorder("="))

    def pieces(self, count: int) -> list[bytes | None]:
        """Decode a list of byte strings; None stands for a missing one."""
        sizes = self.column(">i4", count)
        if count and sizes[0] > 0 and (sizes == sizes[0]).all():
            rows = np.frombuffer(self.raw(count * int(sizes[0])), f"V{sizes[0]}")
            alike: list[bytes | None] = rows.tolist()
            return alike
        return [None if size < 0 else self.raw(size) for size in sizes.tolist()]


def told_text(body: bytes) -> str:
    """Decode a body that is a text."""
    return Reading(body).text() or ""


def told_texts(body: bytes) -> list[str]:
    """Decode a body that is a list of texts."""
    read = Reading(body)
    return [read.text() or "" for _ in range(read.integer())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A consumer's identity, with which a transaction commits the consumer's offsets (KIP-447).

    Attributes:
        group: The consumer's group.
        generation: The group's generation, or the member's epoch. -1 if the consumer is not a
            member.
        member: The member's id. Empty if the consumer is not a member.
    """

    group: str
    generation: int = -1
    member: str = ""

    def packed(self) -> bytes:
        """Return the membership as a frame encodes it."""
        return text(self.group) + integer(self.generation) + text(self.member)


def told_given(group: str, body: bytes) -> tuple[Membership, list[Key]]:
    """Decode an assignment: the member's identity in its group, and the partitions."""
    read = Reading(body)
    generation, member = read.integer(), read.text() or ""
    keys = [read.key() for _ in range(read.integer())]
    return Membership(group=group, generation=generation, member=member), keys


def told_keys(body: bytes) -> list[Key]:
    """Decode a body that is a list of partitions."""
    read = Reading(body)
    return [read.key() for _ in range(read.integer())]


def told_answers(read: Reading) -> list[Answer]:
    """Decode a coordinator's responses."""
    answers = []
    for _ in range(read.integer()):
        key, offset, metadata = read.key(), read.number(), read.text()
        answers.append(Answer(key=key, offset=offset if offset >= 0 else None, metadata=metadata))
    return answers


def told_report(body: bytes) -> Report:
    """Decode the results of an op's records."""
    read = Reading(body)
    op, count = read.number(), read.integer()
    offsets = read.column(">i8", count)
    faults = [
        Fault(index=read.integer(), how=read.octet(), error=read.text() or "")
        for _ in range(read.integer())
    ]
    return Report(op=op, offsets=offsets, faults=faults)


def told_batch(body: bytes) -> Polled:
    """Decode the records of a poll."""
    read = Reading(body)
    count = read.integer()
    spans = [(read.key(), read.integer()) for _ in range(read.integer())]
    offsets = read.column(">i8", count)
    epochs = read.column(">i4", count).astype(np.int32)
    stamps: list[int] = read.column(">i8", count).tolist()
    payloads, keys = read.pieces(count), read.pieces(count)
    marks = read.pieces(count)
    return Polled(
        spans=spans,
        offsets=offsets,
        leader_epochs=epochs,
        stamps_ms=stamps,
        payloads=payloads,
        keys=keys,
        marks=marks,
    )


def told_counts(body: bytes, count: int) -> npt.NDArray[np.int32]:
    """Decode the delivery counts of a share group's records, at the end of the body."""
    return np.frombuffer(body, ">i4", count, len(body) - 4 * count).astype(np.int32)


assert UNKNOWN_MS == -1, "as Consuming.java writes it"
