"""Cuts a stream of bytes into frames: four bytes of length, then as many bytes.

https://kafka.apache.org/protocol#protocol_common
"""

import struct
from collections.abc import Iterable, Iterator

LARGEST_FRAME = 104_857_600
"""The default of Kafka's `socket.request.max.bytes`."""
_LENGTH = struct.Struct(">i")


class FrameError(Exception):
    """What came is no frame; the connection cannot be read any further."""


class Frames:
    """Bytes of one connection, until they are whole frames."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def __len__(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._bytes)

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Take bytes, and give the frames that they end, without their lengths.

        Raises:
            FrameError: A length is negative, or larger than a server takes.
        """
        if not self._bytes and int.from_bytes(data[: _LENGTH.size]) + _LENGTH.size == len(data):
            return (data[_LENGTH.size :],)  # One frame and nothing else, as mostly.
        return self._cut(data)

    def _cut(self, data: bytes) -> Iterator[bytes]:
        self._bytes += data
        held, at = self._bytes, 0
        while len(held) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(held, at)
            if not 0 <= length <= LARGEST_FRAME:
                raise FrameError(f"a frame of {length} bytes was announced")
            end = at + _LENGTH.size + length
            if len(held) < end:
                break
            frame = bytes(memoryview(held)[at + _LENGTH.size : end])
            at = end
            yield frame
        if at:
            del held[:at]


def framed(payload: bytes) -> bytes:
    """Return a payload with its length before it."""
    return _LENGTH.pack(len(payload)) + payload
