"""Ops of processes with manual assignment, besides sends: crashes and new assignments.

Both happen at random times, equally often at any rate.
"""

from random import Random

from results.record.plan import Plan
from workloads.assigning import Assigner
from workloads.pacing import Recurring
from workloads.protocol import Assign, Crash, Observed

MEAN_CRASH_S = 8.0
MEAN_REASSIGN_S = 3.0


class Readers:
    """The processes of a worker, as readers.

    Args:
        plan: Has the topics, the partitions and the concurrency.
        random: The workload's random source.

    Attributes:
        assigner: Assigns partitions to them.
    """

    def __init__(self, plan: Plan, random: Random) -> None:
        self.assigner = Assigner(plan, random)
        self._crash = Recurring(random, mean_s=MEAN_CRASH_S)
        self._reassign = Recurring(random, mean_s=MEAN_REASSIGN_S)

    def due(self, observed: Observed) -> Assign | Crash | None:
        """Return the assign of a new process, or the crash or assign that is due, or None."""
        self.assigner.note(observed.positions)
        if not observed.assigned:
            return self.assigner.assign(observed, kept=())
        if self._crash.due(observed.now_ns):
            return Crash()
        if self._reassign.due(observed.now_ns):
            return self.assigner.assign(observed, kept=observed.positions)
        return None
