"""Keep the connection to an agent on an ssh host alive, and restore it when it breaks.

A thread sends an empty line about every second. This line renews the lease of the host's warden.
The warden is the program that undoes the run if the harness is silent. The warden answers with the
free bytes on the host's disk. If answers stop, or if the connection closes, the thread connects
again and repeats the last request. The warden knows the request's number, so the agent executes the
request only once.

While the connection is broken, the agent and its processes continue, and faults stay in force. The
line ends for good only if the lease runs out before the thread can connect again. Then the host has
undone everything.
"""

import contextlib
import queue
import shlex
import threading

import paramiko

from cluster.hosts.ssh.connection import SshConnection
from cluster.hosts.ssh.errands import NO_WARDEN
from cluster.protocol import ClusterError
from results.record.clock import pause_until, stopwatch_s

BEATS_OF_A_LEASE = 10
LONGEST_BEAT_S = 1.0
SILENT_BEATS = 4
"""After this many unanswered beats, a connection counts as lost. A beat is an empty line that
renews the lease.

A connection never counts as lost before `SHORTEST_SILENCE_S` seconds of silence.
"""
SHORTEST_SILENCE_S = 5.0
AGAIN_S = 0.5
END_TIMEOUT_S = 10.0
STATUS_TIMEOUT_S = 5.0
ENDED = "it has ended"
NO_PROGRAM = 2
"""Python's exit code if the program is missing, because the run's folder was removed."""


class SshLine:
    """Implements `cluster.hosts.line.Line` for an agent on an ssh host.

    Args:
        connection: The connection to the host.
        folder: The run's folder on the host, in which a warden listens.

    Attributes:
        losses: How often the connection was lost.
        is_up: Whether the connection is open now, as far as known.
        free_bytes: Free bytes on the disk of the run's folder, as last reported; None if never
            reported.
    """

    def __init__(self, connection: SshConnection, folder: str) -> None:
        self._connection = connection
        self._command = shlex.join(["python3", "-I", "-S", f"{folder}/errands.py", "talk", folder])
        self._beat_s = min(LONGEST_BEAT_S, connection.host.ttl_s / BEATS_OF_A_LEASE)
        self._heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._channel: paramiko.Channel | None = None
        self._last = b""
        self.is_up = False
        self.free_bytes: int | None = None
        self._over = ""
        self.losses = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._keep, name=f"line-{connection.host.name}", daemon=True
        )
        self._thread.start()

    def send(self, data: bytes, timeout_s: float) -> None:  # noqa: ARG002 - broken lines are restored
        """Send all bytes, now or when the line is restored."""
        if self._over or self._closed.is_set():
            raise ConnectionResetError(self._over or "it was closed")
        with self._sending:
            self._last = data
            self._write(data)

    def receive(self, timeout_s: float) -> bytes:
        """Return the next received line; empty if the line has ended for good.

        After a line breaks, a response may still come until the host's lease runs out. If a caller
        stopped waiting earlier, it would not know whether the agent has executed the request.
        """
        try:
            data = self._next(timeout_s)
        except queue.Empty as late:
            raise TimeoutError("timed out") from late
        if not data:
            self._heard.put(b"")
            if self._over:
                raise ConnectionResetError(self._over)
        return data

    def _next(self, timeout_s: float) -> bytes:
        try:
            return self._heard.get(timeout=timeout_s)
        except queue.Empty:
            if self.is_up:
                raise
            return self._heard.get(timeout=self._connection.host.ttl_s)

    def close(self) -> None:
        """Close the line. The request `undo` ends the agent on the host."""
        self._closed.set()
        with self._sending:
            if self._channel is not None:
                self._channel.close()

    def wait_closed(self) -> None:
        """Wait until this line's thread has ended."""
        self._thread.join(END_TIMEOUT_S)

    def last_words(self) -> str:
        """Return an empty string: the agent's error output is on its host."""
        return ""

    def _write(self, data: bytes) -> None:
        # A request that was not delivered is sent again when the line is restored.
        with contextlib.suppress(OSError, paramiko.SSHException, EOFError):
            if self._channel is not None:
                self._channel.sendall(data)

    def _keep(self) -> None:
        ended = False
        while not self._closed.is_set() and not self._over:
            try:
                channel = self._connection.channel(self._command)
            except ClusterError:
                self._connection.close()
                pause_until(stopwatch_s() + AGAIN_S, self._closed)
                continue
            channel.settimeout(self._beat_s)
            with self._sending:
                self._channel = channel
                self._write(self._last)
            self.is_up = True
            why = self._listen(channel)
            self.is_up = False
            channel.close()
            self.losses += not why
            # After a lost connection, only a second call shows whether the warden has ended too.
            self._over = "" if why == ENDED and not ended else why
            ended = why == ENDED
        self._heard.put(b"")

    def _listen(self, channel: paramiko.Channel) -> str:
        """Receive answers and send beats until the channel ends; return why the line has ended."""
        heard_s = sent_s = stopwatch_s()
        limit_s = max(SHORTEST_SILENCE_S, SILENT_BEATS * self._beat_s)
        rest = b""
        while not self._closed.is_set():
            if stopwatch_s() - sent_s >= self._beat_s:
                sent_s = stopwatch_s()
                with self._sending:
                    self._write(b"\n")
            try:
                data = channel.recv(1 << 16)
            except TimeoutError:
                # Check this last: bytes that arrived while this process was paused are read first.
                if stopwatch_s() - heard_s > limit_s:
                    self._connection.close()
                    return ""
                continue
            except (OSError, paramiko.SSHException, EOFError):
                return ""
            if not data:
                return self._why_over(channel)
            heard_s = stopwatch_s()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line.isdigit():
                    self.free_bytes = int(line)
                elif line:
                    self._heard.put(line + b"\n")
        return "it was closed"

    def _why_over(self, channel: paramiko.Channel) -> str:
        """Return the reason why a line whose channel has ended cannot be restored.

        The result is an empty string if the line can be restored.
        """
        if self._closed.is_set():
            return "it was closed"
        if not channel.status_event.wait(STATUS_TIMEOUT_S) or channel.exit_status < 0:
            return ""
        if channel.exit_status in {NO_WARDEN, NO_PROGRAM}:
            return "the harness sent no request for so long that the host has undone everything"
        return ENDED
