"""The way between the harness and an agent: what is said on it is `cluster.hosts.machine`'s."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from cluster.hosts.agent import LOOPBACK, command_line
from cluster.hosts.ledger import mark

END_TIMEOUT_S = 10.0
READ_BYTES = 1 << 16


class Line(Protocol):
    """Bytes to and from one agent. What fails raises `OSError`."""

    def send(self, data: bytes, timeout_s: float) -> None:
        """Send bytes, all of them."""

    def receive(self, timeout_s: float) -> bytes:
        """Return the bytes that came next; none if the line has ended."""

    def close(self) -> None:
        """End the line, and with it the agent and all that it started."""

    def wait_closed(self) -> None:
        """Wait until the agent has ended."""

    def last_words(self) -> str:
        """Return the last that the agent complained about."""


class PipeLine:
    """Implements `Line` for an agent that is a child of this process, by a pair of sockets.

    Args:
        processes_file: `RunPaths.processes`: marks the agent; its complaints lie beside it.
        prefix: What the agent is started through: `unshare --net ... --`, or nothing.
        listen: The address at which it hears datagrams of probes.
    """

    def __init__(
        self, processes_file: Path, *, prefix: Sequence[str] = (), listen: str = LOOPBACK
    ) -> None:
        self._errors = processes_file.with_name("agents.log")
        self.socket, theirs = socket.socketpair()
        with theirs, self._errors.open("ab") as errors:
            self.process = subprocess.Popen(  # noqa: S603 - our own agent
                [*prefix, *command_line(os.getpid(), listen=listen)],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=errors,
                env={**os.environ, **mark(processes_file)},
                start_new_session=True,  # Ctrl-C in a terminal is for the harness alone.
            )

    def send(self, data: bytes, timeout_s: float) -> None:
        """Send bytes, all of them."""
        self.socket.settimeout(timeout_s)
        self.socket.sendall(data)

    def receive(self, timeout_s: float) -> bytes:
        """Return the bytes that came next; none if the line has ended."""
        self.socket.settimeout(timeout_s)
        return self.socket.recv(READ_BYTES)

    def close(self) -> None:
        """End the line, and with it the agent and all that it started."""
        # A forked worker may hold the socket as well: closing ours alone would not end the line.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def wait_closed(self) -> None:
        """Wait until the agent has ended; one that does not is killed, and its children with it."""
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(END_TIMEOUT_S)

    def last_words(self) -> str:
        """Return the last that the agent complained about."""
        said = self._errors.read_text().strip().splitlines() if self._errors.exists() else []
        return said[-1] if said else ""
