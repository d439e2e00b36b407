"""Find offsets that an old leader may have used twice in one leader epoch after a disk loss.

With ZooKeeper, a controller before Kafka 2.2 learns that a broker is down only when the broker's
session ends. A leader may lose power or its disk, and return before its session ends. The broker is
then still the leader of the same epoch. So this leader appends new records at the lost offsets in
the same epoch. The followers that have the lost records keep these, because the lost and the new
records have the same epoch.

Since Kafka 2.2 the controller sees that a returned broker is a new incarnation (KIP-380). Then the
controller elects a leader in a new epoch. With KRaft each registration has its own broker epoch
(KIP-631). In such versions, two records of one epoch at one offset prove two leaders.
"""

from collections.abc import Iterable

import numpy as np

from checkers.columns import equal, ints, present, select
from checkers.facts import DiskLoss
from checkers.group import LEADER_SOURCES, Group
from checkers.protocol import Excuse, Labels, Premise

_FIRST_THAT_TELLS_LIVES_APART = (2, 2)


def reuse(group: Group, epoch: int, first: int, last: int) -> Labels:
    """Return the reason that lets the records of one epoch differ in a range of offsets.

    Args:
        group: The run's rows of one partition.
        epoch: The leader epoch of the records on both replicas.
        first: The first offset that differs.
        last: The last offset that differs.

    Returns:
        The excuse `reused-epoch` if a fault removed these offsets from a broker that already led in
        the epoch. If such a fault was not confirmed: a broken premise.
    """
    plan = group.facts.plan
    told_apart = plan.version_numbers >= _FIRST_THAT_TELLS_LIVES_APART
    if epoch < 0 or told_apart or plan.has_quorum:
        return (), ()
    took = [each for each in _hit_leaders(group, epoch) if each.end_after <= first]
    took = [each for each in took if last < each.end_before]
    if any(each.excuse != Excuse.UNCONFIRMED for each in took):
        return (Excuse.REUSED.value,), ()
    return (), (Premise.KNOWN_LOSSES.value,) if took else ()


def all_reused(each: Iterable[Labels]) -> Labels:
    """Return the reason that allows all of several offset ranges; empty if a range has none."""
    labels = set(each)
    if not labels or ((), ()) in labels:
        return (), ()
    return max(labels, key=lambda label: len(label[1]))


def _hit_leaders(group: Group, epoch: int) -> list[DiskLoss]:
    """Return the partition's disk losses on brokers that already led in the epoch."""
    rows = group.table("leadership")
    told = equal(rows, "source", *LEADER_SOURCES) & present(rows, "observed_ns")
    led = select(rows, told & (ints(rows, "leader_epoch") == epoch) & (ints(rows, "leader") >= 0))
    leaders, seen_ns = ints(led, "leader"), ints(led, "observed_ns")
    since = {f"n{broker}": seen_ns[leaders == broker].min() for broker in np.unique(leaders)}
    return [
        loss
        for loss in group.facts.disk_losses
        if loss.concerns(group.topic, group.partition)
        and any(node in since and since[node] <= loss.until_ns for node in loss.nodes)
    ]
