"""Sequence numbers of producers as a correct client gives them and a correct broker takes them."""

from itertools import groupby
from operator import itemgetter
from typing import Any

from tests.broken.record import Record, Row

_LOG = ("snapshot", "topic", "partition", "node")
_NUMBERS = 1 << 31
"""Behind the highest sequence number comes 0."""


def number_anew(record: Record) -> None:
    """Have each producer go on in a new epoch, from 0, where a log lacks one of its numbers.

    A leader refuses a number that does not follow on, and librdkafka begins a new epoch where it
    gives up a message (KIP-360).
    """
    key = itemgetter(*_LOG)

    def place(row: Row) -> tuple[Any, ...]:
        return tuple(str(each) for each in key(row))

    rows = sorted(record.rows("replica_records"), key=lambda row: (place(row), row["offset"]))
    for _, log in groupby(rows, key=place):
        _number_log(
            [row for row in log if row["producer_id"] is not None and row["producer_id"] >= 0]
        )


def _number_log(log: list[Row]) -> None:
    last: dict[int, tuple[int, int]] = {}
    raised: dict[int, tuple[int, int]] = {}
    for row in log:
        producer, epoch, number = row["producer_id"], row["producer_epoch"], row["sequence"]
        by, base = raised.get(producer, (0, 0))
        if number is not None and number >= 0:
            before = last.get(producer)
            if before and before[0] != epoch:
                base = 0
            elif before and (before[1] + 1) % _NUMBERS != number:
                by, base = by + 1, number
            last[producer] = (epoch, number)
            raised[producer] = (by, base)
            row["sequence"] = (number - base) % _NUMBERS
        row["producer_epoch"] = epoch + by
