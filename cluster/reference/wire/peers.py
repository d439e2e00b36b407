"""What nodes of one cluster send each other: our own messages, as MessagePack.

Kafka's schemas would carry nothing more between nodes of one version, and cost ten times as much.
A connection of a node begins with `HELLO`, whose first byte no request of Kafka's can begin with
(its length would be negative), and its node id. Then come frames: a number, which message, and the
message; an answer has its request's number. Messages are checked against their classes when they
are read, so that a stranger's bytes cannot bring in anything else.
"""

import struct
from dataclasses import is_dataclass
from types import ModuleType

from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder, Encoder

from cluster.reference.messages import clients, control, data, quorum

HELLO = b"\xffLOGQUAKE\x01"
"""The last byte counts versions of this encoding."""
HELLO_SIZE = len(HELLO) + 4
NOTHING = 0
"""Instead of a message: an answer that could not be given."""
_HEAD = struct.Struct(">QH")


class PeerError(Exception):
    """What came over a connection of a node is no message of ours."""


def _messages(module: ModuleType) -> list[type]:
    return [
        each
        for name, each in sorted(vars(module).items())
        if isinstance(each, type) and each.__module__ == module.__name__
        if is_dataclass(each) or issubclass(each, Struct)
        if name.endswith(("Request", "Response"))
    ]


_KINDS = [kind for module in (data, quorum, control, clients) for kind in _messages(module)]
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS, start=1)}
_DECODERS: dict[int, Decoder[object]] = {}
_ENCODER = Encoder()


def hello(node: int) -> bytes:
    """Return what a node says first on a connection."""
    return HELLO + struct.pack(">i", node)


def greeted(data: bytes) -> int:
    """Return which node said hello.

    Raises:
        PeerError: It is none, or speaks another version.
    """
    if not data.startswith(HELLO):
        raise PeerError("a node of another version, or no node at all")
    (node,) = struct.unpack_from(">i", data, len(HELLO))
    return int(node)


def packed(number: int, message: object | None) -> bytes:
    """Return a message as the payload of a frame."""
    if message is None:
        return _HEAD.pack(number, NOTHING)
    return _HEAD.pack(number, _NUMBERS[type(message)]) + _ENCODER.encode(message)


def unpacked(payload: bytes) -> tuple[int, object | None]:
    """Return a frame's number and its message.

    Raises:
        PeerError: It is no message of ours.
    """
    try:
        number, kind = _HEAD.unpack_from(payload)
        if kind == NOTHING:
            return number, None
        return number, _decoder(kind).decode(memoryview(payload)[_HEAD.size :])
    except (struct.error, IndexError, ValueError, MsgspecError) as malformed:
        raise PeerError(f"no message of a node: {malformed}") from malformed


def _decoder(kind: int) -> Decoder[object]:
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = Decoder(_KINDS[kind - 1])
    return decoder
