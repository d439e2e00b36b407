"""What nodes of one cluster send each other: our own messages, as MessagePack.

Kafka's schemas would carry nothing more between nodes of one version, and cost ten times as much.
A connection of a node begins with `HELLO`, whose first byte no request of Kafka's can begin with
(its length would be negative), its node id, and the cluster's key: what nodes say is believed, so
that whoever is none must not be heard. Then come frames: a number, which message, and the
message; an answer has its request's number. Messages are checked against their classes when they
are read, so that a stranger's bytes cannot bring in anything else.
"""

import struct
from hashlib import sha256
from hmac import compare_digest
from types import ModuleType

from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder, Encoder

from cluster.reference.messages import clients, control, data, quorum

HELLO = b"\xffLOGQUAKE\x02"
"""The last byte counts versions of this encoding."""
KEY_SIZE = 32
KEY_FILE = "cluster.key"
"""The file of a log dir with what only the nodes of a cluster know."""
HELLO_SIZE = len(HELLO) + 4 + KEY_SIZE
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
        if issubclass(each, Struct) and name.endswith(("Request", "Response"))
    ]


_KINDS = [kind for module in (data, quorum, control, clients) for kind in _messages(module)]
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS, start=1)}
_DECODERS: dict[int, Decoder[object]] = {}
_ENCODER = Encoder()


def key_of(cluster_id: str, secret: str) -> bytes:
    """Return the key of a cluster, by its id, which everybody may know, and its secret."""
    return sha256(f"{cluster_id}/{secret}".encode()).digest()


def hello(node: int, key: bytes) -> bytes:
    """Return what a node says first on a connection."""
    return HELLO + struct.pack(">i", node) + key


def greeted(data: bytes, key: bytes) -> int:
    """Return which node said hello.

    Raises:
        PeerError: It is none, or speaks another version, or is one of another cluster.
    """
    if not data.startswith(HELLO):
        raise PeerError("a node of another version, or no node at all")
    (node,) = struct.unpack_from(">i", data, len(HELLO))
    if not compare_digest(data[-KEY_SIZE:], key):
        raise PeerError(f"who calls itself node {node} has not this cluster's {KEY_FILE}")
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
