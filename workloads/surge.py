"""The workload `surge`: almost all sends go to one partition for a while, and then to another.

Producers then fill whole batches, and have several batches in flight to one leader. Meanwhile, the
other partitions are almost idle. The loss of that leader affects many messages, and the followers
lag behind. In the workload `log`, each partition gets an equal share of the sends, and most batches
contain only one message. Readers work as in `log`.
"""

from random import Random

from results.record.loads import Load
from results.record.plan import Plan
from workloads.allotment import Allotment
from workloads.log import HEAVY_SEND_SHARE, SEND_SHARE
from workloads.pacing import Recurring
from workloads.protocol import Key, Observed, Op, Poll, Send, Workload
from workloads.readers import Readers

MEAN_SURGE_S = 4.0
"""The average number of seconds from one surge to the next. Most faults are longer than this time,
but some are shorter."""
SURGE_SHARE = 0.9
"""The share of sends that go to the chosen partition. The other sends keep all partitions
active."""
POLL_LIMIT = 2000


class SurgeGenerator:
    """The ops of one worker's processes. Each worker chooses its own partitions and times.

    Args:
        plan: The plan, with the seed, the topics, the partitions, the concurrency and the number of
            sends in an op.
        worker: The worker's number; it determines the random stream and the ranges of values.
        workers: The number of workers that share the sequence numbers.
    """

    def __init__(self, plan: Plan, *, worker: int, workers: int) -> None:
        self._random = Random(f"{plan.seed}/surge/{worker}")
        self._keys = plan.topic_partitions
        threads = len(range(worker, plan.concurrency, workers))
        # A partition without a leader must not block all processes; the remaining ones read.
        heavy = plan.load is Load.HEAVY
        self._send_share = HEAVY_SEND_SHARE if heavy else SEND_SHARE
        paced = plan.rate > 0 or heavy
        self._most_in_flight = max(1, threads // 2) if paced else threads
        self._allotment = Allotment(plan, worker=worker, workers=workers)
        self._readers = Readers(plan, self._random)
        self._turn = Recurring(self._random, mean_s=MEAN_SURGE_S)
        self._crowded: Key = self._random.choice(self._keys)

    def next_op(self, observed: Observed) -> Op:
        """Return the next op: `Crash`, `Assign`, `Send` or `Poll`.

        A new process begins with `Assign`.
        """
        if (due := self._readers.due(observed)) is not None:
            return due
        if self._turn.due(observed.now_ns):
            self._crowded = self._random.choice(self._keys)
        send = self._random.random() < self._send_share
        return (self._send(observed) if send else None) or Poll(limit=POLL_LIMIT)

    def _send(self, observed: Observed) -> Send | None:
        surges = self._random.random() < SURGE_SHARE
        key = self._crowded if surges else self._random.choice(self._keys)
        if observed.in_flight.get(key, 0) >= self._most_in_flight:
            return None
        return self._allotment.send_to(key)


WORKLOAD = Workload(
    generator=SurgeGenerator,
    brief="most sends go to one partition at a time",
    does="As `log`, but nine of ten sends go to one partition; this partition changes every few"
    " seconds.",
    finds="the effects of full batches and of several sends in flight at a leader change;"
    " followers that fall behind",
    ops="as `log`; the partition of most sends changes every few seconds",
)
