"""Find the partition whose leader coordinates a group or a transactional id."""

import struct
from collections.abc import Collection
from operator import mul

from cluster.protocol import CoordinatorKind

KEPT_IN = {
    CoordinatorKind.GROUP: "__consumer_offsets",
    CoordinatorKind.TRANSACTION: "__transaction_state",
    CoordinatorKind.SHARE: "__share_group_state",
}
"""The internal topic of each kind of coordinator.

The leader of each partition of this topic coordinates the ids that the partition stores.
"""
_POWERS = [1]
"""Cached powers of 31. They make the hash of a long name fast to compute."""
_SIGN = 0x8000_0000


def key_partition(key: str, count: int) -> int:
    """Return the index of the partition that stores a group or transactional id.

    The formula is Kafka's: `Utils.abs(key.hashCode()) % count`. Kafka's `abs` returns 0 for the
    smallest integer.

    Args:
        key: The group id or transactional id.
        count: The number of partitions of the internal topic.
    """
    coded = key.encode("utf-16-be")
    units = struct.unpack(f">{len(coded) // 2}H", coded)
    while len(_POWERS) < len(units):
        _POWERS.append(31 * _POWERS[-1] & 0xFFFF_FFFF)
    number: int = sum(map(mul, reversed(units), _POWERS)) & 0xFFFF_FFFF
    if number == _SIGN:
        return 0
    return (number if number < _SIGN else 2 * _SIGN - number) % count


def kept_in(
    kind: CoordinatorKind, key: str, known: Collection[tuple[str, int]]
) -> tuple[str, int] | None:
    """Return the partition of an internal topic that stores a group or transactional id.

    Kafka spreads the state of a share group over several partitions, by topic id.
    Topic ids are not known in advance, so this function always returns the same partition for a
    share group.

    Args:
        kind: The kind of coordinator.
        key: The group id or transactional id.
        known: All partitions of the cluster, as (topic, partition).

    Returns:
        The topic and partition, or None if the internal topic does not exist yet.
    """
    topic = KEPT_IN[kind]
    count = sum(1 for each, _ in known if each == topic)
    return (topic, key_partition(key, count)) if count else None
