"""The control socket of a node: a Unix socket in the node's folder, for one-line commands.

- `cut 2 3` stops all messages to nodes 2 and 3, and allows messages to all other nodes.
- `heal` allows all messages.
- `cuts` changes nothing, and only reports the cuts.
- `held` returns, for each node, how often a message to this node was held back: `2:15 3:4`.
- `knock 2 127.0.0.1 4711 WORD` sends WORD to an address. If node 2 is cut off, WORD is held back,
  too. The receiver at that address checks whether WORD arrives. The response to `knock` is empty.

`cut`, `heal` and `cuts` answer with the ids of the nodes that are cut off now. Logquake uses the
socket to cut links if nodes share an address. Every user with write access to the folder can cut
links.
"""

import asyncio
import contextlib
from pathlib import Path

from cluster.reference.process.cuts import Cuts
from cluster.reference.process.stream import Outlet

SOCKET = "control.sock"
"""The socket's path in the node's folder, which is the working directory. Paths must be short
(unix(7))."""
KNOCK_S = 3.0
"""The timeout of a knock, in seconds. If the cut lasts longer than this, the word is never sent."""


class Control:
    """Serves the control socket while the node runs.

    Args:
        cuts: The node's cuts. The commands change these cuts.
    """

    def __init__(self, cuts: Cuts) -> None:
        self._cuts = cuts
        self._server: asyncio.Server | None = None
        self._knocks: set[asyncio.Task[None]] = set()
        self._path = Path(SOCKET)

    async def open(self, path: str = SOCKET) -> None:
        """Begin to listen; replace the socket of a killed process."""
        self._path = Path(path)
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, path)

    def close(self) -> None:
        """Stop listening, and remove the socket (Python does so since 3.13)."""
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
                return "error: use cut NODE-ID..., heal, cuts, held, or knock"
        return " ".join(map(str, sorted(self._cuts.peers)))

    def _begin_to_knock(self, *words: str) -> str:
        match words:
            case peer, host, port, word if peer.isdecimal() and port.isdecimal():
                task = asyncio.create_task(self._knock(int(peer), (host, int(port)), word))
                self._knocks.add(task)
                task.add_done_callback(self._knocks.discard)
                return ""
            case _:
                return "error: the command is `knock NODE-ID HOST PORT WORD`"

    async def _knock(self, peer: int, at: tuple[str, int], word: str) -> None:
        with contextlib.suppress(OSError):
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(asyncio.Protocol, *at)
            Outlet(transport, self._cuts, peer).send(f"{word}\n".encode())
            loop.call_later(KNOCK_S, transport.abort)
