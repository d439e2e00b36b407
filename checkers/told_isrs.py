"""The ISRs of a partition as brokers and ZooKeeper reported them.

A broker reports changes of the ISR in order, but perhaps late.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.columns import NONE, equal, ints, present, select, take, texts
from checkers.group import Group
from results.record.terms import Source

_ISR_FROM = (Source.ZOOKEEPER, Source.METADATA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One report of an ISR.

    Attributes:
        by: Source, observer and incarnation. Reports with the same `by` are in order.
        asked_ns, seen_ns: When the broker was asked, and when it answered.
        epoch: The reported leader epoch; -1 if unknown.
        isr: The broker ids.
    """

    by: tuple[str, str, int]
    asked_ns: int
    seen_ns: int
    epoch: int
    isr: frozenset[int]

    @property
    def nodes(self) -> frozenset[str]:
        """The ISR as node names."""
        return frozenset(f"n{broker}" for broker in self.isr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """A replica that returned to a full ISR, according to one broker.

    Attributes:
        node: The node of the replica.
        left_ns: When that broker last reported an ISR without the replica.
        asked_ns, seen_ns: When that broker was asked, and when it reported a full ISR.
    """

    node: str
    left_ns: int
    asked_ns: int
    seen_ns: int


def told_isrs(group: Group) -> tuple[Told, ...]:
    """Return the reported ISRs, in the order of the reports."""
    return group.view(_told)


def isr_returns(group: Group) -> tuple[Return, ...]:
    """Return the replicas that left the ISR and later were in a full ISR again."""
    return group.view(_returns)


def _told(group: Group) -> tuple[Told, ...]:
    rows, names = group.table("leadership"), ("source", "observer", "incarnation")
    told = present(rows, "isr") & present(rows, "observed_ns") & present(rows, "asked_ns")
    told &= equal(rows, "source", Source.METADATA, Source.ZOOKEEPER)
    wanted = select(rows, told).select([*names, "leader_epoch", "isr", "asked_ns", "observed_ns"])
    return tuple(
        Told(
            by=(row["source"], row["observer"], row["incarnation"]),
            asked_ns=row["asked_ns"],
            seen_ns=row["observed_ns"],
            epoch=NONE if row["leader_epoch"] is None else row["leader_epoch"],
            isr=frozenset(row["isr"]),
        )
        for row in sorted(wanted.to_pylist(), key=lambda row: int(row["observed_ns"]))
    )


def _returns(group: Group) -> tuple[Return, ...]:
    brokers, found = frozenset(group.facts.brokers), list[Return]()
    left: dict[tuple[str, str, int], dict[int, int]] = {}
    for told in told_isrs(group):
        away = left.setdefault(told.by, {})
        if len(told.isr) < group.members:
            away.update(dict.fromkeys(brokers - told.isr, told.seen_ns))
            continue
        found += [
            Return(node=f"n{id_}", left_ns=left_ns, asked_ns=told.asked_ns, seen_ns=told.seen_ns)
            for id_, left_ns in away.items()
            if id_ in told.isr
        ]
        away.clear()
    return tuple(found)


def told_by_leaders(group: Group) -> pa.Table:
    """Return the reports of the ISR, sorted by time, without reports from outdated epochs.

    If ZooKeeper reported the ISR, only ZooKeeper's reports count. Otherwise, if the leader of the
    partition reported the ISR, only the leader's reports count. Otherwise all reports count.
    """
    rows = group.table("leadership")
    known = present(rows, "isr") & present(rows, "observed_ns")
    sources = (select(rows, known & equal(rows, "source", name)) for name in _ISR_FROM)
    told = _of_leaders(next((each for each in sources if each.num_rows), rows.slice(0, 0)))
    epochs, times = ints(told, "leader_epoch"), ints(told, "observed_ns")
    order = np.lexsort((epochs, times))
    ranked = epochs[order]
    newest = ranked == np.maximum.accumulate(ranked) if len(ranked) else ranked >= 0
    return take(told, order[newest])


def _of_leaders(told: pa.Table) -> pa.Table:
    """Return the reports by the partition's leaders. Without such reports, return all reports."""
    leaders = [f"n{broker}" for broker in ints(told, "leader").tolist()]
    own = np.array(leaders, dtype=object) == np.array(texts(told, "observer"), dtype=object)
    return select(told, own) if own.any() else told
