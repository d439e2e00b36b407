"""The JVM of a worker: started, asked, and gone with its worker.

Its standard input is a pipe of this process. However this one ends, the pipe ends with it, and the
JVM then ends by itself.
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
"""For what never waits for a broker as long: nothing comes after it but the worker's end."""
_END_S = 5.0


class BridgeError(UnreachableError):
    """The JVM has ended, or does not answer, in one sentence: the worker cannot go on."""


class AskedError(Exception):
    """A client refused; its only argument is the error as the record has it."""


class Seat:
    """One client of Kafka in the JVM; one thread at a time uses it.

    Args:
        bridge: The JVM.
        number: Of the seat.
    """

    def __init__(self, bridge: "Bridge", number: int) -> None:
        self._bridge, self._number = bridge, number
        self._inbox: SimpleQueue[Told] = SimpleQueue()
        self.take = self._inbox.put
        """Takes a frame of the JVM."""

    def ask(
        self,
        kind: Ask,
        body: bytes = b"",
        *,
        limit_s: float = ASK_LIMIT_S,
        on_event: Callable[[Told], None] | None = None,
    ) -> Told:
        """Ask, and return the reply.

        Args:
            kind: What for.
            body: The frame's.
            limit_s: How long to wait.
            on_event: Takes what is told meanwhile, and may ask, too.

        Raises:
            AskedError: The client refused.
            TimeoutError: There was no reply in time; the seat cannot be asked again.
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
        """Ask for what has no reply, or one that `next` returns."""
        self._bridge.write(frame(self._number, kind, body))

    def next(self, timeout_s: float) -> Told | None:
        """Return what is told next, None if nothing is in time.

        Raises:
            BridgeError: The JVM has ended.
        """
        try:
            told = self._inbox.get(block=timeout_s > 0, timeout=timeout_s or None)
        except Empty:
            return None
        if told.kind is Tell.GONE:
            self._inbox.put(told)  # Whoever asks next is told, too.
            raise BridgeError("the Java client's process ended by itself")
        return told

    def all(self, timeout_s: float) -> Iterator[Told]:
        """Yield what is told: wait for the first at most that long, and for no other."""
        while (told := self.next(timeout_s)) is not None:
            yield told
            timeout_s = 0

    def close(self, how: Ending = Ending.LEAVE) -> None:
        """End the client; nobody waits for it, and the seat cannot be asked again."""
        self._bridge.dismiss(self._number)
        self.tell(Ask.CLOSE, bytes([how]))


_EVENTS = frozenset({Tell.GIVEN, Tell.TAKEN, Tell.ENDED, Tell.SENT})


class Bridge:
    """A JVM with Kafka's client.

    Args:
        argv: Starts it; `harness/java_client.py` makes it.
        quiet: Whether what it says of itself is for nobody.
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
        """Make a client; what it refuses is in its own words in the worker's log.

        Args:
            role: Its kind.
            plans: Settings that the plan decides.
            own: The user's, of which it takes those that it knows.
        """
        seat = self._seated()
        seat.tell(Ask.OPEN, bytes([role]) + settings(plans) + settings(own))
        return seat

    def check(self, role: Role, plans: Settings, own: Settings) -> frozenset[str]:
        """Make a client, and throw it away; return the names of settings that its kind knows.

        Raises:
            AskedError: It refuses the settings.
        """
        seat = self._seated()
        seat.ask(Ask.CHECK, bytes([role]) + settings(plans) + settings(own))
        known = frozenset(told_texts(seat.ask(Ask.KNOWN).body))
        seat.close()
        return known

    def write(self, whole: bytes) -> None:
        """Hand over a frame.

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
            raise BridgeError("the Java client's process ended by itself") from gone

    def dismiss(self, number: int) -> None:
        """Forget a seat: nobody listens to it any more."""
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
    """Hand an event on, and let a client that waits for it go on."""
    try:
        listen(event)
    finally:
        if event.kind is not Tell.ENDED:
            seat.tell(Ask.RESUME)


def limited(timeout_s: float) -> bytes:
    """Return a limit in milliseconds, as frames have it."""
    return integer(round(timeout_s * 1000))
