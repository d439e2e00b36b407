"""The control socket: one line in, one line out, over a Unix socket in the node's folder.

`cut 2 3` lets nothing go to nodes 2 and 3 (and everything to all others), `heal` lets everything
go, `cuts` tells what is cut. The answer is the list of node ids that are cut off now. `held` tells
how often something was held: `2:15 3:4`. It is how links are cut where nodes share an address; who
may write the folder may cut.

`knock 2 127.0.0.1 4711 WORD` sends a word to an address by the way that all goes to node 2: whoever
listens there sees for himself whether it comes through. The answer is empty, and says nothing.
"""

import asyncio
import contextlib
from pathlib import Path

from cluster.reference.process.cuts import Cuts
from cluster.reference.process.stream import Outlet

SOCKET = "control.sock"
"""Relative to the node's folder, in which its process runs: such a path must be short (unix(7))."""
KNOCK_S = 3.0
"""How long a knock may take; who is cut off then has not knocked."""


class Control:
    """Listens while the node runs.

    Args:
        cuts: What can be changed.
    """

    def __init__(self, cuts: Cuts) -> None:
        self._cuts = cuts
        self._server: asyncio.Server | None = None
        self._knocks: set[asyncio.Task[None]] = set()
        self._path = Path(SOCKET)

    async def open(self, path: str = SOCKET) -> None:
        """Listen; a socket that a killed process left is replaced."""
        self._path = Path(path)
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, path)

    def close(self) -> None:
        """Stop listening, and leave no socket in the folder (Python does so since 3.13)."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := await reader.readline():
                writer.write(f"{self._answer(line.decode())}\n".encode())
                await writer.drain()
        writer.close()

    def _answer(self, line: str) -> str:
        word, *peers = line.split() or [""]
        match word:
            case "cut":
                if not all(each.isdecimal() for each in peers):
                    return "error: cut NODE-ID..."
                self._cuts.cut(map(int, peers))
            case "heal":
                self._cuts.cut(())
            case "cuts":
                pass
            case "held":
                return " ".join(f"{peer}:{n}" for peer, n in sorted(self._cuts.held.items()))
            case "knock":
                return self._begin_to_knock(*peers)
            case _:
                return "error: cut NODE-ID..., heal, cuts, held, or knock"
        return " ".join(map(str, sorted(self._cuts.peers)))

    def _begin_to_knock(self, *words: str) -> str:
        match words:
            case peer, host, port, word if peer.isdecimal() and port.isdecimal():
                task = asyncio.create_task(self._knock(int(peer), (host, int(port)), word))
                self._knocks.add(task)
                task.add_done_callback(self._knocks.discard)
                return ""
            case _:
                return "error: knock NODE-ID HOST PORT WORD"

    async def _knock(self, peer: int, at: tuple[str, int], word: str) -> None:
        with contextlib.suppress(OSError):
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(asyncio.Protocol, *at)
            Outlet(transport, self._cuts, peer).send(f"{word}\n".encode())
            loop.call_later(KNOCK_S, transport.abort)
