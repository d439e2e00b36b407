"""The byte connection between the harness and an agent.

`cluster.hosts.machine` defines the messages.
"""

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
    """A byte connection to one agent. Failures raise `OSError`."""

    def send(self, data: bytes, timeout_s: float) -> None:
        """Send all bytes."""

    def receive(self, timeout_s: float) -> bytes:
        """Return the next received bytes; empty if the connection has ended."""

    def close(self) -> None:
        """Close the connection. This ends the agent and all processes that the agent started."""

    def wait_closed(self) -> None:
        """Wait until the agent at the other end has ended."""

    def last_words(self) -> str:
        """Return the last line of the agent's error output."""


class PipeLine:
    """A `Line` over a socket pair to an agent that is a child of this process.

    Args:
        processes_file: `RunPaths.processes`. This path marks the agent. The agent's error output
            goes to a file beside this file.
        prefix: The beginning of the agent's command line, such as `unshare --net ... --`; may be
            empty.
        listen: The address at which the agent receives datagrams of probes.
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
                start_new_session=True,  # Only the harness handles Ctrl-C in a terminal.
            )

    def send(self, data: bytes, timeout_s: float) -> None:
        """Send all bytes."""
        self.socket.settimeout(timeout_s)
        self.socket.sendall(data)

    def receive(self, timeout_s: float) -> bytes:
        """Return the next received bytes; empty if the connection has ended."""
        self.socket.settimeout(timeout_s)
        return self.socket.recv(READ_BYTES)

    def close(self) -> None:
        """Close the connection. This ends the agent and all processes that the agent started."""
        # A forked worker may hold the socket as well. Closing only ours would not end the
        # connection.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def wait_closed(self) -> None:
        """Wait until the agent has ended. After a timeout, kill the agent and thus its children."""
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(END_TIMEOUT_S)

    def last_words(self) -> str:
        """Return the last line of the agent's error output."""
        said = self._errors.read_text().strip().splitlines() if self._errors.exists() else []
        return said[-1] if said else ""
