"""Frames between a worker and its JVM. Pure.

    length (4 bytes, of what follows) | seat (4) | kind (1) | body

A seat is a client of Kafka with a thread of its own. Numbers are big-endian; a text is its length
(-1: none) and UTF-8. What there are many of comes as columns, so that no Python runs for each
record: numpy reads them.
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
"""Offsets: a partition's beginning; where its group has committed."""
REPORTED, LOCAL, THROWN = range(3)
"""How a send failed: by its report; before the producer took it; by an exception of `send`, after
which the producer cannot be used."""


class Ask(IntEnum):
    """What a JVM is asked for, as `Frame.java` has it."""

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
    """What it tells."""

    DONE = 1
    FAILED = 2
    BATCH = 3
    ANSWERS = 4
    SENT = 5
    GIVEN = 6
    TAKEN = 7
    ENDED = 8
    GONE = 0
    """Its process has ended; no frame says so."""


class Role(IntEnum):
    """What kind of client a seat has."""

    PRODUCER = 0
    CONSUMER = 1
    SHARER = 2


class Ending(IntEnum):
    """How a client ends."""

    LEAVE = 0
    VANISH = 1


@dataclass(frozen=True, slots=True)
class Told:
    """A frame of the JVM."""

    kind: Tell
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a record was not sent.

    Attributes:
        index: Its place among those of the op.
        how: `REPORTED`, `LOCAL` or `THROWN`.
        error: `TimeoutException: Expiring 1 record(s) ...`.
    """

    index: int
    how: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of the records of one op.

    Attributes:
        op: The number that its frame had.
        offsets: -1 where none is known.
        faults: Of those that failed.
    """

    op: int
    offsets: Values
    faults: Sequence[Fault]


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """What a poll returned, as columns.

    Attributes:
        spans: Partitions, each with how many records of it follow one another.
        offsets, leader_epochs: -1 where the broker told no epoch.
        stamps_ms: -1 where it is not the producer's.
        payloads, keys: None where there is none.
        marks: Of headers, as `results.record.headers.mark` has it.
    """

    spans: Sequence[tuple[Key, int]]
    offsets: Values
    leader_epochs: npt.NDArray[np.int32]
    stamps_ms: Sequence[int]
    payloads: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    marks: Sequence[object]


def frame(seat: int, kind: Ask, body: bytes = b"") -> bytes:
    """Return a frame."""
    return _HEAD.pack(len(body) + _AFTER_LENGTH, seat, kind) + body


def unframed(buffer: bytes | bytearray) -> tuple[list[tuple[int, Told]], int]:
    """Return the whole frames of a buffer, each with its seat, and how many bytes they are."""
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
    """Return a text."""
    coded = value.encode()
    return _INT.pack(len(coded)) + coded


def integer(value: int) -> bytes:
    """Return a number of four bytes."""
    return _INT.pack(value)


def texts(values: Sequence[str]) -> bytes:
    """Return some texts."""
    return _INT.pack(len(values)) + b"".join(map(text, values))


def settings(values: Settings) -> bytes:
    """Return settings."""
    pairs = (text(name) + text(value) for name, value in values.items())
    return _INT.pack(len(values)) + b"".join(pairs)


def places(offsets: Mapping[Key, int]) -> bytes:
    """Return partitions, each with an offset."""
    rows = (
        text(topic) + struct.pack(">iq", partition, offset)
        for (topic, partition), offset in offsets.items()
    )
    return _INT.pack(len(offsets)) + b"".join(rows)


def sending(op: int, send: Send, messages: Iterable[Message], at_ms: int) -> bytes:
    """Return the body of a frame that sends the messages of an op; their keys are equally long."""
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
    """Return headers: how many, in one byte, and each with its name and its content."""
    if headers is None:
        return b"\0"
    pairs = (text(name) + _piece(content) for name, content in headers)
    return bytes([len(headers)]) + b"".join(pairs)


def _piece(content: str | bytes | None) -> bytes:
    if content is None:
        return _INT.pack(-1)
    return text(content) if isinstance(content, str) else _INT.pack(len(content)) + content


class Reading:
    """Reads the body of a frame from its head on."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def integer(self) -> int:
        """Return a number of four bytes."""
        (value,) = _INT.unpack_from(self._body, self._at)
        self._at += _INT.size
        return int(value)

    def number(self) -> int:
        """Return a number of eight bytes."""
        (value,) = _LONG.unpack_from(self._body, self._at)
        self._at += _LONG.size
        return int(value)

    def octet(self) -> int:
        """Return a number of one byte."""
        self._at += 1
        return self._body[self._at - 1]

    def raw(self, size: int) -> bytes:
        """Return some bytes."""
        self._at += size
        return self._body[self._at - size : self._at]

    def text(self) -> str | None:
        """Return a text."""
        size = self.integer()
        return None if size < 0 else self.raw(size).decode()

    def key(self) -> Key:
        """Return a partition."""
        return self.text() or "", self.integer()

    def column(self, kind: str, count: int) -> npt.NDArray[np.int64]:
        """Return so many numbers: `>i8`, for one."""
        dtype = np.dtype(kind)
        read = np.frombuffer(self.raw(count * dtype.itemsize), dtype)
        return read.astype(dtype.newbyteorder("="))

    def pieces(self, count: int) -> list[bytes | None]:
        """Return so many pieces of bytes, None for what is not there."""
        sizes = self.column(">i4", count)
        if count and sizes[0] > 0 and (sizes == sizes[0]).all():
            rows = np.frombuffer(self.raw(count * int(sizes[0])), f"V{sizes[0]}")
            alike: list[bytes | None] = rows.tolist()
            return alike
        return [None if size < 0 else self.raw(size) for size in sizes.tolist()]


def told_text(body: bytes) -> str:
    """Return the text that is a frame's body."""
    return Reading(body).text() or ""


def told_texts(body: bytes) -> list[str]:
    """Return the texts that are a frame's body."""
    read = Reading(body)
    return [read.text() or "" for _ in range(read.integer())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a transaction needs to commit a consumer's positions (KIP-447).

    Attributes:
        group: Its group.
        generation: Of the group, or the member's epoch; -1: it is no member.
        member: Its id; empty: as above.
    """

    group: str
    generation: int = -1
    member: str = ""

    def packed(self) -> bytes:
        """Return it as a frame has it."""
        return text(self.group) + integer(self.generation) + text(self.member)


def told_given(group: str, body: bytes) -> tuple[Membership, list[Key]]:
    """Return which member a group gave partitions to, and which."""
    read = Reading(body)
    generation, member = read.integer(), read.text() or ""
    keys = [read.key() for _ in range(read.integer())]
    return Membership(group=group, generation=generation, member=member), keys


def told_keys(body: bytes) -> list[Key]:
    """Return the partitions that are a frame's body."""
    read = Reading(body)
    return [read.key() for _ in range(read.integer())]


def told_answers(read: Reading) -> list[Answer]:
    """Return what a coordinator answered."""
    answers = []
    for _ in range(read.integer()):
        key, offset, metadata = read.key(), read.number(), read.text()
        answers.append(Answer(key=key, offset=offset if offset >= 0 else None, metadata=metadata))
    return answers


def told_report(body: bytes) -> Report:
    """Return what came of an op's records."""
    read = Reading(body)
    op, count = read.number(), read.integer()
    offsets = read.column(">i8", count)
    faults = [
        Fault(index=read.integer(), how=read.octet(), error=read.text() or "")
        for _ in range(read.integer())
    ]
    return Report(op=op, offsets=offsets, faults=faults)


def told_batch(body: bytes) -> Polled:
    """Return what a poll returned."""
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
    """Return how often each record of a share group was delivered: the end of such a batch."""
    return np.frombuffer(body, ">i4", count, len(body) - 4 * count).astype(np.int32)


assert UNKNOWN_MS == -1, "as Consuming.java writes it"
