"""The messages between nodes of one cluster: our own message classes, encoded with MessagePack.

All nodes have the same version, so Kafka's schemas would add nothing and cost ten times as much. A
node's connection begins with `HELLO`, the node id and the cluster's key. No Kafka request can begin
with the first byte of `HELLO`, because the request's length would be negative. Nodes trust each
other's messages, so a connection without the key is refused. Then frames follow. Each frame
contains a number, the message's type and the message. A response has the same number as its
request. When messages are read, they are checked against their classes, so that invalid bytes
cannot create other objects.
"""

import struct
from hashlib import sha256
from hmac import compare_digest
from types import ModuleType

from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder, Encoder

from cluster.reference.messages import clients, control, data, quorum

HELLO = b"\xffLOGQUAKE\x02"
"""The first bytes of a node's connection; the last byte is the version of this encoding."""
KEY_SIZE = 32
KEY_FILE = "cluster.key"
"""The file in a log dir that contains the cluster's secret. Only the cluster's nodes know it."""
HELLO_SIZE = len(HELLO) + 4 + KEY_SIZE
NOTHING = 0
"""This number stands in place of a message's type if there is no response."""
_HEAD = struct.Struct(">QH")


class PeerError(Exception):
    """The bytes from a node's connection are not one of our messages."""


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
    """Return a cluster's key, a digest of its public id and its secret."""
    return sha256(f"{cluster_id}/{secret}".encode()).digest()


def hello(node: int, key: bytes) -> bytes:
    """Return the first bytes that a node sends on a connection."""
    return HELLO + struct.pack(">i", node) + key


def greeted(data: bytes, key: bytes) -> int:
    """Return the id of the node that sent these first bytes.

    Raises:
        PeerError: The sender is not a node, has another version, or has another cluster's key.
    """
    if not data.startswith(HELLO):
        raise PeerError("the peer is a node of another version, or not a node")
    (node,) = struct.unpack_from(">i", data, len(HELLO))
    if not compare_digest(data[-KEY_SIZE:], key):
        raise PeerError(
            f"the peer that claims to be node {node} does not have this cluster's {KEY_FILE}"
        )
    return int(node)


def packed(number: int, message: object | None) -> bytes:
    """Return a message as the payload of a frame."""
    if message is None:
        return _HEAD.pack(number, NOTHING)
    return _HEAD.pack(number, _NUMBERS[type(message)]) + _ENCODER.encode(message)


def unpacked(payload: bytes) -> tuple[int, object | None]:
    """Return a frame's number and its message.

    Raises:
        PeerError: The payload is not one of our messages.
    """
    try:
        number, kind = _HEAD.unpack_from(payload)
        if kind == NOTHING:
            return number, None
        return number, _decoder(kind).decode(memoryview(payload)[_HEAD.size :])
    except (struct.error, IndexError, ValueError, MsgspecError) as malformed:
        raise PeerError(f"this is not a message of a node: {malformed}") from malformed


def _decoder(kind: int) -> Decoder[object]:
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = Decoder(_KINDS[kind - 1])
    return decoder
