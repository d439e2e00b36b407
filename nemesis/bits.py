"""Flip one bit in a segment file, check the damage, and flip the bit back (also after a crash)."""

from cluster.protocol import Batch, ClusterError, Disk, Logs
from nemesis.undo import FlipBack

HEADER_BYTES = 61
"""The size of a record batch's header (https://kafka.apache.org/documentation/#recordbatch)."""
_PREFIX_BYTES = 12
_LENGTH_AT = 8
_MAX_BYTES = 64 << 20
"""The largest plausible size of a batch. A damaged length field may claim up to 4 GiB."""


def turn_over(disk: Disk, flip: FlipBack, logs: Logs) -> str:
    """Flip a bit of an intact batch, and return the error that a reader then reports.

    Raises:
        ClusterError: The batch no longer exists, or was already damaged, or still matches its CRC
            after the flip.
    """
    before = _bytes_at(disk, flip)
    if before is None or _sound(before, logs) is None:
        raise ClusterError(
            f"the batch at offset {flip.base_offset} of {flip.segment} no longer exists, or was"
            " already damaged"
        )
    _write(disk, flip, before)
    said = logs.read(disk.read(flip.segment)).damage
    found = [each for each in said if f"the batch at byte {flip.position} " in each]
    if not found:
        raise ClusterError(f"after a bit flip in {flip.segment}, the batch still matches its CRC")
    return found[0]


def put_right(disk: Disk, flip: FlipBack, logs: Logs) -> bool:
    """Flip the bit back if it is still flipped. Return False if the batch is intact or deleted.

    Raises:
        ClusterError: The batch has other damage as well.
    """
    now = _bytes_at(disk, flip)
    if now is None or _sound(now, logs) is not None:
        return False
    if _sound(_turned(now, flip), logs) is None:
        raise ClusterError(
            f"the batch at byte {flip.position} of {flip.segment} does not match its CRC, even"
            " with the bit flipped back: it has other damage"
        )
    _write(disk, flip, now)
    return True


def _bytes_at(disk: Disk, flip: FlipBack) -> bytes | None:
    """Return the bytes of the batch that contains the bit.

    Return None if the file no longer has a batch with this offset and this byte.
    """
    try:
        prefix = disk.read(flip.segment, at=flip.position, size=_PREFIX_BYTES)
        if len(prefix) < _PREFIX_BYTES:
            return None
        size = int.from_bytes(prefix[_LENGTH_AT:], "big") + _PREFIX_BYTES
        offset = int.from_bytes(prefix[:_LENGTH_AT], "big")
        if offset != flip.base_offset or size > _MAX_BYTES:
            return None
        data = disk.read(flip.segment, at=flip.position, size=size)
    except FileNotFoundError:
        return None
    return data if 0 <= flip.byte - flip.position < size == len(data) else None


def _sound(data: bytes, logs: Logs) -> Batch | None:
    return next(iter(logs.read(data).batches), None)


def _turned(data: bytes, flip: FlipBack) -> bytes:
    at = flip.byte - flip.position
    return data[:at] + bytes([data[at] ^ 1 << flip.bit]) + data[at + 1 :]


def _write(disk: Disk, flip: FlipBack, data: bytes) -> None:
    """Flip the bit, and write the changed byte."""
    at = flip.byte - flip.position
    disk.write(flip.segment, _turned(data, flip)[at : at + 1], at=flip.byte)
