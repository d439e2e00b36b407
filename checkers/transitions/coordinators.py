"""Coordinators of groups and transactional producers that moved, with work under way or without.

From the controllers' log (`checkers.reigns`): the coordinator is the leader of one partition of an
internal topic. Only partitions that coordinate a group or a transactional id of the plan count.
`ops` say what its clients had under way: an operation that began before the move and ended after
it was certainly under way.

What would not prove it: an operation between the two times that bound a move. With ZooKeeper nobody
recorded who led internal topics. A replica of such a partition that truncated its log tells no
time.
"""

from itertools import pairwise

import numpy as np

from checkers.changes import NEVER_NS
from checkers.columns import Ints, equal, ints, select, slices
from checkers.group import Group
from checkers.reigns import GROUPS, LATE_NS, TRANSACTIONS, Reign, partition_of
from checkers.transitions.events import Places, end_of_run_ns
from results.record.identities import group_of, transactional_id, watches
from results.record.plan import Plan
from results.record.terms import F

_TOPICS = ((GROUPS, "group"), (TRANSACTIONS, "transaction"))


def find(group: Group, places: Places) -> None:
    """Add the moves of the coordinators of a run."""
    facts = group.facts
    for topic, of in _TOPICS:
        threads = {
            name: partition_of(facts.reigns, topic, key)
            for name, key in _keys(facts.plan, topic).items()
        }
        for partition in sorted(set(threads.values()) - {-1}):
            mine = [thread for thread, where in threads.items() if where == partition]
            known = [
                each for each in facts.reigns if (each.topic, each.partition) == (topic, partition)
            ]
            if len(known) > 1:
                work = _Work(group, np.array(mine, dtype=np.int64), transactional=topic != GROUPS)
                for reigns in pairwise(known):
                    _add(places, f"coordinator/{of}", reigns, work)
            for cut in facts.inner_cuts:
                if (cut.topic, cut.partition) == (topic, partition):
                    places.at(topic, partition).add(f"coordinator/{of}-log-cut")


def _keys(plan: Plan, topic: str) -> dict[int, str]:
    """Return the group, or the transactional id, of each thread that has one."""
    workers = min(plan.workers, plan.concurrency)
    if topic == GROUPS:
        found = {at: group_of(at, plan, workers=workers) for at in range(plan.concurrency)}
        return {thread: key for thread, key in found.items() if key is not None}
    writers = (at for at in range(plan.concurrency) if not watches(at, workers=workers))
    return {at: transactional_id(at, plan) for at in writers} if plan.transactional else {}


class _Work:
    """The operations of some threads, to ask what was under way.

    Args:
        group: The run's.
        threads: Whose.
        transactional: Whether only transactions count.

    Attributes:
        end_ns: When the brokers' stop began.
    """

    def __init__(self, group: Group, threads: Ints, *, transactional: bool) -> None:
        self.end_ns = end_of_run_ns(group.facts)
        begun, ended = [], []
        for ops in slices(group.table("ops"), ("f", "process", "invoke_ns", "complete_ns")):
            ours = np.isin(ints(ops, "process") % group.facts.plan.concurrency, threads)
            ours &= ints(ops, "invoke_ns") >= 0
            if transactional:
                ours &= equal(ops, "f", F.TXN)
            mine = select(ops, ours)
            begun.append(ints(mine, "invoke_ns"))
            ends = ints(mine, "complete_ns")
            ended.append(np.where(ends >= 0, ends, NEVER_NS))
        starts, ends = np.concatenate(begun), np.concatenate(ended)
        order = np.argsort(starts, kind="stable")
        self._starts = starts[order]
        self._latest = np.maximum.accumulate(ends[order]) if len(ends) else ends

    def spans(self, from_ns: int, to_ns: int) -> bool:
        """Tell whether an operation began before a time and ended after another one."""
        at = int(np.searchsorted(self._starts, from_ns, side="right"))
        return at > 0 and int(self._latest[at - 1]) >= to_ns


def _add(places: Places, name: str, reigns: tuple[Reign, Reign], work: _Work) -> None:
    before, after = reigns
    # The end of a reign may be put off by a fault that cut its leader off.
    by_ns = min(before.until_ns, after.from_ns + 2 * LATE_NS) if after.from_ns else before.until_ns
    if by_ns >= work.end_ns:
        return
    events = places.at(after.topic, after.partition)
    if after.leader < 0:
        events.add(f"{name}-none", by_ns)
    elif after.leader == before.leader:
        events.add(f"{name}-renewed", by_ns)
    else:
        from_ns = min(after.from_ns + LATE_NS, by_ns)
        how = "moved-in-flight" if work.spans(from_ns, by_ns) else "moved"
        events.add(f"{name}-{how}", by_ns)
