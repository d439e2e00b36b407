"""Where an old leader may have used an offset twice in one epoch, because its disk forgot.

With ZooKeeper, a controller before Kafka 2.2 learns that a broker is gone from the end of the
broker's session. A leader that loses power, or its disk, and returns before that is still the
leader, of the same epoch. It appends at the offsets that it has lost, in that epoch, and followers
that have the lost records keep them: nothing but the epoch tells the two apart. Since 2.2 a broker
that returns is another one to the controller (KIP-380), which elects anew, in a new epoch; with
KRaft each registration has an epoch of its own (KIP-631). There the same is two leaders.
"""

from collections.abc import Iterable

import numpy as np

from checkers.columns import equal, ints, present, select
from checkers.facts import DiskLoss
from checkers.group import LEADER_SOURCES, Group
from checkers.protocol import Excuse, Labels, Premise

_FIRST_THAT_TELLS_LIVES_APART = (2, 2)


def reuse(group: Group, epoch: int, first: int, last: int) -> Labels:
    """Return what excuses different records of one epoch at some offsets.

    Args:
        group: The partition.
        epoch: Of the records on both replicas.
        first: The first offset that differs.
        last: The last one.

    Returns:
        `reused-epoch`, if a fault took these offsets from a broker that led in the epoch before;
        a broken premise, if such a fault was not confirmed.
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
    """Return what excuses several stretches at once: nothing if one is not, doubt if one is one."""
    labels = set(each)
    if not labels or ((), ()) in labels:
        return (), ()
    return max(labels, key=lambda label: len(label[1]))


def _hit_leaders(group: Group, epoch: int) -> list[DiskLoss]:
    """Return the losses of the partition that hit a broker which led in the epoch already."""
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
