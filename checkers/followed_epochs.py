"""Bound the leader epochs that a broker's replica followed, or led in, at the time of a report.

No report of a replica names an epoch. The highest possible epoch: in KRaft, a broker knows an epoch
before its replicas follow the new leader. So the epoch is at most the epoch in the next metadata
answer of the same broker process.

The lowest possible epoch: in KRaft, an unclean election leaves only the new leader in the ISR. A
replica that is in an ISR of several has followed the leader of this epoch, or of an epoch since the
last unclean election. Then it has also dropped the records that this election lost.
"""

import numpy as np

from checkers.acknowledger import LOOK_NS
from checkers.columns import NEVER, NONE, Ints, equal, ints, present, select
from checkers.group import Group
from results.record.terms import Source


def rising(group: Group, epoch: int) -> int:
    """Return an epoch, or `NEVER` if it is unknown, or if the system's epochs may not rise."""
    plan = group.facts.plan
    return epoch if epoch >= 0 and (plan.has_quorum or plan.kept_outside) else NEVER


def last_epoch(group: Group) -> int:
    """Return the highest leader epoch in any source."""
    told = [ints(group.table("leadership"), "leader_epoch")]
    told += [log.epochs for logs in group.logs.values() for log in logs.values()]
    return max((int(each.max()) for each in told if len(each)), default=NONE)


def ceilings(group: Group, node: str, times_ns: Ints, lives: Ints) -> Ints:
    """Return, for each report of a broker, the latest epoch to which it may belong.

    Args:
        group: The run's rows of one partition.
        node: The broker's node.
        times_ns: When the broker reported. Files after the stop have the time -1.
        lives: The incarnations of the broker.
    """
    last = np.full(len(times_ns), last_epoch(group))
    if not group.facts.plan.has_quorum:
        return last
    rows = group.table("leadership")
    told = equal(rows, "source", Source.METADATA) & equal(rows, "observer", node)
    told &= present(rows, "asked_ns") & (ints(rows, "leader_epoch") >= 0)
    mine = select(rows, told)
    order = np.argsort(ints(mine, "asked_ns"), kind="stable")
    asked_ns, epochs, those = (
        ints(mine, name)[order] for name in ("asked_ns", "leader_epoch", "incarnation")
    )
    at = np.searchsorted(asked_ns, times_ns, side="left")
    same = (np.append(those, NONE)[at] == lives) & (times_ns >= 0)
    return np.where(same & (at < len(epochs)), np.append(epochs, NONE)[at], last)


def floors(group: Group, node: str, times_ns: Ints, lives: Ints) -> Ints:
    """Return, for each report of a broker, an epoch; -1 if unknown.

    The replica had dropped what unclean elections up to this epoch lost.

    Args:
        group: The run's rows of one partition.
        node: The broker's node.
        times_ns: When the broker reported.
        lives: The incarnations of the broker. A restarted broker may read an old high watermark.
    """
    found = np.full(len(times_ns), NONE)
    if not group.facts.plan.has_quorum:
        return found
    rows = group.table("leadership")
    told = equal(rows, "source", Source.METADATA) & equal(rows, "observer", node)
    mine = select(rows, told & present(rows, "observed_ns") & present(rows, "isr"))
    isrs = [{f"n{broker}" for broker in isr or ()} for isr in mine["isr"].to_pylist()]
    within = np.array([node in isr and len(isr) > 1 for isr in isrs], dtype=np.bool_)
    seen_ns, epochs, those = (
        ints(mine, name)[within] for name in ("observed_ns", "leader_epoch", "incarnation")
    )
    for life in np.unique(those).tolist():
        of = np.flatnonzero(those == life)
        of = of[np.argsort(seen_ns[of], kind="stable")]
        highest = np.append(np.maximum.accumulate(epochs[of]), NONE)
        at = np.flatnonzero(lives == life)
        found[at] = highest[np.searchsorted(seen_ns[of] + LOOK_NS, times_ns[at], "right") - 1]
    return found
