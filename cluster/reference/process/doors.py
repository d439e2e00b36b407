"""Connections that come in: of clients, who speak Kafka's protocol, and of other nodes.

A client's requests are answered in their order, as Kafka does; whoever sends what is no request is
hung up on, and nobody else notices.
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
"""So many requests of a connection are taken before one of them is answered."""
MOST_UNFINISHED = 256 << 20
"""So many bytes of requests that are not whole yet are kept, of all connections together.

Each may be of 100 MiB, and whoever has announced it need never send the rest."""
_FEW_BYTES = 1 << 16


class Inside(Protocol):
    """What is behind the doors."""

    cuts: Cuts
    key: bytes
    """The cluster's, which other nodes must have."""

    def take(self, event: Event) -> None:
        """Take a request, or the end of a connection."""

    def complain(self, sentence: str) -> None:
        """Write down what somebody did wrong."""


@dataclass(slots=True)
class _Slot:
    """A place in the order of answers."""

    question: Question
    answer: bytes | None = None


class Door(asyncio.Protocol):
    """One connection that came in.

    Args:
        inside: Who takes what comes.
        number: Of the connection.
        doors: All that are open, by number.

    Attributes:
        unfinished: How many bytes wait here for the rest of their frame.
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
        """Open."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none by their class.
        self._doors[self._number] = self

    def connection_lost(self, _why: Exception | None) -> None:
        """Tell the machine, if it knows of the connection."""
        del self._doors[self._number]
        if self._heard:
            self._inside.take(Hung(connection=self._number))

    def pause_writing(self) -> None:
        """Whoever does not read answers is not read either, and gets no more of them."""
        self._is_stuffed = True
        self._listen(wanted=False)

    def resume_writing(self) -> None:
        """Go on with what came meanwhile, and read again."""
        self._is_stuffed = False
        self._go_on()

    def data_received(self, data: bytes) -> None:
        """Take what came; hang up on whoever sends no requests."""
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
                # Out of here it would take the event's other effects with it.
                self.hang_up(str(unsayable))
                return
            if silent and _failed(message):
                # Nobody else can tell a client without acknowledgements that it failed.
                self.hang_up("a request without an answer failed", complain=False)
            self._send_ready()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def _greeting(self, data: bytes) -> bytes:
        """Find out who is there, by the first bytes; return what comes after them."""
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
        """Ask what waits here, as far as there is room for answers; then read on.

        A few bytes can ask for megabytes: so many that a piece of a stream has room for must not
        all be answered at once to somebody who reads nothing of it.
        """
        if self._is_asking:
            return  # An answer came at once: the loop below goes on.
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
        """Note how much is kept of a frame; if all together keep too much, the largest goes."""
        before, self.unfinished = self.unfinished, len(self._frames)
        if self.unfinished <= max(before, _FEW_BYTES):
            return
        total = sum(each.unfinished for each in self._doors.values())
        if total > MOST_UNFINISHED:
            largest = max(self._doors.values(), key=lambda each: each.unfinished)
            largest.hang_up(f"{total} bytes of requests that are not whole are kept")

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
        """Close the connection at once, and forget what came over it."""
        if self._transport is None or self._transport.is_closing():
            return
        if complain:
            host, port, *_ = self._transport.get_extra_info("peername") or ("unknown", 0)
            # In Kafka's words: a broker is asked for its time by what has it write such a line.
            self._inside.complain(
                f"[SocketServer] Unexpected error from /{host}:{port}; closing connection: {why}"
            )
        self._held.clear()
        self._frames, self.unfinished = Frames(), 0
        self._transport.abort()


def _failed(message: object) -> bool:
    partitions = getattr(message, "partitions", ())
    return any(each.error_code for each in partitions)
