"""Where coordinators keep what they coordinate: partitions of Kafka's internal topics. Pure."""

import struct
from collections.abc import Collection
from operator import mul

from cluster.protocol import CoordinatorKind

KEPT_IN = {
    CoordinatorKind.GROUP: "__consumer_offsets",
    CoordinatorKind.TRANSACTION: "__transaction_state",
    CoordinatorKind.SHARE: "__share_group_state",
}
"""The topic of each kind; the leader of a partition of it coordinates what the partition keeps."""
_POWERS = [1]
"""Of 31, as far as names have needed them: of a long name a loop would take milliseconds."""
_SIGN = 0x8000_0000


def key_partition(key: str, count: int) -> int:
    """Return which of so many partitions keeps a group, or a transactional id.

    `Utils.abs(key.hashCode()) % count`, as Kafka's coordinators have it; of the smallest number
    Kafka's `abs` is 0.
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
    """Return the partition of an internal topic that keeps a group, or a transactional id.

    The state of a share group is spread over the partitions of its topic, by the ids of the topics
    that it reads, which nobody knows beforehand: of these partitions one, always the same.

    Args:
        kind: Which of them.
        key: Its name.
        known: The partitions of the cluster.

    Returns:
        None: there is no such topic yet.
    """
    topic = KEPT_IN[kind]
    count = sum(1 for each, _ in known if each == topic)
    return (topic, key_partition(key, count)) if count else None
