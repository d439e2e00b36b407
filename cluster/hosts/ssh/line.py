"""The line to an agent on an ssh host: kept alive, and taken up again when it breaks.

A thread sends an empty line each second or so, which renews the lease of the host's warden, and
hears in return how much room is left on the host's disk. When nothing comes any more, or the
connection is closed, it connects again and sends the last request once more; the warden, which
knows its number, has it done only once. Faults in force stay so meanwhile: the agent and its
processes do not notice. Only if the lease has run out before is the line over, for good: then the
host has undone everything.
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
"""After so many beats without an echo, and at least `SHORTEST_SILENCE_S`, a line is broken."""
SHORTEST_SILENCE_S = 5.0
AGAIN_S = 0.5
END_TIMEOUT_S = 10.0
STATUS_TIMEOUT_S = 5.0
ENDED = "it has ended"
NO_PROGRAM = 2
"""Python's exit code if the program is not there any more: the run's folder was removed."""


class SshLine:
    """Implements `cluster.hosts.line.Line`.

    Args:
        connection: To the host.
        folder: Of the run, on the host, where a warden listens.

    Attributes:
        losses: How often the connection was lost.
        is_up: Whether there is one now, as far as is known.
        free_bytes: What was left on the disk of the run's folder when the host was last heard of;
            None: never.
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

    def send(self, data: bytes, timeout_s: float) -> None:  # noqa: ARG002 - a broken line is mended
        """Send bytes, all of them, now or when the line is back."""
        if self._over or self._closed.is_set():
            raise ConnectionResetError(self._over or "it was closed")
        with self._sending:
            self._last = data
            self._write(data)

    def receive(self, timeout_s: float) -> bytes:
        """Return the line that came next; none if the line is over.

        While the line is broken, what was asked for may come as long as the host's lease lasts:
        who gave up before would not know of what is done there all the same.
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
        """End the line; what it leads to is ended by `undo`."""
        self._closed.set()
        with self._sending:
            if self._channel is not None:
                self._channel.close()

    def wait_closed(self) -> None:
        """Wait until nothing is sent any more."""
        self._thread.join(END_TIMEOUT_S)

    def last_words(self) -> str:
        """Return nothing: the agent's complaints lie on its host."""
        return ""

    def _write(self, data: bytes) -> None:
        # What does not get through is sent again when the line is back.
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
            # Who was cut off meanwhile learns only from a second call if the warden has gone too.
            self._over = "" if why == ENDED and not ended else why
            ended = why == ENDED
        self._heard.put(b"")

    def _listen(self, channel: paramiko.Channel) -> str:
        """Hear the agent, and send beats, until the channel ends; return why it is over."""
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
                # Only now: what came while this process itself stood still has been read before.
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
        """Return why a line whose channel has ended cannot be taken up; empty if it can."""
        if self._closed.is_set():
            return "it was closed"
        if not channel.status_event.wait(STATUS_TIMEOUT_S) or channel.exit_status < 0:
            return ""
        if channel.exit_status in {NO_WARDEN, NO_PROGRAM}:
            return "nobody called for so long that its host has undone everything"
        return ENDED
