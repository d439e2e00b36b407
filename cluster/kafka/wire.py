"""A connection to one broker: it sends a request, and waits a limited time for the response.

Client libraries hide which broker responded, retry at other brokers, and wait long. An observer
must avoid all three. The messages come from the library `kio`, which is generated from Kafka's own
definitions (https://kafka.apache.org/protocol).
"""

import io
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Protocol, TypeVar

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.primitive import i16, i32
from kio.static.protocol import RequestPayload, ResponsePayload

from cluster.protocol import ClusterError
from results.record.clock import stopwatch_s

A = TypeVar("A", bound=ResponsePayload)

CLIENT_ID = "logquake"
_LENGTH = struct.Struct(">i")
MAX_ANSWER_BYTES = 64 << 20
ABSURD_SIZE = 0x7FFF_FFFF
"""An impossible request size: a broker of any version that receives it closes the connection."""


class WireError(ClusterError):
    """A broker did not answer in time or answered incorrectly; the connection is closed."""


class Channel(Protocol):
    """A connection that carries one request at a time to one broker."""

    def is_open(self) -> bool:
        """Return whether the next request can use the open connection."""

    def ask(self, request: RequestPayload, answer: type[A], *, timeout_s: float) -> A:
        """Send a request and return the response; may raise `WireError`."""

    def knock(self, *, timeout_s: float) -> str:
        """Send an invalid request, and wait until the broker closes the connection.

        The broker writes a line with this connection's port to its log. May raise `WireError`.

        Returns:
            The port in this log line.
        """

    def close(self) -> None:
        """Close the connection. Idempotent."""


class Connection:
    """A TCP connection to a broker, which opens at the first request and reopens after failures.

    Only one thread at a time may use it.

    Args:
        host: The broker's address.
        port: The broker's port.
    """

    def __init__(self, host: str, port: int) -> None:
        self._place = (host, port)
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def is_open(self) -> bool:
        """Return whether the next request can use the open connection.

        A connection that the broker has closed, e.g. by a restart, is not open. So no request is
        lost on a dead connection.
        """
        if self._socket is not None and _has_ended(self._socket):
            self.close()
        return self._socket is not None

    def ask(self, request: RequestPayload, answer: type[A], *, timeout_s: float) -> A:
        """Send a request and return the response.

        Args:
            request: A request of any version.
            answer: The response's type, of the same version.
            timeout_s: The time limit in seconds for connecting, sending and receiving together.

        Raises:
            WireError: No complete response came in time.
        """
        if timeout_s <= 0:  # Nothing was sent, so the connection stays usable.
            raise WireError(
                f"no time is left to send {type(request).__name__} to {_text(self._place)}"
            )
        deadline_s = stopwatch_s() + timeout_s
        try:
            return self._exchanged(self._connected(deadline_s), request, answer, deadline_s)
        except WireError:
            self.close()
            raise
        except (OSError, SerialError, ValueError) as failure:
            self.close()
            what = type(request).__name__
            raise WireError(f"{_text(self._place)} did not answer {what}: {failure}") from failure

    def knock(self, *, timeout_s: float) -> str:
        """Open a connection, send an invalid request, and wait until the broker closes it.

        Args:
            timeout_s: The time limit in seconds for the connect, and again for the wait.

        Returns:
            The connection's local port, which the broker writes to its log.

        Raises:
            WireError: The broker cannot be reached, or does not close the connection.
        """
        self.close()
        try:
            with socket.create_connection(self._place, timeout=timeout_s) as line:
                port = int(line.getsockname()[1])
                line.sendall(_LENGTH.pack(ABSURD_SIZE))
                with suppress(ConnectionError):  # A reset is also an end.
                    line.recv(1)
        except OSError as failed:
            raise WireError(
                f"{_text(self._place)} did not answer an invalid request: {failed}"
            ) from failed
        return str(port)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self, deadline_s: float) -> socket.socket:
        remaining_s = _remaining_s(deadline_s)
        if not self.is_open() or self._socket is None:
            self._socket = socket.create_connection(self._place, timeout=remaining_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = self._introduced(self._socket, deadline_s)
        self._socket.settimeout(_remaining_s(deadline_s))
        return self._socket

    def _introduced(self, connected: socket.socket, deadline_s: float) -> socket.socket:  # noqa: ARG002 - others need it
        """Prepare a new connection for requests; secured subclasses do a handshake here."""
        return connected

    def _exchanged(
        self, connected: socket.socket, request: RequestPayload, answer: type[A], deadline_s: float
    ) -> A:
        self._correlation_id += 1
        connected.settimeout(_remaining_s(deadline_s))
        connected.sendall(_encoded(request, self._correlation_id))
        payload = self._received(connected, deadline_s)
        return _decoded(payload, answer, self._correlation_id)

    def _received(self, connected: socket.socket, deadline_s: float) -> bytes:
        (length,) = _LENGTH.unpack(_exactly(connected, _LENGTH.size, deadline_s))
        if not 0 <= length <= MAX_ANSWER_BYTES:
            raise ValueError(f"the peer announced an answer of {length} bytes")
        return _exactly(connected, length, deadline_s)


Dial = Callable[[str, int], Channel]
"""A function that returns a channel to an address and port. The function sends nothing."""
_DIAL: ContextVar[Dial] = ContextVar("dial", default=Connection)


def channel_to(host: str, port: int) -> Channel:
    """Return a channel to a broker. It uses TCP, or in a simulation the simulated links."""
    return _DIAL.get()(host, port)


@contextmanager
def dialling(dial: Dial) -> Iterator[None]:
    """Use another kind of channel in a `with` block, and in all tasks that this block starts."""
    token = _DIAL.set(dial)
    try:
        yield
    finally:
        _DIAL.reset(token)


def _has_ended(connected: socket.socket) -> bool:
    """Return whether the broker closed the connection or sent unexpected data."""
    connected.settimeout(0)
    try:
        connected.recv(1)  # Unexpected data also means that the connection must be closed.
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    return True


def _exactly(connected: socket.socket, size: int, deadline_s: float) -> bytes:
    buffer = bytearray()
    while len(buffer) < size:
        connected.settimeout(_remaining_s(deadline_s))
        piece = connected.recv(min(size - len(buffer), 1 << 20))
        if not piece:
            raise ConnectionResetError("the peer closed the connection")
        buffer += piece
    return bytes(buffer)


def _encoded(request: RequestPayload, correlation_id: int) -> bytes:
    schema = request.__header_schema__
    header = schema(
        request_api_key=request.__api_key__,
        request_api_version=i16(request.__version__),
        correlation_id=i32(correlation_id),
        client_id=CLIENT_ID,
    )
    buffer = io.BytesIO()
    buffer.write(bytes(_LENGTH.size))
    entity_writer(type(header))(buffer, header)
    entity_writer(type(request))(buffer, request)
    message = buffer.getbuffer()
    _LENGTH.pack_into(message, 0, len(message) - _LENGTH.size)
    return bytes(message)


def _decoded(payload: bytes, answer: type[A], correlation_id: int) -> A:
    header, size = entity_reader(answer.__header_schema__)(payload, 0)
    if header.correlation_id != correlation_id:
        raise ValueError(
            f"the answer has the correlation id {header.correlation_id}, but the"
            f" request had {correlation_id}"
        )
    response, _size = entity_reader(answer)(payload, size)
    return response


def _remaining_s(deadline_s: float) -> float:
    remaining_s = deadline_s - stopwatch_s()
    if remaining_s <= 0:
        raise TimeoutError("timed out")
    return remaining_s


def _text(place: tuple[str, int]) -> str:
    return f"{place[0]}:{place[1]}"
