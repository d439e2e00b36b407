"""Find changes of the coordinators of groups, transactions and share groups, above all moves.

Moves during an active operation are counted separately. A coordinator is the leader of one
partition of an internal topic. The controllers' log shows when a coordinator moves
(`checkers.reigns`). A partition counts only if it coordinates a group or transactional id of the
plan, or the positions of a share group (KIP-932). The source of operations is `ops`. An operation
was certainly active during a move if it began before the move and ended after the move.

What would not prove it: an operation that began or ended between the two bounds of a move, or an
operation without a recorded end. With ZooKeeper, the leaders of internal topics are not recorded. A
truncation of an internal topic's replica is recorded without a time. A move counts only if the
quorum reported a high watermark beyond the move's log entry.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from checkers.columns import NEVER, NONE, Ints, equal, ints, select, slices
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """A coordinator that moved to another broker.

    Attributes:
        events: The transitions of the coordinating partition.
        name: The transition's name if no operation was active.
        at_ns: The reported time of the move.
        span: The earliest and the latest possible time of the move.
        threads: The client threads that use this coordinator.
        transactional: Whether only transactions count as active work.
    """

    events: Events
    name: str
    at_ns: int
    span: tuple[int, int]
    threads: Ints
    transactional: bool


def find(group: Group, places: Places) -> None:
    """Add all changes of a run's coordinators, and truncations, to the transitions in `places`."""
    facts, moves = group.facts, list[_Move]()
    for topic, of in _TOPICS:
        threads: dict[int, set[int]] = {}
        for thread, key in _keys(facts, topic):
            threads.setdefault(partition_of(facts.reigns, topic, key), set()).add(thread)
        threads.pop(-1, None)
        for partition, mine in sorted(threads.items()):
            events = places.at(topic, partition)
            known = [
                each for each in facts.reigns if (each.topic, each.partition) == (topic, partition)
            ]
            for how, at_ns, span in _changes(known, end_of_run_ns(facts)):
                if how != "moved":
                    events.add(f"coordinator/{of}-{how}", at_ns)
                    continue
                moves.append(
                    _Move(
                        events=events,
                        name=f"coordinator/{of}-moved",
                        at_ns=at_ns,
                        span=span,
                        threads=np.array(sorted(mine), dtype=np.int64),
                        transactional=topic == TRANSACTIONS,
                    )
                )
            for cut in facts.inner_cuts:
                if (cut.topic, cut.partition) == (topic, partition):
                    events.add(f"coordinator/{of}-log-cut")
    for move, busy in zip(moves, _in_flight(group, moves), strict=True):
        move.events.add(f"{move.name}-in-flight" if busy else move.name, move.at_ns)


def _keys(facts: RunFacts, topic: str) -> Iterator[tuple[int, str]]:
    """Yield each client thread, and the key (such as the group) that selects the coordinator."""
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
    """Return a topic id in Kafka's form of 22 characters (`Uuid.toString`)."""
    try:
        return urlsafe_b64encode(UUID(topic_id).bytes).decode().rstrip("=")
    except ValueError:  # An id of another system, or a damaged record.
        return topic_id


def _in_flight(group: Group, moves: Sequence[_Move]) -> list[bool]:
    """Return, for each move, whether its `threads` had any active operation during the move."""
    found = [False] * len(moves)
    for ops in slices(group.table("ops"), ("f", "process", "invoke_ns", "complete_ns")):
        begun, ended = ints(ops, "invoke_ns"), ints(ops, "complete_ns")
        begun = np.where((begun >= 0) & (ended >= 0), begun, NEVER)
        first, last = int(begun.min(initial=NEVER)), int(ended.max(initial=NONE))
        for at, move in enumerate(moves):
            from_ns, until_ns = move.span
            if found[at] or from_ns < first or last < until_ns:
                continue
            over = select(ops, (begun <= from_ns) & (ended >= until_ns))
            mine = np.isin(ints(over, "process") % group.facts.plan.concurrency, move.threads)
            if move.transactional:
                mine &= equal(over, "f", F.TXN)
            found[at] = bool(mine.any())
    return found


def _changes(known: Sequence[Reign], end_ns: int) -> Iterator[tuple[str, int, tuple[int, int]]]:
    """Yield each change of a coordinator: the change's name, reported time, and time bounds.

    Args:
        known: All leader epochs of the coordinator's partition, in order.
        end_ns: When the brokers' stop began.
    """
    last = -1
    before: Reign | None = None
    for after in known:
        if before is not None:
            # A fault that cut a leader off may have extended the end of its epoch.
            until_ns = before.until_ns
            by_ns = min(until_ns, after.from_ns + 2 * LATE_NS) if after.from_ns else until_ns
            how = _how(last, after.leader, vacant=before.leader < 0)
            if how and until_ns < UNENDED_NS and by_ns < end_ns:
                yield how, by_ns, (after.from_ns, until_ns)
        before, last = after, after.leader if after.leader >= 0 else last


def _how(last: int, leader: int, *, vacant: bool) -> str:
    """Return the name of a coordinator's change; "" for no change or an unknown predecessor.

    Args:
        last: The last broker that led the coordinator's partition. -1 if no such broker is known.
        leader: The broker that leads now. -1 if there is none.
        vacant: Whether the partition had no leader in between.
    """
    if leader < 0:
        return "" if vacant else "none"
    if leader == last:
        return "returned" if vacant else "renewed"
    return "moved" if last >= 0 else ""
