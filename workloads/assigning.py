"""Which partitions a thread reads, and from where: assignments by hand, dealt anew now and then."""

from collections.abc import Mapping, Sequence
from random import Random

from results.record.loads import Load
from results.record.plan import Plan
from workloads.protocol import Assign, Key, Observed

EXTRA_PARTITIONS = 2
READ_AGAIN_LIMIT = 5000
"""A reader may start a partition over as long as not more records than this were read of it."""
START_OVER_SHARE = 0.5
START_OVER_FAR_SHARE = 0.125
HEAVY_EXTRA_SHARE = 0.25
"""Of the assignments under heavy load that have a partition beside the thread's own."""
HEAVY_AGAIN_SHARE = 0.25
"""Under heavy load partitions start over as long as that reads at most this much of all again."""


class Assigner:
    """Deals partitions to the threads of a worker.

    Each thread always reads its own share of the partitions, so that all are covered, and some
    more that are dealt anew at each assignment. Under heavy load these are few, and start over
    within a budget: what is read is about what is sent.

    Args:
        plan: Its topics, partitions and concurrency.
        random: The workload's.
    """

    def __init__(self, plan: Plan, random: Random) -> None:
        self._random = random
        self._concurrency = plan.concurrency
        self._keys: Sequence[Key] = plan.topic_partitions
        self._furthest: dict[Key, int] = {}
        self._heavy = plan.load is Load.HEAVY
        self._again = 0

    def note(self, positions: Mapping[Key, int]) -> None:
        """Remember how far each partition was read."""
        for key, position in positions.items():
            self._furthest[key] = max(position, self._furthest.get(key, 0))

    def assign(self, observed: Observed, *, kept: Sequence[Key] | Mapping[Key, int]) -> Assign:
        """Return an assignment: the thread's share and some more; kept partitions go on."""
        keys = self.share_of(observed.thread)
        keys += [key for key in self._extras() if key not in keys]
        return Assign(starts={key: self._start(key, observed, kept=key in kept) for key in keys})

    def share_of(self, thread: int) -> list[Key]:
        """Return the partitions that a thread always reads; over all threads: every partition."""
        own = {thread % len(self._keys), *range(thread, len(self._keys), self._concurrency)}
        return [self._keys[index] for index in sorted(own)]

    def _extras(self) -> Sequence[Key]:
        if not self._heavy:
            return self._random.sample(self._keys, min(EXTRA_PARTITIONS, len(self._keys)))
        # How far another worker has read a partition is not known, and all of it may be much.
        known = sorted(self._furthest)
        more = known and self._random.random() < HEAVY_EXTRA_SHARE
        return [self._random.choice(known)] if more else []

    def _start(self, key: Key, observed: Observed, *, kept: bool) -> int | None:
        """Where to read on: a kept partition goes on, another may start over while that is cheap.

        What was read before must be read again alike, so starting over is worth its cost.
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
        # After an error the thread knows nothing, and the end may have been truncated far back.
        start_over = self._random.random() < START_OVER_FAR_SHARE
        return None if start_over else furthest - READ_AGAIN_LIMIT

    def _start_under_load(self, known: int | None, furthest: int) -> int | None:
        """Where to read on under heavy load: seldom from the start, or else close to the end."""
        most = HEAVY_AGAIN_SHARE * sum(self._furthest.values())
        if self._again + furthest <= max(READ_AGAIN_LIMIT, most):
            self._again += furthest
            return None
        return known if known is not None else max(0, furthest - READ_AGAIN_LIMIT)
