"""The workload `log`: unique messages are sent, and manually assigned consumers read them.

Every process sends and reads.
"""

from collections.abc import Mapping
from random import Random

from results.record.loads import Load
from results.record.plan import Plan
from workloads.allotment import Allotment
from workloads.protocol import Key, Observed, Op, Poll, Send, Workload
from workloads.readers import Readers

SEND_SHARE = 0.5
HEAVY_SEND_SHARE = 0.75
"""The share of sends under heavy load. It is larger, because a poll takes longer than a send, and
polls return only records that were sent."""
POLL_LIMIT = 2000


class LogGenerator:
    """The ops of one worker's processes.

    Args:
        plan: The plan, with the seed, the topics, the partitions, the concurrency and the number of
            sends in an op.
        worker: The worker's number; it determines the random stream and the ranges of values.
        workers: The number of workers that share the sequence numbers.
        threads: How many of the worker's threads use this generator. None means all threads.
    """

    def __init__(
        self, plan: Plan, *, worker: int, workers: int, threads: int | None = None
    ) -> None:
        self._random = Random(f"{plan.seed}/workload/{worker}")
        self._keys = plan.topic_partitions
        if threads is None:
            threads = len(range(worker, plan.concurrency, workers))
        # Partitions without a leader must not block all processes of a paced worker. The remaining
        # processes continue with the other partitions, and read.
        heavy = plan.load is Load.HEAVY
        self._send_share = HEAVY_SEND_SHARE if heavy else SEND_SHARE
        paced, apart = plan.rate > 0 or heavy, 2 if heavy else 4
        self._most_in_flight = max(1, threads // apart) if paced else threads
        self._most_sending = max(1, threads - threads // 4) if paced else threads
        self._allotment = Allotment(plan, worker=worker, workers=workers)
        self._readers = Readers(plan, self._random)

    def next_op(self, observed: Observed) -> Op:
        """Return the next op: `Crash`, `Assign`, `Send` or `Poll`.

        A new process begins with `Assign`.
        """
        if (due := self._readers.due(observed)) is not None:
            return due
        send = self._random.random() < self._send_share
        return (self._send(observed.in_flight) if send else None) or Poll(limit=POLL_LIMIT)

    def _send(self, in_flight: Mapping[Key, int]) -> Send | None:
        if sum(in_flight.values()) >= self._most_sending:
            return None
        open_keys = [key for key in self._keys if in_flight.get(key, 0) < self._most_in_flight]
        return self._allotment.send_to(self._random.choice(open_keys)) if open_keys else None


WORKLOAD = Workload(
    generator=LogGenerator,
    brief="send and read",
    does="Clients send plain messages. Readers have manual assignments, crash, and get other"
    " partitions.",
    finds="readers that skip or go back; records in the wrong order",
    ops="several sends to one partition, or one poll of an assigned consumer",
)
