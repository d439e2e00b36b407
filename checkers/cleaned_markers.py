"""Find out if a cleaner may have removed a transaction's marker before the last leader got it.

A cleaner keeps a marker for at least `delete.retention.ms` after the last record of the transaction
has left the partition. The cleaner stops at the last stable offset. So when the cleaner removes a
marker, every replica in sync has the marker. A replica that was out of sync for longer may still
have a record of the transaction, and may never get the marker. Then the transaction stays open on
this replica only. Kafka promises nothing to such a replica.

The marker may have been removed only if all of these are true:

- The last leader's log has a record of the transaction, and no marker after the record. The
  record's epoch is earlier than the leader's epoch, because a leader writes all markers of its own
  epoch.
- A cleaner may have removed all records of the transaction.
- The log of another replica lacks all of these records.
- Between the send of the record and the start of the leader's epoch, the leader was out of sync for
  longer than logs keep markers. After the send, each other replica that has the record without a
  marker was out of sync that long, too.

If a condition cannot be checked, it counts as true. This happens if a log was not read to its end,
or if the ISR was never reported. If the run shifts clocks, a cleaner may remove a marker at any
time, but a replica in sync still has the marker.

A replica is out of sync while the reported ISR lacks it, and while its process is down. The replica
may have fallen behind earlier, because the leader notices a slow follower late
(`replica.lag.time.max.ms`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from checkers.cleaned import kept, retention_ns
from checkers.columns import NEVER, Ints, equal, ints, present, select, within
from checkers.facts import FINAL, RunFacts
from checkers.group import Group, Leader, ReplicaLog
from checkers.group_reasons import ends_of
from checkers.replica_reasons import told_ns
from checkers.told_isrs import told_by_leaders
from results.record.tuning import KAFKAS_LAG_MS, LAG_TIME, OUR_LAG_MS, number_of

_NOTICED = 1.5
"""The maximum time until a slow follower is noticed, as a multiple of the lag time.

A leader looks for slow followers at intervals of half the lag time.
"""
_LOOK_NS = 500_000_000
"""The maximum age of a reported ISR: brokers are asked for it several times a second."""
_Spans = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class _Open:
    """A transaction that is open in a log.

    Attributes:
        offsets: The offsets of the transaction's records: of all records, or only of the first.
        sent_ns: When the first record was sent; -1 if unknown.
    """

    offsets: Ints
    sent_ns: int = -1


def may_lack_marker(group: Group, offset: int) -> bool:
    """Return whether a marker may have been removed before the last leader got that marker.

    Args:
        group: The run's rows of one partition.
        offset: The leader's last stable offset: where the transaction begins.
    """
    leader = group.leader
    if leader is None or not group.facts.compacted:
        return False
    logs = group.logs.get(FINAL, {})
    mine, opened = logs.get(leader.node), _Open(offsets=np.array([offset], np.int64))
    if mine is not None and _is_whole(group, mine):
        known = _opened(group, leader, mine, offset)
        if known is None:
            return False
        opened = known
    others = [log for node, log in sorted(logs.items()) if node != leader.node]
    if len(others) + 1 >= group.members and not any(
        _may_lack(group, each, opened) for each in others
    ):
        return False
    led_ns = told_ns(group, leader.epoch) if leader.epoch >= 0 else NEVER
    return _was_away(group, leader.node, opened.sent_ns, led_ns) and all(
        _was_away(group, each.node, opened.sent_ns, NEVER)
        for each in others
        if _is_whole(group, each) and _is_open(each, int(opened.offsets[0]))
    )


def _is_whole(group: Group, log: ReplicaLog) -> bool:
    return log.whole and log.node not in group.facts.unreadable_nodes


def _opened(group: Group, leader: Leader, log: ReplicaLog, offset: int) -> _Open | None:
    """Return the open transaction at an offset; None if no cleaner can have removed its marker."""
    at = int(np.searchsorted(log.offsets, offset))  # A cleaner may have taken its first records.
    if at == len(log.offsets) or not _is_open(log, int(log.offsets[at])):
        return None
    if 0 <= leader.epoch <= int(log.epochs[at]):
        return None
    sends, producer = group.table("sends"), int(log.producer_ids[at])
    rows = select(sends, equal(sends, "value", int(log.values[at])))
    if not present(rows, "txn_id").all():
        return None
    own = (log.offsets >= log.offsets[at]) & (log.producer_ids == producer) & (log.controls != 1)
    staying = ints(group.committed, "value")[kept(group)]
    if within(log.values[own], staying).any():
        return None
    sent_ns = int(ints(rows, "invoke_ns").min(initial=NEVER))
    return _Open(offsets=log.offsets[own], sent_ns=sent_ns if rows.num_rows else -1)


def _is_open(log: ReplicaLog, offset: int) -> bool:
    """Return whether a log has data at an offset, and no marker of the producer after it."""
    at = log.at(offset)
    if at is None or log.controls[at] == 1:
        return False
    return int(ends_of(log, np.array([offset], np.int64)).markers[0]) < 0


def _may_lack(group: Group, log: ReplicaLog, opened: _Open) -> bool:
    """Return whether a cleaner may have removed a transaction and its marker from a log."""
    first = int(opened.offsets[0])
    if first >= log.read_end:
        return not _is_whole(group, log)
    return log.start <= first and not within(opened.offsets, log.offsets).any()


def _was_away(group: Group, node: str, since_ns: int, until_ns: int) -> bool:
    """Return whether a replica may have been out of sync for longer than logs keep markers."""
    spans, facts = group.view(_out_of_sync), group.facts
    if not spans:
        return True
    stay_ns = 0 if facts.plan.shifts_clocks else retention_ns(facts)
    return any(
        from_ns < until_ns
        and min(to_ns, until_ns) - max(from_ns - unnoticed_ns, since_ns) > stay_ns
        for unnoticed_ns, times in spans.items()
        for from_ns, to_ns in times.get(node, ())
    )


def _out_of_sync(group: Group) -> Mapping[int, Mapping[str, _Spans]]:
    """Return the periods in which each node's replica was out of sync.

    Returns:
        Two mappings from a node to periods. The first has the periods in which the process was
            down. The second has the periods in which the reported ISRs lacked the node. The key of
            each mapping is a duration: for that long before a period, a replica may have been out
            of sync unnoticed. If no ISR was reported, the result is empty.
    """
    told = told_by_leaders(group)
    if not told.num_rows:
        return {}
    down: dict[str, _Spans] = {}
    for each in group.facts.absences:
        down.setdefault(each.node, []).append((each.from_ns, each.until_ns))
    times = ints(told, "observed_ns").tolist()
    isrs = [frozenset(each or ()) for each in told["isr"].to_pylist()]
    out = {f"n{id_}": _without(id_, times, isrs) for id_ in group.facts.brokers}
    return {0: down, _unnoticed_ns(group.facts): out}


def _without(id_: int, times: list[int], isrs: list[frozenset[int]]) -> _Spans:
    """Return the periods from an ISR without a broker until the next ISR with that broker."""
    spans: _Spans = []
    begun: int | None = None
    for at_ns, isr in zip(times, isrs, strict=True):
        if id_ not in isr:
            begun = at_ns if begun is None else begun
        elif begun is not None:
            spans.append((begun, at_ns))
            begun = None
    return spans if begun is None else [*spans, (begun, NEVER)]


def _unnoticed_ns(facts: RunFacts) -> int:
    """Return how long a follower may be behind before the reported ISR lacks that follower."""
    default_ms = KAFKAS_LAG_MS if facts.plan.named.is_strange else OUR_LAG_MS
    told = (number_of(each.get(LAG_TIME, "")) for each in facts.plan.settings)
    longest_ms = max((each for each in told if each is not None), default=default_ms)
    return int(max(longest_ms, 0) * _NOTICED) * 1_000_000 + _LOOK_NS
