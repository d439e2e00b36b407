"""Since when a run's brokers were left in peace: from then on their budgets count."""

from collections.abc import Sequence

import pyarrow as pa

from checkers.columns import ints, present
from results.record.milestones import Milestone
from results.record.plan import Plan


def calm_from_ns(faults: pa.Table, milestones: Sequence[Milestone], plan: Plan) -> int | None:
    """Return when the last fault was healed, in nanoseconds since the run's start.

    A fault whose heal was not confirmed by itself was undone by the end of `healed`, if that came
    to pass. Where the plan asked for faults and none is recorded, the same holds: they may be
    missing. Without any fault it is the start of the main phase; a story has those that it tells.

    Args:
        faults: Rows of `faults`.
        milestones: Of the run.
        plan: Of the run.

    Returns:
        None if a fault may still have been in force, or the run did not get as far.
    """
    reached = {each.name: each for each in milestones}
    asked_for = plan.nemesis if plan.faults is None else plan.faults
    if not faults.num_rows and (not asked_for or plan.scenario is not None):
        return reached["main"].at_ns if "main" in reached else None
    last = int(ints(faults, "healed_ns").max(initial=-1))
    if faults.num_rows and present(faults, "healed_ns").all():
        return last
    healed = reached.get("healed")
    if healed is None or "failed" in healed.detail:
        return None
    return max(last, healed.at_ns)
