"""Start the JVM of a worker, exchange frames with it, and end it when the worker ends.

The JVM's standard input is a pipe of this process. When this process ends in any way, the pipe
closes, and the JVM ends by itself.
"""

import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from queue import Empty, SimpleQueue

from workloads.clients.java.frames import (
    Ask,
    Ending,
    Role,
    Settings,
    Tell,
    Told,
    frame,
    integer,
    settings,
    told_text,
    told_texts,
    unframed,
)
from workloads.clients.producer import UnreachableError

_READ_BYTES = 1 << 20
ASK_LIMIT_S = 60.0
"""The timeout in seconds of calls that do not wait for a broker. After a timeout the
worker ends."""
_END_S = 5.0


class BridgeError(UnreachableError):
    """The JVM has ended or does not respond. The worker cannot continue."""


class AskedError(Exception):
    """A client refused a call. The only argument is the text of the error, as it is recorded."""


class Seat:
    """One Kafka client in the JVM; only one thread uses it at a time.

    Args:
        bridge: The JVM.
        number: The client's number.
    """

    def __init__(self, bridge: "Bridge", number: int) -> None:
        self._bridge, self._number = bridge, number
        self._inbox: SimpleQueue[Told] = SimpleQueue()
        self.take = self._inbox.put
        """The function that receives a frame from the JVM."""

    def ask(
        self,
        kind: Ask,
        body: bytes = b"",
        *,
        limit_s: float = ASK_LIMIT_S,
        on_event: Callable[[Told], None] | None = None,
    ) -> Told:
        """Send a request to the client and return its reply.

        Args:
            kind: The request.
            body: The frame's body.
            limit_s: The timeout.
            on_event: A function that handles the frames which come before the reply. This function
                may also send requests.

        Raises:
            AskedError: The client refused.
            TimeoutError: No reply came in time. The client cannot be used again.
            BridgeError: The JVM has ended.
        """
        self.tell(kind, body)
        while True:
            told = self.next(limit_s)
            if told is None:
                raise TimeoutError(f"a call of the client did not return in {limit_s:g} s")
            if told.kind is Tell.FAILED:
                raise AskedError(told_text(told.body))
            if told.kind not in _EVENTS:
                return told
            if on_event is not None:
                on_event(told)

    def tell(self, kind: Ask, body: bytes = b"") -> None:
        """Send a request without waiting. If there is a reply, `next` returns it."""
        self._bridge.write(frame(self._number, kind, body))

    def next(self, timeout_s: float) -> Told | None:
        """Return the next frame, or None after the timeout.

        Raises:
            BridgeError: The JVM has ended.
        """
        try:
            told = self._inbox.get(block=timeout_s > 0, timeout=timeout_s or None)
        except Empty:
            return None
        if told.kind is Tell.GONE:
            self._inbox.put(told)  # The next caller gets the error, too.
            raise BridgeError("the Java client's process exited by itself")
        return told

    def all(self, timeout_s: float) -> Iterator[Told]:
        """Yield all available frames; wait only for the first frame."""
        while (told := self.next(timeout_s)) is not None:
            yield told
            timeout_s = 0

    def close(self, how: Ending = Ending.LEAVE) -> None:
        """End the client without waiting; it cannot be used again."""
        self._bridge.dismiss(self._number)
        self.tell(Ask.CLOSE, bytes([how]))


_EVENTS = frozenset({Tell.GIVEN, Tell.TAKEN, Tell.ENDED, Tell.SENT})


class Bridge:
    """A JVM with Kafka's clients.

    Args:
        argv: The command line that starts the JVM, from `harness/java_client.py`.
        quiet: Whether to drop the output of the JVM.
    """

    def __init__(self, argv: Sequence[str], *, quiet: bool = False) -> None:
        self._numbers = count(1)
        self._seats: dict[int, Seat] = {}
        self._lock, self._ended = threading.Lock(), False
        self._writing = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603 - a Java and a program of our own
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            bufsize=0,
        )
        threading.Thread(target=self._listen, name="bridge", daemon=True).start()

    def open(self, role: Role, plans: Settings, own: Settings) -> Seat:
        """Create a client. If Kafka refuses the client, the worker's log has the client's message.

        Args:
            role: The kind of client.
            plans: Settings that the plan determines.
            own: The user's settings. The client ignores settings that it does not know.
        """
        seat = self._seated()
        seat.tell(Ask.OPEN, bytes([role]) + settings(plans) + settings(own))
        return seat

    def check(self, role: Role, plans: Settings, own: Settings) -> frozenset[str]:
        """Create a client and drop it; return the names of the settings that such clients know.

        Raises:
            AskedError: The client refuses the settings.
        """
        seat = self._seated()
        seat.ask(Ask.CHECK, bytes([role]) + settings(plans) + settings(own))
        known = frozenset(told_texts(seat.ask(Ask.KNOWN).body))
        seat.close()
        return known

    def write(self, whole: bytes) -> None:
        """Write a frame to the JVM.

        Raises:
            BridgeError: The JVM has ended.
        """
        pipe = self._process.stdin
        assert pipe is not None
        left = memoryview(whole)
        try:
            with self._writing:
                while left:
                    left = left[pipe.write(left) or 0 :]
        except (BrokenPipeError, ValueError) as gone:
            raise BridgeError("the Java client's process exited by itself") from gone

    def dismiss(self, number: int) -> None:
        """Forget a client. Frames from this client are no longer delivered."""
        with self._lock:
            self._seats.pop(number, None)

    def close(self) -> None:
        """End the JVM."""
        pipe = self._process.stdin
        assert pipe is not None
        with self._writing:
            pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _seated(self) -> Seat:
        with self._lock:
            number = next(self._numbers)
            seat = self._seats[number] = Seat(self, number)
            if self._ended:
                seat.take(Told(Tell.GONE))
        return seat

    def _listen(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        unread = bytearray()
        with pipe:
            while data := pipe.read(_READ_BYTES):
                unread += data
                frames, length = unframed(unread)
                del unread[:length]
                for number, told in frames:
                    seat = self._seats.get(number)
                    if seat is not None:
                        seat.take(told)
        with self._lock:
            self._ended = True
            for seat in self._seats.values():
                seat.take(Told(Tell.GONE))


def spoken(seat: Seat, event: Told, listen: Callable[[Told], None]) -> None:
    """Pass a frame to a listener. The client waits for the listener; then let it continue."""
    try:
        listen(event)
    finally:
        if event.kind is not Tell.ENDED:
            seat.tell(Ask.RESUME)


def limited(timeout_s: float) -> bytes:
    """Return a timeout in milliseconds, as frames encode it."""
    return integer(round(timeout_s * 1000))
