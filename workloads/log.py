"""The log workload: unique values are sent to partitions, and read again by assigned consumers.

Every process sends and reads. Each thread always reads its own share of the partitions, so that all
are covered, and some more that are dealt anew at each assignment. The times of crashes and of new
assignments are drawn, so that they come as often at any rate.
"""

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np

from results.record.clock import NS_PER_S
from results.record.plan import Plan
from results.record.values import SEQUENCE_BITS, pack_value
from workloads.protocol import Assign, Crash, Key, Observed, Op, Poll, Reservation, Send

BLOCK = 1 << 17
"""Sequences that are reserved at once; more than the most sends of one op (100,000)."""
MEAN_CRASH_S = 8.0
MEAN_REASSIGN_S = 3.0
SEND_SHARE = 0.5
EXTRA_PARTITIONS = 2
POLL_LIMIT = 2000
READ_AGAIN_LIMIT = 5000
"""A reader may start a partition over as long as not more records than this were read of it."""
START_OVER_SHARE = 0.5
START_OVER_FAR_SHARE = 0.125


class LogGenerator:
    """The ops of one worker's processes.

    Args:
        plan: Its seed, topics, partitions, concurrency and sends of an op.
        worker: The worker's number; it decides the random stream and the ranges of values.
        workers: How many workers share the sequences.
    """

    def __init__(self, plan: Plan, *, worker: int, workers: int) -> None:
        self._random = Random(f"{plan.seed}/workload/{worker}")
        self._sends_per_op = plan.sends_per_op
        self._concurrency = plan.concurrency
        self._keys: Sequence[Key] = plan.topic_partitions
        self._numbers = {key: number for number, key in enumerate(self._keys, start=1)}
        threads = len(range(worker, plan.concurrency, workers))
        # Partitions without a leader must not hold up every process of a paced worker: those that
        # are left go on with the others, and read.
        self._most_in_flight = threads if plan.rate == 0 else max(1, threads // 4)
        self._most_sending = threads if plan.rate == 0 else max(1, threads - threads // 4)
        self._ranges = {
            number: _Range(worker=worker, workers=workers) for number in self._numbers.values()
        }
        self._furthest: dict[Key, int] = {}
        self._crash_ns = self._drawn_ns(0, MEAN_CRASH_S)
        self._reassign_ns = self._drawn_ns(0, MEAN_REASSIGN_S)

    def next_op(self, observed: Observed) -> Op:
        """Return an assign for a new process, else what is due: crash, assign, send or poll."""
        for key, position in observed.positions.items():
            self._furthest[key] = max(position, self._furthest.get(key, 0))
        if not observed.assigned:
            return self._assign(observed, kept=())
        if observed.now_ns >= self._crash_ns:
            self._crash_ns = self._drawn_ns(observed.now_ns, MEAN_CRASH_S)
            return Crash()
        if observed.now_ns >= self._reassign_ns:
            self._reassign_ns = self._drawn_ns(observed.now_ns, MEAN_REASSIGN_S)
            return self._assign(observed, kept=observed.positions)
        send = self._random.random() < SEND_SHARE
        return (self._send(observed.in_flight) if send else None) or Poll(limit=POLL_LIMIT)

    def _drawn_ns(self, now_ns: int, mean_s: float) -> int:
        return now_ns + round(self._random.expovariate(1 / mean_s) * NS_PER_S)

    def _send(self, in_flight: Mapping[Key, int]) -> Send | None:
        if sum(in_flight.values()) >= self._most_sending:
            return None
        open_keys = [key for key in self._keys if in_flight.get(key, 0) < self._most_in_flight]
        if not open_keys:
            return None
        key = self._random.choice(open_keys)
        number = self._numbers[key]
        first, reserved = self._ranges[number].take(self._sends_per_op)
        start = pack_value(number, first)
        return Send(
            key=key,
            values=np.arange(start, start + self._sends_per_op, dtype=np.int64),
            reserved=_packed(number, reserved),
        )

    def _assign(self, observed: Observed, *, kept: Sequence[Key] | Mapping[Key, int]) -> Assign:
        keys = self.share_of(observed.thread)
        extras = min(EXTRA_PARTITIONS, len(self._keys))
        keys += [key for key in self._random.sample(self._keys, extras) if key not in keys]
        return Assign(starts={key: self._start(key, observed, kept=key in kept) for key in keys})

    def share_of(self, thread: int) -> list[Key]:
        """Return the partitions that a thread always reads; over all threads: every partition."""
        own = {thread % len(self._keys), *range(thread, len(self._keys), self._concurrency)}
        return [self._keys[index] for index in sorted(own)]

    def _start(self, key: Key, observed: Observed, *, kept: bool) -> int | None:
        """Where to read on: a kept partition goes on, another may start over while that is cheap.

        What was read before must be read again alike, so starting over is worth its cost.
        """
        known = observed.positions.get(key)
        if kept and known is not None:
            return known
        furthest = self._furthest.get(key, 0)
        if furthest <= READ_AGAIN_LIMIT:
            return None if self._random.random() < START_OVER_SHARE else known
        if known is not None:
            return known
        # After an error the thread knows nothing, and the end may have been truncated far back.
        start_over = self._random.random() < START_OVER_FAR_SHARE
        return None if start_over else furthest - READ_AGAIN_LIMIT


class _Range:
    """The sequences of one partition that one worker may use: every `workers`-th block."""

    def __init__(self, *, worker: int, workers: int) -> None:
        self._block = worker - workers
        self._workers = workers
        self._next = self._end = 0

    def take(self, count: int) -> tuple[int, tuple[int, int] | None]:
        """Return the first of `count` sequences, and the block that was opened for them."""
        opened = None
        if self._next + count > self._end:
            self._block += self._workers
            self._next, self._end = self._block * BLOCK, (self._block + 1) * BLOCK
            if self._end > 1 << SEQUENCE_BITS:
                raise OverflowError("a partition's sequences are used up: shorten the run")
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
