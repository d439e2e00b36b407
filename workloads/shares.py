"""The workload `shares`: like the workload `log`, but with members of one share group (KIP-932).

Every fourth thread of a worker is a member of the single share group, with at most four members in
all. A member takes records, accepts most of them, releases some, rejects a few, and waits for the
response. In the main phase, members end, even while they hold records. Some of them leave the group
first, and some do not. The other threads send and read as in the workload `log`.
"""

from random import Random

from results.record.identities import group_of
from results.record.plan import Plan
from results.record.terms import Phase, ShareAct
from workloads.log import LogGenerator
from workloads.pacing import Recurring
from workloads.protocol import Acknowledge, Crash, Observed, Op, Poll, Subscribe, Workload

MEAN_CRASH_S = 15.0
"""The average number of seconds after which one of the members ends. A new member gets its first
records only after some seconds, and needs time for its work before the next member ends."""
LEAVE_SHARE = 0.5
"""The share of members that leave the group when they end. Other members end without leaving."""
EMPTY_HANDED_SHARE = 0.5
"""The share of members that hold no records when they end. Other members hold the records of their
last poll at that time."""
RELEASE_SHARE, REJECT_SHARE = 0.05, 0.002
"""The shares of records that are released and that are rejected. All other records are accepted."""
POLL_LIMIT = 100
_ACTS = 64
"""Number of acknowledgement types that are chosen at random for a poll. The records of the poll use
the types in turn."""


class SharesGenerator:
    """The ops of one worker's processes.

    Args:
        plan: The plan, with the seed, the topics, the partitions, the concurrency and the number of
            sends in an op.
        worker: The worker's number; it determines the random stream and the ranges of values.
        workers: The number of workers that share the sequence numbers.
    """

    def __init__(self, plan: Plan, *, worker: int, workers: int) -> None:
        self._random = Random(f"{plan.seed}/shares/{worker}")
        self._plan = plan
        self._workers = workers
        threads = range(worker, plan.concurrency, workers)
        others = sum(group_of(thread, plan, workers=workers) is None for thread in threads)
        self._log = LogGenerator(plan, worker=worker, workers=workers, threads=others)
        self._crash = Recurring(self._random, mean_s=MEAN_CRASH_S)
        self._doomed: set[int] = set()
        """The threads whose members end as soon as they hold a record."""

    def next_op(self, observed: Observed) -> Op:
        """Return the next op of a share group member, or of another process."""
        thread = observed.thread
        if group_of(thread, self._plan, workers=self._workers) is None:
            return self._log.next_op(observed)
        if not observed.assigned:
            self._doomed.discard(thread)
            return Subscribe(topics=self._plan.topic_names)
        # During the recovery, a new member would free a group that is stuck.
        may_end = observed.phase is Phase.MAIN
        if observed.unhandled:
            ends = may_end and thread in self._doomed
            return self._crashed() if ends else self._acknowledged()
        if may_end and self._crash.due(observed.now_ns):
            if self._random.random() < EMPTY_HANDED_SHARE:
                return self._crashed()
            self._doomed.add(thread)
        return Poll(limit=POLL_LIMIT)

    def _crashed(self) -> Crash:
        return Crash(leave=self._random.random() < LEAVE_SHARE)

    def _acknowledged(self) -> Acknowledge:
        return Acknowledge(acts=[self._act() for _ in range(_ACTS)])

    def _act(self) -> ShareAct:
        drawn = self._random.random()
        if drawn < REJECT_SHARE:
            return ShareAct.REJECT
        return ShareAct.RELEASE if drawn < REJECT_SHARE + RELEASE_SHARE else ShareAct.ACCEPT


WORKLOAD = Workload(
    generator=SharesGenerator,
    brief="in a share group",
    does="As `log`, plus members of one share group (KIP-932), which accept, release or reject"
    " each record. They join, leave and crash, also while they hold records.",
    finds="a record that the group never delivers, or delivers again after it was accepted",
    ops="as `log`, but members of the share group poll, then acknowledge each record of that poll"
    " and wait for the answer. Each delivery and each acknowledgement is a row of `shared`",
)
