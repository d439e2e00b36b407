"""The workload `pipeline`: group members read, transform and write; each batch is a transaction.

Every fourth thread of a worker is a member of the single group. A member reads the inputs (all
topics except the last). For each record it sends one value to the output (the last topic). It
commits its positions in the same transaction (KIP-98, KIP-447). So each input takes effect exactly
once, even if members, coordinators or leaders fail. The other threads write to the inputs and
watch, as in the workload `txn`.
"""

from itertools import cycle
from random import Random

from results.record.identities import group_of
from results.record.plan import Plan
from results.record.terms import Phase
from workloads.allotment import Allotment
from workloads.pacing import Recurring
from workloads.protocol import Crash, End, Observed, Op, Poll, Subscribe, Txn, Workload
from workloads.txn import ABORT_SHARE, CRASH_SHARE, Feeds, Pauses, TxnGenerator

MEAN_CRASH_S = 15.0
"""The average number of seconds after which one of the members ends. If a member ends without
LeaveGroup, the group assigns no partitions until the session timeout. So the group needs enough
time for its work before the next member ends."""
LEAVE_SHARE = 0.7
"""The share of members that send LeaveGroup when they end. Other members do not send it."""
MOST_READ = 40
"""Maximum number of records in a transaction. It is small, so that there are many transactions
during a fault."""
MOST_SENDS = 3
"""The maximum number of partitions to which one transaction writes."""


class PipelineGenerator:
    """The ops of one worker's processes.

    Args:
        plan: The plan, with the seed, topics, partitions and concurrency.
        worker: The worker's number; it determines the random stream and the ranges of values.
        workers: The number of workers that share the sequence numbers.
    """

    def __init__(self, plan: Plan, *, worker: int, workers: int) -> None:
        self._random = Random(f"{plan.seed}/pipeline/{worker}")
        self._plan = plan
        self._workers = workers
        inputs = {*plan.inputs}
        self._outputs = [key for key in plan.topic_partitions if key[0] not in inputs]
        self._random.shuffle(self._outputs)
        self._turn = cycle(self._outputs)  # So that each partition soon gets a message.
        self._allotment = Allotment(plan, worker=worker, workers=workers)
        threads = range(worker, plan.concurrency, workers)
        feeds = Feeds(
            keys=[key for key in plan.topic_partitions if key[0] in inputs],
            threads=[each for each in threads if group_of(each, plan, workers=workers) is None],
            allotment=self._allotment,
        )
        self._feed = TxnGenerator(plan, worker=worker, workers=workers, feeds=feeds)
        self._pauses = Pauses(plan, worker=worker)
        self._crash = Recurring(self._random, mean_s=MEAN_CRASH_S)

    def next_op(self, observed: Observed) -> Op:
        """Return the next op of a group member, or of a process that writes inputs or watches."""
        if group_of(observed.thread, self._plan, workers=self._workers) is None:
            return self._feed.next_op(observed)
        if not observed.assigned:
            return Subscribe(topics=self._plan.inputs)
        if observed.phase is Phase.MAIN and self._crash.due(observed.now_ns):
            return Crash(leave=self._random.random() < LEAVE_SHARE)
        if observed.unhandled:
            txn = self._transformed(observed.unhandled, ends=observed.phase is Phase.MAIN)
            return self._pauses.some(txn, observed)
        return Poll(limit=MOST_READ)

    def _transformed(self, count: int, *, ends: bool) -> Txn:
        """Return a transaction that sends one message for each record, to a few partitions in turn.

        Args:
            count: The number of records.
            ends: Whether the op may end the member. During the recovery, no member should end.
        """
        most = min(MOST_SENDS, count, len(self._outputs))
        keys = [next(self._turn) for _ in range(self._random.randint(1, most))]
        cuts = [count * at // len(keys) for at in range(len(keys) + 1)]
        sends = [
            self._allotment.send_to(key, end - start)
            for key, start, end in zip(keys, cuts, cuts[1:], strict=False)
        ]
        return Txn(mops=sends, end=self._end() if ends else End.COMMIT, handles=True)

    def _end(self) -> End:
        drawn = self._random.random()
        if drawn < CRASH_SHARE:
            return End.CRASH
        return End.ABORT if drawn < CRASH_SHARE + ABORT_SHARE / 2 else End.COMMIT


WORKLOAD = Workload(
    generator=PipelineGenerator,
    brief="read, transform and write in transactions",
    does="One group reads all topics except the last. For each record a member sends one value to"
    " the last topic and commits its positions in the same transaction. Members crash, join"
    " and leave. Other clients write to the input topics, as in `txn`.",
    finds="inputs that take effect twice, or never",
    ops="as `txn`; for a member: a poll, then a transaction with a value for each record of that"
    " poll and the positions after these records. A transaction that does not commit ends its"
    " process; the next process continues at the group's committed positions",
)
