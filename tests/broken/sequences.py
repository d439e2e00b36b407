"""Sequence numbers of idempotent producers, as a correct client goes on with them.

A leader refuses a number that does not follow on. So a message that was given up, or that brokers
lost, leaves no gap: its client drains what is under way and goes on in a new producer epoch, from 0
in each partition (KIP-360). A message that was never sent took no number.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from tests.broken.corpus import Spot
from tests.broken.record import Record, Row

_NUMBERS = 1 << 31
"""Behind the highest sequence number comes 0."""
_SESSION = ("topic", "partition", "node", "producer_id", "producer_epoch")


def next_epoch(record: Record, producer: int, *, behind: Spot, since_ns: int) -> None:
    """Have a producer begin a new epoch, from 0 in each partition.

    Args:
        record: The run.
        producer: Its id.
        behind: Where the epoch begins in one partition: at this offset, or behind it.
        since_ns: In all others it begins with what was sent at this time or later.
    """
    sent_ns = {row["value"]: row["invoke_ns"] for row in record.rows("sends")}
    rows = record.rows("replica_records", producer_id=producer, control=False)
    starts: dict[Any, int] = {}
    for row in rows:
        if sent_ns.get(row["value"], -1) >= since_ns:
            place = row["topic"], row["partition"]
            starts[place] = min(row["offset"], starts.get(place, row["offset"]))
    starts[behind.topic, behind.partition] = behind.offset
    later = defaultdict[Any, list[Row]](list)
    for row in rows:
        if row["offset"] >= starts.get((row["topic"], row["partition"]), 1 << 62):
            later[_session(row)].append(row)
    for epoch in later.values():
        first = min(epoch, key=lambda row: int(row["offset"]))["sequence"]
        for row in epoch:
            row["sequence"] = (row["sequence"] - first) % _NUMBERS
            row["producer_epoch"] += 1


def close_gaps(record: Record, gone: Collection[Row]) -> None:
    """Have no number be taken by records of `replica_records` that were never sent."""
    numbers = defaultdict[Any, list[int]](list)
    for row in gone:
        numbers[_session(row)].append(row["sequence"])
    for row in record.rows("replica_records", control=False):
        row["sequence"] -= sum(each < row["sequence"] for each in numbers.get(_session(row), ()))


def _session(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SESSION)
