"""The fault `reassignment`: a partition is moved to other replicas, and back again, under load.

If some node has no replica of the partition, one replica moves to such a node. The log is copied
under load. If all nodes have a replica, one replica is removed from the assignment, and the heal
copies it again. The moved or removed replica can be the leader's. If all nodes have a replica and
there are only two, only their order changes. The copies are not throttled.
"""

from collections.abc import Sequence
from random import Random

from nemesis.cluster_effects import Led, ReassignmentEffect
from nemesis.in_words import InWords
from nemesis.leadership import MovedPartition
from nemesis.protocol import Aim, Patience, Site

MOVE_LIMIT_S = 20.0
"""Seconds for a move, because a moved replica must first copy its log."""
ENOUGH_REPLICAS = 3
"""The smallest number of replicas of which one can be removed with `min.insync.replicas=2`."""


class Reassignment(MovedPartition):
    """A fault that moves a partition to other replicas.

    Args:
        aim: The fault's id, targets and partition. If no partition is given, the fault chooses a
            random partition that a target leads.
        site: The run's cluster and hosts.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site)
        self._wanted = another(self.before.replicas, site.cluster.nodes, aim.rng)

    def inject(self) -> None:
        """Request the move. Kafka then moves the replicas in the background."""
        self.begin()
        self.partition.orders.reassign(self.partition.place, self._wanted)

    def confirm(self, patience: Patience) -> ReassignmentEffect | None:
        """Confirm that the metadata lists exactly the new replicas."""
        longer = Patience(limit_s=max(patience.limit_s, MOVE_LIMIT_S), stop=patience.stop)
        after = self.partition.wait(
            lambda now: now.replicas == self._wanted, longer, what="the new replicas"
        )
        if after is None:
            return None
        return ReassignmentEffect(
            took_s=self.took_s, place=self.partition.place, before=self.before, after=after
        )

    def is_back(self, now: Led) -> bool:
        """Return whether the partition has its old replicas, all in sync."""
        return now.replicas == self.before.replicas and set(now.isr) == set(now.replicas)


def another(replicas: Sequence[str], nodes: Sequence[str], rng: Random) -> tuple[str, ...]:
    """Return other or fewer replicas for a partition, or another order of its replicas.

    Args:
        replicas: The current replicas.
        nodes: The nodes of the cluster.
        rng: The source of random choices.
    """
    away = rng.choice(list(replicas))
    kept = [node for node in replicas if node != away]
    free = [node for node in nodes if node not in replicas]
    if free:
        return (*kept, rng.choice(free))
    if len(replicas) >= ENOUGH_REPLICAS:
        return tuple(kept)
    return tuple(reversed(replicas))


SAYS = {
    "reassignment": InWords(
        does="a partition is moved to other replicas under load",
        injected="AlterPartitionReassignments",
        proven="the replicas in the metadata, before and after",
        undone="the old replicas; all are in the ISR",
    ),
}
