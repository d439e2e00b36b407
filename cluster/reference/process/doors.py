"""Incoming connections: from clients, which use Kafka's protocol, and from other nodes.

As in Kafka, a client gets the responses in the order of its requests. If a connection sends invalid
requests, only this connection is closed.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Protocol, cast

from cluster.reference.machine import Arrived, Asker, Event, Hung
from cluster.reference.process.cuts import Cuts
from cluster.reference.process.stream import CLIENT, Outlet
from cluster.reference.wire.codec import (
    AnswerError,
    Question,
    RequestError,
    answered,
    question,
)
from cluster.reference.wire.frames import FrameError, Frames, framed
from cluster.reference.wire.peers import HELLO, HELLO_SIZE, PeerError, greeted, packed, unpacked

MOST_UNANSWERED = 256
"""The most unanswered requests of a connection."""
MOST_UNFINISHED = 256 << 20
"""The most bytes of incomplete requests, for all connections together.

A request may have 100 MiB, and a client may begin to send a request but never complete it.
"""
_FEW_BYTES = 1 << 16


class Inside(Protocol):
    """The node that handles the requests of incoming connections."""

    cuts: Cuts
    key: bytes
    """The cluster's key. Other nodes show this key to prove that they are nodes."""

    def take(self, event: Event) -> None:
        """Handle a request, or the end of a connection."""

    def complain(self, sentence: str) -> None:
        """Log a client's mistake."""


@dataclass(slots=True)
class _Slot:
    """A place in the queue of a connection's responses, which are sent in order."""

    question: Question
    answer: bytes | None = None


class Door(asyncio.Protocol):
    """One incoming connection.

    Args:
        inside: Handles requests.
        number: The connection's number.
        doors: All open connections, by number.

    Attributes:
        unfinished: How many bytes of an incomplete request are in this connection's buffer.
    """

    def __init__(self, inside: Inside, number: int, doors: "dict[int, Door]") -> None:
        self._inside, self._number, self._doors = inside, number, doors
        self._frames = Frames()
        self._first = b""
        self._peer: int | None = None
        self._outlet: Outlet | None = None
        self._transport: asyncio.Transport | None = None
        self._order: deque[_Slot] = deque()
        self._slots: dict[int, _Slot] = {}
        self._count = self.unfinished = 0
        self._heard = False
        self._held: deque[bytes] = deque()
        self._is_asking = self._is_stuffed = self._is_deaf = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection."""
        # uvloop's transports have another class.
        self._transport = cast("asyncio.Transport", transport)
        self._doors[self._number] = self

    def connection_lost(self, _why: Exception | None) -> None:
        """Unregister the connection. If requests came over this connection, inform the machine."""
        del self._doors[self._number]
        if self._heard:
            self._inside.take(Hung(connection=self._number))

    def pause_writing(self) -> None:
        """Stop reading and responding, because the client does not read its responses."""
        self._is_stuffed = True
        self._listen(wanted=False)

    def resume_writing(self) -> None:
        """Handle the requests that arrived meanwhile, and read again."""
        self._is_stuffed = False
        self._go_on()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes; close the connection if the bytes are not requests."""
        try:
            if self._peer is None:
                data = self._greeting(data)
                if self._peer is None:
                    return
            frames = self._frames.feed(data)
            if self._peer == CLIENT:
                self._held.extend(frames)
            else:
                for frame in frames:
                    self._ask_as_peer(frame)
            self._go_on()
            if len(self._frames) != self.unfinished:
                self._note_unfinished()
        except (FrameError, PeerError) as nonsense:
            self._go_on()
            self.hang_up(str(nonsense))

    def reply(self, correlation: int, message: object) -> None:
        """Answer a request."""
        if self._outlet is None:
            return
        if self._peer != CLIENT:
            self._outlet.send(framed(packed(correlation, message)))
            return
        slot = self._slots.pop(correlation, None)
        if slot is not None:
            silent = slot.question.silent
            try:
                slot.answer = b"" if silent else answered(slot.question.asked, message)
            except AnswerError as unsayable:
                # An exception here would drop the event's other effects.
                self.hang_up(str(unsayable))
                return
            if silent and _failed(message):
                # Without acknowledgements, a closed connection is the only way to report the
                # failure.
                self.hang_up("a request with acks=0 failed", complain=False)
            self._send_ready()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def _greeting(self, data: bytes) -> bytes:
        """Identify the peer by its first bytes; return the bytes after the greeting, if any."""
        self._first += data
        if self._first[:1] != HELLO[:1]:
            self._become(CLIENT)
        elif len(self._first) >= HELLO_SIZE:
            self._become(greeted(self._first[:HELLO_SIZE], self._inside.key))
            self._first = self._first[HELLO_SIZE:]
        else:
            return b""
        rest, self._first = self._first, b""
        return rest

    def _become(self, peer: int) -> None:
        self._peer = peer
        if self._transport is not None:
            self._outlet = Outlet(self._transport, self._inside.cuts, peer)

    def _go_on(self) -> None:
        """Handle waiting requests while there is room for responses. Then read more requests.

        A request of a few bytes can ask for megabytes. So if a client does not read its responses,
        the node must not answer all received requests at once.
        """
        if self._is_asking:
            return  # The machine answered during the loop below, which continues.
        self._is_asking = True
        try:
            while self._held and not self._is_full():
                self._ask(self._held.popleft())
        except RequestError as nonsense:
            self.hang_up(str(nonsense))
        finally:
            self._is_asking = False
        self._listen(wanted=not self._is_full())

    def _note_unfinished(self) -> None:
        """Count the incomplete bytes. If they are above the limit, close the largest connection."""
        before, self.unfinished = self.unfinished, len(self._frames)
        if self.unfinished <= max(before, _FEW_BYTES):
            return
        total = sum(each.unfinished for each in self._doors.values())
        if total > MOST_UNFINISHED:
            largest = max(self._doors.values(), key=lambda each: each.unfinished)
            largest.hang_up(f"incomplete requests take {total} bytes")

    def _is_full(self) -> bool:
        return self._is_stuffed or len(self._order) >= MOST_UNANSWERED

    def _listen(self, *, wanted: bool) -> None:
        transport = self._transport
        if self._is_deaf is not wanted or transport is None or transport.is_closing():
            return
        self._is_deaf = not wanted
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def _ask(self, frame: bytes) -> None:
        asked = question(frame)
        slot = _Slot(asked, asked.answer or None)
        self._order.append(slot)
        if slot.answer is not None:
            self._send_ready()
            return
        self._count += 1
        self._slots[self._count] = slot
        self._arrive(CLIENT, self._count, asked.message)

    def _ask_as_peer(self, frame: bytes) -> None:
        number, message = unpacked(frame)
        if message is None or self._peer is None:
            raise PeerError("a request without a message")
        self._arrive(self._peer, number, message)

    def _arrive(self, who: int, correlation: int, message: object) -> None:
        self._heard = True
        asker = Asker(who=who, connection=self._number, correlation=correlation)
        self._inside.take(Arrived(asker=asker, message=message))

    def _send_ready(self) -> None:
        order = self._order
        was_full = len(order) >= MOST_UNANSWERED
        while order and order[0].answer is not None:
            answer = order.popleft().answer
            if answer and self._outlet is not None:
                self._outlet.send(answer)
        if was_full:
            self._go_on()

    def hang_up(self, why: str, *, complain: bool = True) -> None:
        """Close the connection at once, and drop its requests."""
        if self._transport is None or self._transport.is_closing():
            return
        if complain:
            host, port, *_ = self._transport.get_extra_info("peername") or ("unknown", 0)
            # In Kafka's words, because Logquake reads a broker's clock from such a log line.
            self._inside.complain(
                f"[SocketServer] Unexpected error from /{host}:{port}; closing connection: {why}"
            )
        self._held.clear()
        self._frames, self.unfinished = Frames(), 0
        self._transport.abort()


def _failed(message: object) -> bool:
    partitions = getattr(message, "partitions", ())
    return any(each.error_code for each in partitions)
