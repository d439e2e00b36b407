"""Connections to other nodes: send requests, and match responses by their numbers.

If a request times out, its connection is closed, as in Kafka's own clients. Then the outcome of all
open requests on this connection is unknown.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import cast

from cluster.reference.machine import Answered, Request
from cluster.reference.process.cuts import Cuts
from cluster.reference.process.stream import Outlet
from cluster.reference.wire.frames import FrameError, Frames, framed
from cluster.reference.wire.peers import PeerError, hello, packed, unpacked

RECONNECT_S = 0.05
"""Kafka's `reconnect.backoff.ms`: the pause between two attempts to connect."""
NS_PER_S = 1e9
Address = tuple[str, int]


class Links:
    """The connections to the other nodes, one to each. A connection is opened when it is needed.

    Args:
        node: This node's id.
        key: The cluster's key.
        cuts: The links that are cut.
        find: Returns the address of a node; None: unknown yet.
        take: Handles responses.
    """

    def __init__(
        self,
        node: int,
        key: bytes,
        cuts: Cuts,
        *,
        find: Callable[[int], Address | None],
        take: Callable[[Answered], None],
    ) -> None:
        self.node, self.key, self.cuts = node, key, cuts
        self.find, self.take = find, take
        self._open: dict[int, _Link] = {}
        self._broke_at: dict[int, float] = {}

    def ask(self, request: Request) -> None:
        """Send a request. In every case, exactly one `Answered` follows."""
        link = self._open.get(request.to)
        if link is None:
            link = self._open[request.to] = _Link(self, request.to)
            link.connect(after_s=self._pause_s(request.to))
        link.ask(request)

    def broke(self, link: "_Link") -> None:
        """Forget a connection that has broken."""
        if self._open.get(link.peer) is link:
            del self._open[link.peer]
            self._broke_at[link.peer] = asyncio.get_running_loop().time()

    def close(self) -> None:
        """Close all connections. Later responses are ignored."""
        for link in list(self._open.values()):
            link.abandon()

    def _pause_s(self, peer: int) -> float:
        broke_s = self._broke_at.get(peer)
        if broke_s is None:
            return 0.0
        return max(0.0, broke_s + RECONNECT_S - asyncio.get_running_loop().time())


class _Link(asyncio.Protocol):
    """One connection to another node, until it breaks."""

    def __init__(self, links: Links, peer: int) -> None:
        self._links, self.peer = links, peer
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._outlet: Outlet | None = None
        self._early: list[bytes] = []
        self._pending: dict[int, float] = {}
        self._look: asyncio.TimerHandle | None = None
        self._look_at_s = inf
        self._connecting: asyncio.Task[None] | None = None
        self._over = False

    def connect(self, *, after_s: float) -> None:
        """Begin to connect."""
        self._connecting = self._loop.create_task(self._connect(after_s))

    async def _connect(self, after_s: float) -> None:
        if after_s:
            await asyncio.sleep(after_s)
        address = self._links.find(self.peer)
        if address is None:
            self._break()
            return
        try:
            await self._loop.create_connection(lambda: self, *address)
        except OSError:
            self._break()

    def ask(self, request: Request) -> None:
        """Send a request."""
        number, until_s = request.number, self._loop.time() + request.timeout_ns / NS_PER_S
        self._pending[number] = until_s
        if until_s < self._look_at_s:
            self._look_after(until_s)
        frame = framed(packed(number, request.message))
        if self._outlet is None:
            self._early.append(frame)
        else:
            self._outlet.send(frame)

    def abandon(self) -> None:
        """Close the connection. The machine gets no `Answered` for open requests."""
        self._pending.clear()
        self._break()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the greeting, then the requests that were made before."""
        # uvloop's transports have another class.
        self._transport = cast("asyncio.Transport", transport)
        if self._over:
            self._transport.abort()
            return
        self._outlet = Outlet(self._transport, self._links.cuts, self.peer)
        self._outlet.send(hello(self._links.node, self._links.key))
        for frame in self._early:
            self._outlet.send(frame)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        """Handle received responses."""
        try:
            for frame in self._frames.feed(data):
                number, message = unpacked(frame)
                if self._pending.pop(number, None) is not None:
                    self._links.take(Answered(request=number, message=message))
        except (FrameError, PeerError):
            self._break()

    def connection_lost(self, _why: Exception | None) -> None:
        """Report all open requests as unanswered."""
        self._break()

    def _look_after(self, at_s: float) -> None:
        """Schedule one check of all open requests. It takes place at the first timeout."""
        if self._look is not None:
            self._look.cancel()
        self._look_at_s, self._look = at_s, self._loop.call_at(at_s, self._break_if_overdue)

    def _break_if_overdue(self) -> None:
        self._look_at_s, self._look = inf, None
        first_s = min(self._pending.values(), default=inf)
        if first_s <= self._loop.time():
            self._break()
        elif self._pending:
            self._look_after(first_s)

    def _break(self) -> None:
        if self._over:
            return
        self._over = True
        if self._look is not None:
            self._look.cancel()
        self._links.broke(self)
        if self._connecting is not None and self._transport is None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()
        for number in self._pending:
            # Later, because the machine may be in the middle of an event.
            self._loop.call_soon(self._links.take, Answered(request=number, message=None))
        self._pending.clear()
