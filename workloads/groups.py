"""The workload `groups`: like the workload `log`, but with consumers that are group members.

Every second thread of a worker belongs to a group. The other threads send and read as in the
workload `log`. Members join, leave, crash, commit their positions, get other partitions in
rebalances, and go back to read again. They leave and crash only in the main phase.
"""

from random import Random

from results.record.identities import group_of
from results.record.plan import Plan
from results.record.terms import Phase
from workloads.log import LogGenerator
from workloads.pacing import Recurring
from workloads.protocol import Commit, Crash, Observed, Op, Poll, Seek, Subscribe, Workload

MEAN_CRASH_S = 8.0
LEAVE_SHARE = 0.5
"""The share of members that send LeaveGroup when they end. Other members do not send it."""
COMMIT_SHARE = 0.3
"""The share of polls that commit."""
SYNC_SHARE = 0.5
"""The share of commits that wait for the response."""
MEAN_SEEK_S = 3.0
TO_COMMITTED_SHARE = 0.5
"""The share of seeks to the committed offset. Other seeks go back by at most `MOST_BACK`
records."""
MOST_BACK = 500
POLL_LIMIT = 2000


class GroupsGenerator:
    """The ops of one worker's processes.

    Args:
        plan: The plan, with the seed, the topics, the partitions, the concurrency and the number of
            sends in an op.
        worker: The worker's number; it determines the random stream and the ranges of values.
        workers: The number of workers that share the sequence numbers.
    """

    def __init__(self, plan: Plan, *, worker: int, workers: int) -> None:
        self._random = Random(f"{plan.seed}/groups/{worker}")
        self._plan = plan
        self._workers = workers
        threads = range(worker, plan.concurrency, workers)
        others = sum(group_of(thread, plan, workers=workers) is None for thread in threads)
        self._log = LogGenerator(plan, worker=worker, workers=workers, threads=others)
        self._crash = Recurring(self._random, mean_s=MEAN_CRASH_S)
        self._seeks = Random(f"{plan.seed}/groups/{worker}/seeks")
        self._seek = Recurring(self._seeks, mean_s=MEAN_SEEK_S)

    def next_op(self, observed: Observed) -> Op:
        """Return the next op of a group member, or of a process outside of groups."""
        if group_of(observed.thread, self._plan, workers=self._workers) is None:
            return self._log.next_op(observed)
        if not observed.assigned:
            return Subscribe(topics=self._plan.topic_names)
        # During the recovery, a new member would free a group that is stuck.
        if observed.phase is Phase.MAIN and self._crash.due(observed.now_ns):
            return Crash(leave=self._random.random() < LEAVE_SHARE)
        if self._seek.due(observed.now_ns):
            to_committed = self._seeks.random() < TO_COMMITTED_SHARE
            return Seek(back=None if to_committed else self._seeks.randint(1, MOST_BACK))
        return Poll(limit=POLL_LIMIT, commit=self._commit())

    def _commit(self) -> Commit:
        if self._random.random() >= COMMIT_SHARE:
            return Commit.NONE
        return Commit.SYNC if self._random.random() < SYNC_SHARE else Commit.ASYNC


WORKLOAD = Workload(
    generator=GroupsGenerator,
    brief="in consumer groups",
    does="As `log`, plus consumers in groups of four that join, leave, crash, commit and seek."
    " Each group has its own assignor, or the consumer protocol (KIP-848).",
    finds=(
        "a group that continues at a wrong position: its commit was lost, or no member committed"
        " the position"
    ),
    ops="as `log`, but consumers are members of a group: they subscribe, commit, leave, crash and"
    " seek. Each assignment, revocation and seek is a row of `assignments`. Each commit, and"
    " each query for committed offsets, is a row of `commits`",
)
