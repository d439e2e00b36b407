"""Since when a run's brokers were left in peace: from then on their budgets count."""

from collections.abc import Sequence

import pyarrow as pa

from checkers.columns import ints, present
from results.record.milestones import Milestone


def calm_from_ns(faults: pa.Table, milestones: Sequence[Milestone]) -> int | None:
    """Return when the last fault was healed, in nanoseconds since the run's start.

    A fault whose heal was not confirmed by itself was undone by the end of `healed`, if that came
    to pass. Without any fault it is the start of the main phase.

    Args:
        faults: Rows of `faults`.
        milestones: Of the run.

    Returns:
        None if a fault may still have been in force, or the run did not get as far.
    """
    reached = {each.name: each for each in milestones}
    if not faults.num_rows:
        return reached["main"].at_ns if "main" in reached else None
    last = int(ints(faults, "healed_ns").max())
    if present(faults, "healed_ns").all():
        return last
    healed = reached.get("healed")
    if healed is None or "failed" in healed.detail:
        return None
    return max(last, healed.at_ns)
