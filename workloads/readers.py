"""What processes that are assigned by hand do beside sending: they crash, and read elsewhere.

Both times are drawn, so that they come as often at any rate.
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
        plan: Its topics, partitions and concurrency.
        random: The workload's.

    Attributes:
        assigner: Deals partitions to them.
    """

    def __init__(self, plan: Plan, random: Random) -> None:
        self.assigner = Assigner(plan, random)
        self._crash = Recurring(random, mean_s=MEAN_CRASH_S)
        self._reassign = Recurring(random, mean_s=MEAN_REASSIGN_S)

    def due(self, observed: Observed) -> Assign | Crash | None:
        """Return an assign for a new process, else the crash or the assign that is due, or None."""
        self.assigner.note(observed.positions)
        if not observed.assigned:
            return self.assigner.assign(observed, kept=())
        if self._crash.due(observed.now_ns):
            return Crash()
        if self._reassign.due(observed.now_ns):
            return self.assigner.assign(observed, kept=observed.positions)
        return None
