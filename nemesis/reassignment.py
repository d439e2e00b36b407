"""The fault `reassignment`: a partition is moved to other replicas under load, and back.

Where there is a node without a replica, one replica moves there, and its log is copied meanwhile.
Where all nodes have one, a replica is taken off the assignment, maybe the leader's own, and copied
anew by the heal; with two replicas only their order changes. Not throttled.
"""

from collections.abc import Sequence
from random import Random

from nemesis.cluster_effects import Led, ReassignmentEffect
from nemesis.in_words import InWords
from nemesis.leadership import MovedPartition
from nemesis.protocol import Aim, Patience, Site

MOVE_LIMIT_S = 20.0
"""A replica that moves has to copy its log first."""
ENOUGH_REPLICAS = 3
"""From so many on, one can be taken away and `min.insync.replicas` of two is still met."""


class Reassignment(MovedPartition):
    """A partition on other replicas.

    Args:
        aim: Which fault this is; its place is the partition, or one is drawn that a target leads.
        site: Where.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site)
        self._wanted = another(self.before.replicas, site.cluster.nodes, aim.rng)

    def inject(self) -> None:
        """Order the move; it goes on by itself."""
        self.begin()
        self.partition.orders.reassign(self.partition.place, self._wanted)

    def confirm(self, patience: Patience) -> ReassignmentEffect | None:
        """See that the metadata have the new replicas, and no others."""
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
        """Tell whether the replicas are as before, and all of them in sync."""
        return now.replicas == self.before.replicas and set(now.isr) == set(now.replicas)


def another(replicas: Sequence[str], nodes: Sequence[str], rng: Random) -> tuple[str, ...]:
    """Return other replicas for a partition, or another order of them.

    Args:
        replicas: As they are.
        nodes: Of the cluster.
        rng: Draws.
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
        proven="replicas before and after",
        undone="moved back; all in the ISR",
    ),
}
