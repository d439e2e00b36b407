"""The control socket: one line in, one line out, over a Unix socket in the node's folder.

`cut 2 3` lets nothing go to nodes 2 and 3 (and everything to all others), `heal` lets everything
go, `cuts` tells what is cut. The answer is the list of node ids that are cut off now. It is how
links are cut where nodes share an address; who may write the folder may cut.
"""

import asyncio
import contextlib
from pathlib import Path

from cluster.reference.process.cuts import Cuts

SOCKET = "control.sock"
"""Relative to the node's folder, in which its process runs: such a path must be short (unix(7))."""


class Control:
    """Listens while the node runs.

    Args:
        cuts: What can be changed.
    """

    def __init__(self, cuts: Cuts) -> None:
        self._cuts = cuts
        self._server: asyncio.Server | None = None
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
            case _:
                return "error: cut NODE-ID..., heal, or cuts"
        return " ".join(map(str, sorted(self._cuts.peers)))
