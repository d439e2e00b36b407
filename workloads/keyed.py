"""The keyed workload: few keys, tombstones and compacted topics, with and without transactions.

The number (value) of a message determines the key, and whether the message is a tombstone
(`results.record.keys`). Brokers close segments after a few seconds and clean them soon after
(`results.record.cleaning`). Some ops are plain sends of a shared producer. The others are ops of
the txn workload: transactions that end in a commit, an abort or a crash, some after a pause.
"""

from collections.abc import Mapping
from random import Random

from results.record.identities import watches
from results.record.plan import Plan
from workloads.allotment import Allotment
from workloads.protocol import Key, Observed, Op, Send, Txn, Workload
from workloads.txn import Feeds, Pauses, TxnGenerator

SEND_SHARE = 0.5
"""The share of plain sends among the ops of a thread that writes. Half of the other ops are
transactions."""


class KeyedGenerator:
    """The ops of one worker's processes.

    Args:
        plan: The plan, with the seed, the topics, the partitions, the concurrency and the number of
            sends in an op.
        worker: The worker's number; it determines the random stream and the ranges of values.
        workers: The number of workers that share the sequence numbers.
    """

    def __init__(self, plan: Plan, *, worker: int, workers: int) -> None:
        self._random = Random(f"{plan.seed}/keyed/{worker}")
        self._keys = plan.topic_partitions
        self._workers = workers
        threads = range(worker, plan.concurrency, workers)
        writers = sum(not watches(thread, workers=workers) for thread in threads)
        # A partition without a leader must not block all processes.
        self._most_in_flight = max(1, writers // 3)
        self._allotment = Allotment(plan, worker=worker, workers=workers)
        feeds = Feeds(keys=self._keys, threads=threads, allotment=self._allotment)
        self._txn = TxnGenerator(plan, worker=worker, workers=workers, feeds=feeds)
        self._pauses = Pauses(plan, worker=worker)

    def next_op(self, observed: Observed) -> Op:
        """Return a plain send, or an op as in the workload `txn`."""
        if observed.assigned and not watches(observed.thread, workers=self._workers):
            sends = self._random.random() < SEND_SHARE
            if sends and (send := self._send(observed.in_flight)) is not None:
                return send
        op = self._txn.next_op(observed)
        return self._pauses.some(op, observed) if isinstance(op, Txn) else op

    def _send(self, in_flight: Mapping[Key, int]) -> Send | None:
        open_keys = [key for key in self._keys if in_flight.get(key, 0) < self._most_in_flight]
        return self._allotment.send_to(self._random.choice(open_keys)) if open_keys else None


WORKLOAD = Workload(
    generator=KeyedGenerator,
    brief="few keys, compacted topics",
    does="Topics are compacted, and each partition has 8 to 32 keys. Some messages are"
    " tombstones. Some are sent without a transaction, others in transactions, as in `txn`."
    " Segments are closed after a few seconds and cleaned at once.",
    finds="last values that compaction removed; values that return after their tombstone; aborted"
    " records that readers get because compaction removed the abort marker",
    ops="as `txn`, or some plain sends to one partition. The value of a message determines its"
    " key, and whether it is a tombstone",
)
