"""Split a stream of bytes into frames: a length in four bytes, then the payload.

https://kafka.apache.org/protocol#protocol_common
"""

import struct
from collections.abc import Iterable, Iterator

LARGEST_FRAME = 104_857_600
"""The default of Kafka's `socket.request.max.bytes`."""
_LENGTH = struct.Struct(">i")


class FrameError(Exception):
    """The bytes are not a valid frame, so the connection cannot be read any further."""


class Frames:
    """The received bytes of one connection that are not a complete frame yet."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def __len__(self) -> int:
        """Return the number of waiting bytes of an incomplete frame."""
        return len(self._bytes)

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Add bytes; return the frames that are now complete, without their lengths.

        Raises:
            FrameError: A length is negative, or larger than the limit.
        """
        if not self._bytes and int.from_bytes(data[: _LENGTH.size]) + _LENGTH.size == len(data):
            return (data[_LENGTH.size :],)  # Exactly one frame, the usual case.
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
    """Return a payload with its length in front."""
    return _LENGTH.pack(len(payload)) + payload
