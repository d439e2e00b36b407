"""The sending side of a connection.

During one turn, the event loop (uvloop) collects all written bytes. Then it sends them in one
piece.
"""

import asyncio

from cluster.reference.process.cuts import Cuts

CLIENT = -1


class Outlet:
    """Sends bytes over a transport, unless the link to its peer is cut.

    Args:
        transport: The connection's transport.
        cuts: The links that are cut.
        peer: The node at the other end; `CLIENT` is never cut off.
    """

    __slots__ = ("_cuts", "_held", "_peer", "_transport")

    def __init__(self, transport: asyncio.Transport, cuts: Cuts, peer: int = CLIENT) -> None:
        self._transport, self._cuts, self._peer = transport, cuts, peer
        self._held: list[bytes] = []

    def send(self, data: bytes) -> None:
        """Send bytes after all bytes that were sent before."""
        if self._held:
            self._held.append(data)
        elif self._cuts.holds(self._peer):
            self._held.append(data)
            self._cuts.afterwards(self._go_on)
        elif not self._transport.is_closing():
            self._transport.write(data)

    def _go_on(self) -> None:
        if self._transport.is_closing():
            return
        if self._cuts.holds(self._peer):
            self._cuts.afterwards(self._go_on)
            return
        held, self._held = self._held, []
        self._transport.write(b"".join(held))
