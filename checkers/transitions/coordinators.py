"""Coordinators that moved, with work under way or without: of groups, transactions, share groups.

From the controllers' log (`checkers.reigns`): the coordinator is the leader of one partition of an
internal topic. Only partitions that coordinate a group or a transactional id of the plan, or the
positions of a share group (KIP-932), count. `ops` say what its clients had under way: an operation
that began before the move and ended after it was certainly under way.

What would not prove it: an operation that began or ended between the two times that bound a move.
With ZooKeeper nobody recorded who led internal topics. A replica of such a partition that truncated
its log tells no time. What no answer of the quorum reached may not have happened.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from uuid import UUID

import numpy as np

from checkers.changes import NEVER_NS
from checkers.columns import Ints, equal, ints, select, slices
from checkers.facts import RunFacts
from checkers.group import Group
from checkers.reigns import (
    GROUPS,
    LATE_NS,
    SHARES,
    TRANSACTIONS,
    UNENDED_NS,
    Reign,
    partition_of,
)
from checkers.transitions.events import Events, Places, end_of_run_ns
from results.record.identities import group_of, transactional_id, watches
from results.record.shares import has_shares
from results.record.terms import F

_TOPICS = ((GROUPS, "group"), (TRANSACTIONS, "transaction"), (SHARES, "share"))


def find(group: Group, places: Places) -> None:
    """Add the moves of the coordinators of a run."""
    facts = group.facts
    for topic, of in _TOPICS:
        threads: dict[int, set[int]] = {}
        for thread, key in _keys(facts, topic):
            threads.setdefault(partition_of(facts.reigns, topic, key), set()).add(thread)
        threads.pop(-1, None)
        for partition, mine in sorted(threads.items()):
            known = [
                each for each in facts.reigns if (each.topic, each.partition) == (topic, partition)
            ]
            if len(known) > 1:
                work = _Work(
                    group,
                    np.array(sorted(mine), dtype=np.int64),
                    transactional=topic == TRANSACTIONS,
                )
                _add_moves(places.at(topic, partition), f"coordinator/{of}", known, work)
            for cut in facts.inner_cuts:
                if (cut.topic, cut.partition) == (topic, partition):
                    places.at(topic, partition).add(f"coordinator/{of}-log-cut")


def _keys(facts: RunFacts, topic: str) -> Iterator[tuple[int, str]]:
    """Yield each thread with what a coordinator keeps for it, as brokers find the partition."""
    plan = facts.plan
    workers = min(plan.workers, plan.concurrency)
    for thread in range(plan.concurrency):
        group = group_of(thread, plan, workers=workers)
        if topic == GROUPS and group is not None:
            yield thread, group
        elif topic == SHARES and group is not None and has_shares(plan):
            for each in facts.topics:
                for partition in range(each.partitions):
                    yield thread, f"{group}:{_id_of(each.topic_id)}:{partition}"
        elif topic == TRANSACTIONS and plan.transactional and not watches(thread, workers=workers):
            yield thread, transactional_id(thread, plan)


def _id_of(topic_id: str) -> str:
    """Return a topic's id in Kafka's own words: 22 characters (`Uuid.toString`)."""
    try:
        return urlsafe_b64encode(UUID(topic_id).bytes).decode().rstrip("=")
    except ValueError:  # Of another system, or of a record that is damaged.
        return topic_id


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


def _add_moves(events: Events, name: str, known: list[Reign], work: _Work) -> None:
    """Add the moves of one coordinator.

    Args:
        events: Of its partition.
        name: What a move's begins with.
        known: All reigns of that partition, by epoch.
        work: What its clients had under way.
    """
    last, before = known[0].leader, known[0]
    for after in known[1:]:
        # The end of a reign may be put off by a fault that cut its leader off.
        until_ns = before.until_ns
        by_ns = min(until_ns, after.from_ns + 2 * LATE_NS) if after.from_ns else until_ns
        vacant, before = before.leader < 0, after
        if until_ns < UNENDED_NS and by_ns < work.end_ns:
            how = _how(last, after.leader, vacant=vacant)
            if how == "moved" and work.spans(after.from_ns, until_ns):
                how = "moved-in-flight"
            if how:
                events.add(f"{name}-{how}", by_ns)
        last = after.leader if after.leader >= 0 else last


def _how(last: int, leader: int, *, vacant: bool) -> str:
    """Return what became of a coordinator; empty: nobody knows who was the last one.

    Args:
        last: The last broker that led its partition; -1 if none is known.
        leader: Who leads it now; -1: nobody.
        vacant: Whether nobody led it in between.
    """
    if leader < 0:
        return "" if vacant else "none"
    if leader == last:
        return "returned" if vacant else "renewed"
    return "moved" if last >= 0 else ""
