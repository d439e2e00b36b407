"""Since when a run's brokers were left in peace: from then on their budgets count.

And when nobody was awake to see what they did: on a machine that stood still, or was far too busy,
neither brokers nor clients did anything, which is no failure of the brokers.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from checkers.columns import Ints, ints, present, select
from checkers.disk_losses import was_begun
from results.record.clock import NS_PER_S
from results.record.milestones import Milestone
from results.record.plan import Plan

SILENT_NS = 5 * NS_PER_S
"""Polls end several times a second, and what a leader answers is written every two seconds."""
Span = tuple[int, int]


def calm_from_ns(faults: pa.Table, milestones: Sequence[Milestone], plan: Plan) -> int | None:
    """Return when the last fault was healed, in nanoseconds since the run's start.

    One that never began had not to be healed. A fault whose heal was not confirmed by itself was
    undone by the end of `healed`, if that came to pass, or if all that it lacks is that brokers,
    which run, register: that is their own doing. Where the plan asked for faults and none is
    recorded, the same holds: they may be missing. Without any fault it is the start of the main
    phase; a story has those that it tells.

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
    begun = select(faults, was_begun(faults))
    last = int(ints(begun, "healed_ns").max(initial=-1))
    if begun.num_rows and present(begun, "healed_ns").all():
        return last
    healed = reached.get("healed")
    if healed is None or ("failed" in healed.detail and "undone" not in healed.detail):
        return None
    return max(last, healed.at_ns)


def silences(times: Iterable[Ints], from_ns: int | None) -> tuple[Span, ...]:
    """Return from when to when nothing at all was recorded of a run, whoever it would have been.

    Args:
        times: When ops began and ended, and when brokers answered, in any order.
        from_ns: Only what is later counts; None: nothing does.
    """
    if from_ns is None:
        return ()
    # Of tens of millions of times, the first and the last of each stretch: no silence fits in one.
    first, last = {0: from_ns}, {0: from_ns}
    for each in times:
        heard = np.sort(each[each > from_ns], kind="stable")  # Mostly in order: many times as fast.
        stretches = (heard - from_ns) // SILENT_NS
        begins = np.flatnonzero(np.diff(stretches, prepend=-1))
        ends = np.append(begins, len(heard))[1:] - 1
        found = zip(stretches[begins], heard[begins], heard[ends], strict=True)
        for stretch, begin, end in (map(int, row) for row in found):
            first[stretch] = min(first.get(stretch, begin), begin)
            last[stretch] = max(last.get(stretch, end), end)
    spans = [(last[before], first[after]) for before, after in pairwise(sorted(first))]
    return tuple((begin, end) for begin, end in spans if end - begin > SILENT_NS)


def silent_ns(spans: Iterable[Span], from_ns: int, to_ns: int) -> int:
    """Return how much of a time nobody recorded anything."""
    return sum(max(0, min(end, to_ns) - max(begin, from_ns)) for begin, end in spans)
