"""The workload `txn`: sends and polls in transactions that end in a commit, an abort, or a crash.

An op is one transaction of one to four micro-operations. Readers are read_committed, both in
transactions and outside of transactions. Some threads only watch: they are read_uncommitted, so
they also see records of open and aborted transactions. These threads write nothing, so such records
influence no other op.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from results.record.identities import watches
from results.record.plan import Plan
from results.record.terms import Isolation, Phase
from workloads.allotment import Allotment
from workloads.pacing import Recurring
from workloads.protocol import End, Key, Observed, Op, Poll, Send, Txn, Workload
from workloads.readers import Readers

MOST_MOPS = 4
TXN_SHARE = 0.5
"""The share of transactions among the ops of a thread that writes. The other ops are plain
polls."""
SEND_SHARE = 0.6
"""The share of sends among the micro-operations."""
ABORT_SHARE = 0.1
CRASH_SHARE = 0.01
COMMIT_POSITIONS_SHARE = 0.5
"""The share of transactions with polls that also commit positions."""
PAUSES = (0.5, 1.7)
"""The shortest and the longest pause of a transaction, as multiples of the transaction's timeout.
Coordinators check once a second for transactions that timed out."""
LONG_SHARE, LONG_S = 0.2, 15.0
"""The share of pauses that are even longer, and by how many seconds at most.

Old coordinators check for timeouts only once a minute.
"""
POLL_LIMIT = 2000


def isolation_of(thread: int, *, workers: int) -> Isolation:
    """Return the isolation level of a thread's processes."""
    watcher = watches(thread, workers=workers)
    return Isolation.READ_UNCOMMITTED if watcher else Isolation.READ_COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeds:
    """The threads of a pipeline that write to the input topics.

    Attributes:
        keys: The partitions to which these threads write.
        threads: The numbers of these threads.
        allotment: The worker's values.
    """

    keys: Sequence[Key]
    threads: Sequence[int]
    allotment: Allotment


class Pauses:
    """Adds pauses to some transactions. A pause is shorter or longer than the transaction timeout.

    Args:
        plan: The plan, with the seed and the timeout.
        worker: The worker's number.
    """

    def __init__(self, plan: Plan, *, worker: int) -> None:
        # A separate random stream, so that a seed's other ops are the same with and without pauses.
        self._random = Random(f"{plan.seed}/pauses/{worker}")
        self._timeout_s = plan.transaction_timeout_s
        # A partition that a paused transaction blocks must not count as unavailable.
        self._most_s = plan.budgets.unavailable_s / 2
        self._due = Recurring(self._random, mean_s=self._timeout_s)

    def some(self, txn: Txn, observed: Observed) -> Txn:
        """Return the transaction, with a pause if one is due in the main phase."""
        if observed.phase is not Phase.MAIN or not self._due.due(observed.now_ns):
            return txn
        pause_s = self._timeout_s * self._random.uniform(*PAUSES)
        if self._random.random() < LONG_SHARE:
            pause_s += self._random.uniform(0, LONG_S)
        return replace(
            txn,
            pause_s=min(self._most_s, pause_s),
            pause_after=self._random.randint(1, len(txn.mops)),
        )


class TxnGenerator:
    """The ops of one worker's processes.

    Args:
        plan: The plan, with the seed, the topics, the partitions, the concurrency and the number of
            sends in a micro-operation.
        worker: The worker's number; it determines the random stream and the ranges of values.
        workers: The number of workers that share the sequence numbers.
        feeds: For a pipeline: the threads that write, and the partitions to which they write. None
            if all threads write to all partitions.
    """

    def __init__(
        self, plan: Plan, *, worker: int, workers: int, feeds: Feeds | None = None
    ) -> None:
        self._random = Random(f"{plan.seed}/workload/{worker}")
        self._keys = feeds.keys if feeds else plan.topic_partitions
        self._workers = workers
        threads = feeds.threads if feeds else range(worker, plan.concurrency, workers)
        writers = sum(not watches(thread, workers=workers) for thread in threads)
        # As in the log workload, a partition without a leader must not block all processes.
        self._most_in_flight = writers if plan.rate == 0 else max(1, writers // 3)
        self._most_at_once = writers if plan.rate == 0 else max(1, writers - writers // 4)
        # Transactions of members count together with those of the threads that write the inputs.
        self._most_at_once += len(range(worker, plan.concurrency, workers)) - len(threads)
        self._allotment = (
            feeds.allotment if feeds else Allotment(plan, worker=worker, workers=workers)
        )
        self._readers = Readers(plan, self._random)
        self._pauses = None if feeds else Pauses(plan, worker=worker)

    def next_op(self, observed: Observed) -> Op:
        """Return the next op: `Crash`, `Assign`, `Txn` or `Poll`.

        A new process begins with `Assign`.
        """
        if (due := self._readers.due(observed)) is not None:
            return due
        transacts = (
            not watches(observed.thread, workers=self._workers)
            and self._random.random() < TXN_SHARE
            and observed.transacting < self._most_at_once
        )
        if not transacts:
            return Poll(limit=POLL_LIMIT)
        txn = self._txn(observed.in_flight)
        return self._pauses.some(txn, observed) if self._pauses else txn

    def _txn(self, in_flight: Mapping[Key, int]) -> Txn:
        open_keys = [key for key in self._keys if in_flight.get(key, 0) < self._most_in_flight]
        mops = [self._mop(open_keys) for _ in range(self._random.randint(1, MOST_MOPS))]
        polls = any(isinstance(mop, Poll) for mop in mops)
        commits_positions = self._random.random() < COMMIT_POSITIONS_SHARE
        return Txn(mops=mops, end=self._end(), commits_positions=polls and commits_positions)

    def _mop(self, open_keys: list[Key]) -> Send | Poll:
        if open_keys and self._random.random() < SEND_SHARE:
            return self._allotment.send_to(self._random.choice(open_keys))
        return Poll(limit=POLL_LIMIT)

    def _end(self) -> End:
        drawn = self._random.random()
        if drawn < CRASH_SHARE:
            return End.CRASH
        return End.ABORT if drawn < CRASH_SHARE + ABORT_SHARE else End.COMMIT


WORKLOAD = Workload(
    generator=TxnGenerator,
    brief="in transactions",
    does="Each operation is one transaction of up to four sends and polls over several"
    " partitions. It commits its positions with `send_offsets_to_transaction`. Some"
    " transactions pause in the middle, for longer or shorter than their timeout.",
    finds="aborted records that a reader gets; transactions of which a reader gets only some"
    " records, for example when a client continues after its transaction timed out; cycles"
    " of reads and writes",
    ops="a transaction: 1 to 4 micro-operations on several partitions, then a commit or a"
    " deliberate abort; the offsets of the records that it read are committed in the same"
    " transaction. Its sends have the transaction's outcome, whatever their delivery reports"
    " say. They are `fail` if no commit was ever requested, even if the op is `info` because"
    " its producer or consumer was discarded. Every fourth thread of a worker only reads,"
    " read_uncommitted",
)
