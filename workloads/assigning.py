"""Choose the partitions that a thread reads, and the offsets from which it reads them.

Partitions are assigned manually, without a consumer group, and change from time to time.
"""

from collections.abc import Mapping, Sequence
from random import Random

from results.record.loads import Load
from results.record.plan import Plan
from workloads.protocol import Assign, Key, Observed

EXTRA_PARTITIONS = 2
READ_AGAIN_LIMIT = 5000
"""A partition may be read again from the start if it has at most this many records."""
START_OVER_SHARE = 0.5
START_OVER_FAR_SHARE = 0.125
HEAVY_EXTRA_SHARE = 0.25
"""Under heavy load, the share of assignments with a partition that is not the thread's own."""
HEAVY_AGAIN_SHARE = 0.25
"""Under heavy load, the share of records that may be read again, among all records read so far."""


class Assigner:
    """Assigns partitions to the threads of a worker.

    Each thread always reads its own share of the partitions, so that every partition is read. A
    thread also reads some other partitions, which change with each assignment. Under heavy load a
    thread reads few other partitions, and only a limited number of records again. So the threads
    read about as many records as were sent.

    Args:
        plan: The plan, with the topics, the partitions and the concurrency.
        random: The workload's random source.
    """

    def __init__(self, plan: Plan, random: Random) -> None:
        self._random = random
        self._concurrency = plan.concurrency
        self._keys: Sequence[Key] = plan.topic_partitions
        self._furthest: dict[Key, int] = {}
        self._heavy = plan.load is Load.HEAVY
        self._again = 0

    def note(self, positions: Mapping[Key, int]) -> None:
        """Record, for each partition, the offset up to which the partition was read."""
        for key, position in positions.items():
            self._furthest[key] = max(position, self._furthest.get(key, 0))

    def assign(self, observed: Observed, *, kept: Sequence[Key] | Mapping[Key, int]) -> Assign:
        """Return a thread's next assignment: the thread's own partitions, and some more partitions.

        If the thread keeps a partition, it continues where it stopped reading this partition.
        """
        keys = self.share_of(observed.thread)
        keys += [key for key in self._extras() if key not in keys]
        return Assign(starts={key: self._start(key, observed, kept=key in kept) for key in keys})

    def share_of(self, thread: int) -> list[Key]:
        """Return the partitions that a thread always reads.

        Together, the threads read all partitions.
        """
        own = {thread % len(self._keys), *range(thread, len(self._keys), self._concurrency)}
        return [self._keys[index] for index in sorted(own)]

    def _extras(self) -> Sequence[Key]:
        if not self._heavy:
            return self._random.sample(self._keys, min(EXTRA_PARTITIONS, len(self._keys)))
        # Use only partitions with a known position. Another partition may have very many records.
        known = sorted(self._furthest)
        more = known and self._random.random() < HEAVY_EXTRA_SHARE
        return [self._random.choice(known)] if more else []

    def _start(self, key: Key, observed: Observed, *, kept: bool) -> int | None:
        """Return the offset from which to read a partition, or None for the partition's start.

        If the thread keeps a partition, it continues where it was. Otherwise, if the partition is
        still short, the thread may read it again from the start. A second read is useful, because
        it must return the same records.
        """
        known = observed.positions.get(key)
        if kept and known is not None:
            return known
        furthest = self._furthest.get(key, 0)
        if self._heavy:
            return self._start_under_load(known, furthest)
        if furthest <= READ_AGAIN_LIMIT:
            return None if self._random.random() < START_OVER_SHARE else known
        if known is not None:
            return known
        # After an error the position is unknown, and the log may have been truncated far back.
        start_over = self._random.random() < START_OVER_FAR_SHARE
        return None if start_over else furthest - READ_AGAIN_LIMIT

    def _start_under_load(self, known: int | None, furthest: int) -> int | None:
        """For heavy load: return an offset near the end, and only seldom None (the start)."""
        most = HEAVY_AGAIN_SHARE * sum(self._furthest.values())
        if self._again + furthest <= max(READ_AGAIN_LIMIT, most):
            self._again += furthest
            return None
        return known if known is not None else max(0, furthest - READ_AGAIN_LIMIT)
