"""The numbers (values) of messages, unique in a run: `value = (n << 32) | sequence`.

The number n is the index of a topic-partition in the plan, from 1. So a value shows the partition
to which the message was sent. Workers use disjoint ranges of sequence numbers. In a message, the
value is the first 8 bytes of the payload, big-endian.
"""

import struct

SEQUENCE_BITS = 32
_VALUE = struct.Struct(">Q")
VALUE_BYTES = _VALUE.size


def pack_value(partition_number: int, sequence: int) -> int:
    """Return the message value for a sequence number in the n-th topic-partition (n from 1)."""
    return partition_number << SEQUENCE_BITS | sequence


def partition_number_of(value: int) -> int:
    """Return the number, from 1, of the topic-partition to which a message value was sent."""
    return value >> SEQUENCE_BITS


def encode_payload(value: int, size_bytes: int) -> bytes:
    """Return a message payload of the given size that starts with the value."""
    return _VALUE.pack(value).ljust(size_bytes, b"\0")


def decode_payload(payload: bytes | None) -> int | None:
    """Return the message value at the start of a payload, or None if the payload is too short."""
    if payload is None or len(payload) < VALUE_BYTES:
        return None
    return int(_VALUE.unpack_from(payload)[0])
