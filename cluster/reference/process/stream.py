"""The sending side of a connection: what is written in one turn of the loop goes in one piece."""

import asyncio

from cluster.reference.process.cuts import Cuts

CLIENT = -1


class Outlet:
    """Sends bytes over a transport, unless the link to its peer is cut.

    Args:
        transport: Of the connection.
        cuts: Which links are cut.
        peer: Who is at the other end; `CLIENT` is never cut off.
    """

    __slots__ = ("_cuts", "_loop", "_parts", "_peer", "_scheduled", "_transport")

    def __init__(self, transport: asyncio.Transport, cuts: Cuts, peer: int = CLIENT) -> None:
        self._transport, self._cuts, self._peer = transport, cuts, peer
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []
        self._scheduled = False

    def send(self, data: bytes) -> None:
        """Send bytes, after all that was sent before."""
        self._parts.append(data)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._go)

    def _go(self) -> None:
        self._scheduled = False
        if not self._parts or self._transport.is_closing():
            return
        if self._cuts.holds(self._peer):
            self._scheduled = True
            self._cuts.afterwards(self._go)
            return
        parts, self._parts = self._parts, []
        self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
