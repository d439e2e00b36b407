"""Choose when processes with manual assignment crash, and when they get a new assignment.

Both happen at random times. How often they happen does not depend on the rate of ops.
"""

from random import Random

from results.record.plan import Plan
from workloads.assigning import Assigner
from workloads.pacing import Recurring
from workloads.protocol import Assign, Crash, Observed

MEAN_CRASH_S = 8.0
MEAN_REASSIGN_S = 3.0


class Readers:
    """Decides when the processes of a worker crash, or get a new assignment.

    Args:
        plan: The plan, with the topics, the partitions and the concurrency.
        random: The workload's random source.

    Attributes:
        assigner: Assigns partitions to the processes.
    """

    def __init__(self, plan: Plan, random: Random) -> None:
        self.assigner = Assigner(plan, random)
        self._crash = Recurring(random, mean_s=MEAN_CRASH_S)
        self._reassign = Recurring(random, mean_s=MEAN_REASSIGN_S)

    def due(self, observed: Observed) -> Assign | Crash | None:
        """Return the first assignment of a new process, or the crash or assignment that is due."""
        self.assigner.note(observed.positions)
        if not observed.assigned:
            return self.assigner.assign(observed, kept=())
        if self._crash.due(observed.now_ns):
            return Crash()
        if self._reassign.due(observed.now_ns):
            return self.assigner.assign(observed, kept=observed.positions)
        return None
