"""The groups workload: the log workload, and beside it consumers whose partitions a group deals.

Every other thread of a worker belongs to a group; the others send and read as in the log workload.
Members join, leave and crash, commit what they have read, and are given other partitions.
"""

from random import Random

from results.record.identities import group_of
from results.record.plan import Plan
from workloads.log import LogGenerator
from workloads.pacing import Recurring
from workloads.protocol import Commit, Crash, Observed, Op, Poll, Subscribe, Workload

MEAN_CRASH_S = 8.0
LEAVE_SHARE = 0.5
"""Of the members that end; the others vanish without a word."""
COMMIT_SHARE = 0.3
"""Of the polls."""
SYNC_SHARE = 0.5
"""Of the commits."""
POLL_LIMIT = 2000


class GroupsGenerator:
    """The ops of one worker's processes.

    Args:
        plan: Its seed, topics, partitions, concurrency and sends of an op.
        worker: The worker's number; it decides the random stream and the ranges of values.
        workers: How many workers share the sequences.
    """

    def __init__(self, plan: Plan, *, worker: int, workers: int) -> None:
        self._random = Random(f"{plan.seed}/groups/{worker}")
        self._plan = plan
        self._workers = workers
        threads = range(worker, plan.concurrency, workers)
        others = sum(group_of(thread, plan, workers=workers) is None for thread in threads)
        self._log = LogGenerator(plan, worker=worker, workers=workers, threads=others)
        self._crash = Recurring(self._random, mean_s=MEAN_CRASH_S)

    def next_op(self, observed: Observed) -> Op:
        """Return the op of a member, or of a process that sends and reads by itself."""
        if group_of(observed.thread, self._plan, workers=self._workers) is None:
            return self._log.next_op(observed)
        if not observed.assigned:
            return Subscribe(topics=self._plan.topic_names)
        if self._crash.due(observed.now_ns):
            return Crash(leave=self._random.random() < LEAVE_SHARE)
        return Poll(limit=POLL_LIMIT, commit=self._commit())

    def _commit(self) -> Commit:
        if self._random.random() >= COMMIT_SHARE:
            return Commit.NONE
        return Commit.SYNC if self._random.random() < SYNC_SHARE else Commit.ASYNC


WORKLOAD = Workload(
    generator=GroupsGenerator,
    brief="in consumer groups",
    does="As `log`, plus consumers in groups of four that join, leave, vanish and commit.",
    finds="a group that goes on from a wrong position: its commit was forgotten, or nobody made it",
    ops="as `log`, but consumers are members of a group: they subscribe, commit, leave,"
    " vanish; every assignment and revocation is a row of `assignments`, every commit and"
    " every question for what is committed one of `commits`",
)
