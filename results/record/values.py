"""Values that are unique in a run: `value = (n << 32) | sequence`.

n counts the plan's topic-partitions in order from 1, so a value tells where it was sent; workers
take disjoint ranges of sequences. On the wire a value is the first 8 bytes of the payload,
big-endian.
"""

import struct

SEQUENCE_BITS = 32
_VALUE = struct.Struct(">Q")
VALUE_BYTES = _VALUE.size


def pack_value(partition_number: int, sequence: int) -> int:
    """Return the value of a sequence number in the n-th topic-partition (n from 1)."""
    return partition_number << SEQUENCE_BITS | sequence


def partition_number_of(value: int) -> int:
    """Return n, counted from 1: which of the plan's topic-partitions the value was sent to."""
    return value >> SEQUENCE_BITS


def encode_payload(value: int, size_bytes: int) -> bytes:
    """Return a message payload of the given size that starts with the value."""
    return _VALUE.pack(value).ljust(size_bytes, b"\0")


def decode_payload(payload: bytes | None) -> int | None:
    """Return the value at the head of a payload, or None if it is too short to hold one."""
    if payload is None or len(payload) < VALUE_BYTES:
        return None
    return int(_VALUE.unpack_from(payload)[0])
