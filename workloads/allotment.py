"""Message numbers (values) for each worker, in ranges that no other worker uses."""

import numpy as np

from results.record.plan import Plan
from results.record.values import SEQUENCE_BITS, pack_value
from workloads.protocol import Key, Reservation, Send

BLOCK = 1 << 17
"""The number of sequence numbers in one reservation. An op needs fewer (at most 100,000)."""


class Allotment:
    """The unused values of one worker for each partition.

    Args:
        plan: The plan, with the topics, the partitions, and the number of values in a send.
        worker: The worker's number.
        workers: The number of workers that share the sequence numbers.
    """

    def __init__(self, plan: Plan, *, worker: int, workers: int) -> None:
        self._count = plan.sends_per_op
        self._numbers = {key: n for n, key in enumerate(plan.topic_partitions, start=1)}
        self._ranges = {key: _Range(worker=worker, workers=workers) for key in self._numbers}

    def send_to(self, key: Key, count: int | None = None) -> Send:
        """Return a send to a partition, with values that were never used.

        Args:
            key: The partition.
            count: The number of values. None means the number in the plan.
        """
        number, count = self._numbers[key], count or self._count
        first, block = self._ranges[key].take(count)
        start = pack_value(number, first)
        return Send(
            key=key,
            values=np.arange(start, start + count, dtype=np.int64),
            reserved=_packed(number, block),
        )


class _Range:
    """The sequence numbers of one partition for one worker. Workers take blocks in turn."""

    def __init__(self, *, worker: int, workers: int) -> None:
        self._block = worker - workers
        self._workers = workers
        self._next = self._end = 0

    def take(self, count: int) -> tuple[int, tuple[int, int] | None]:
        """Return the first of `count` sequence numbers, and the new block if one was needed."""
        opened = None
        if self._next + count > self._end:
            self._block += self._workers
            self._next, self._end = self._block * BLOCK, (self._block + 1) * BLOCK
            if self._end > 1 << SEQUENCE_BITS:
                raise OverflowError(
                    "all sequence numbers of a partition are used: use a shorter run"
                )
            opened = (self._next, self._end)
        first = self._next
        self._next += count
        return first, opened


def _packed(number: int, block: tuple[int, int] | None) -> Reservation | None:
    if block is None:
        return None
    return Reservation(
        value_from=pack_value(number, block[0]), value_to=pack_value(number, block[1] - 1) + 1
    )
