"""Find when the last fault was healed, and when the whole machine was silent.

Time limits for brokers count only from the moment at which all faults are healed. A silence is a
period in which neither clients nor observers recorded anything. Logquake assumes that the machine
was asleep or overloaded then. So a silence is not a failure of the brokers.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from checkers.columns import Ints, ints, present, select
from checkers.disk_losses import was_begun
from results.record.clock import NS_PER_S
from results.record.milestones import ENDED, MAX_NS, Milestone
from results.record.plan import Plan

SILENT_NS = 5 * NS_PER_S
"""A longer period without any row is a silence. Normally, rows come more often."""
Span = tuple[int, int]


def calm_from_ns(faults: pa.Table, milestones: Sequence[Milestone], plan: Plan) -> int | None:
    """Return the time at which the last fault was healed, in nanoseconds since the run's start.

    A fault that never began needs no heal. If a fault's own heal was not confirmed, the time of the
    `healed` milestone is used instead. The milestone must have succeeded, or must have failed only
    because running brokers did not register. The milestone is also used if the plan has faults but
    no recorded fault began, because rows may be missing. It is also used if a broker ended or was
    paused before it, because only the heal of everything certainly starts such a broker again. An
    end of a broker that was asked to stop does not count. If the plan has no faults, the result is
    the start of the main phase. For a scenario without recorded faults, the result is also the
    start of the main phase.

    Args:
        faults: Rows of `faults`.
        milestones: The run's milestones.
        plan: The run's plan.

    Returns:
        The time. It is None if a fault may still have been in force, or if the run ended earlier.
    """
    reached = {each.name: each for each in milestones}
    asked_for = plan.nemesis if plan.faults is None else plan.faults
    if not faults.num_rows and (not asked_for or plan.scenario is not None):
        return reached["main"].at_ns if "main" in reached else None
    begun = select(faults, was_begun(faults))
    last = int(ints(begun, "healed_ns").max(initial=-1))
    healed = reached.get("healed")
    by_itself = [each for each in milestones if each.name == ENDED and "told" not in each.detail]
    ends = [each.at_ns for each in by_itself]
    restarted = healed is not None and min(ends, default=MAX_NS) <= healed.at_ns
    if begun.num_rows and present(begun, "healed_ns").all() and not restarted:
        return last
    if healed is None or ("failed" in healed.detail and "undone" not in healed.detail):
        return None
    return max(last, healed.at_ns)


def silences(times: Iterable[Ints], from_ns: int | None) -> tuple[Span, ...]:
    """Return the periods of a run in which no process recorded anything.

    Args:
        times: The times at which ops began and ended, and at which brokers answered, in any order.
        from_ns: Only later times count. If it is None, the result is empty.
    """
    if from_ns is None:
        return ()
    # Keep only the first and last time of each 5-second stretch: no silence fits inside one.
    first, last = {0: from_ns}, {0: from_ns}
    for each in times:
        # The times are mostly in order, so this sort is fast.
        heard = np.sort(each[each > from_ns], kind="stable")
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
    """Return how many nanoseconds of a time span fall into silences."""
    return sum(max(0, min(end, to_ns) - max(begin, from_ns)) for begin, end in spans)
