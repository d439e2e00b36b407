"""The fault `reassignment`: a partition is moved to other replicas under load, and back.

Where there is a node without a replica, one replica moves there, and its log is copied meanwhile.
Where all nodes have one, a replica is taken off the assignment, maybe the leader's own, and copied
anew by the heal; with two replicas only their order changes. Not throttled.
"""

from collections.abc import Sequence
from random import Random

from nemesis.cluster_effects import AssignedAgainEffect, ReassignmentEffect
from nemesis.leadership import Partition
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Reassign
from results.record.clock import stopwatch_s

MOVE_LIMIT_S = 20.0
"""A replica that moves has to copy its log first."""
ENOUGH_REPLICAS = 3
"""From so many on, one can be taken away and `min.insync.replicas` of two is still met."""


class Reassignment:
    """A partition on other replicas.

    Args:
        aim: Which fault this is; its place is the partition, or one is drawn that a target leads.
        site: Where.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self.targets = aim.targets
        self._partition = Partition(aim, site)
        self._before = self._partition.led()
        self._wanted = another(self._before.replicas, site.cluster.nodes, aim.rng)
        self._started_s = self._healed_s = stopwatch_s()

    def undo(self) -> tuple[Reassign, ...]:
        """Return the replicas, as they were."""
        place, replicas = self._partition.place, self._before.replicas
        return (Reassign(topic=place[0], partition=place[1], replicas=replicas),)

    def inject(self) -> None:
        """Order the move; it goes on by itself."""
        self._started_s = stopwatch_s()
        self._partition.orders.reassign(self._partition.place, self._wanted)

    def confirm(self, patience: Patience) -> ReassignmentEffect | None:
        """See that the metadata have the new replicas, and no others."""
        longer = Patience(limit_s=max(patience.limit_s, MOVE_LIMIT_S), stop=patience.stop)
        after = self._partition.wait(
            lambda now: now.replicas == self._wanted, longer, what="the new replicas"
        )
        if after is None:
            return None
        return ReassignmentEffect(
            took_s=stopwatch_s() - self._started_s,
            place=self._partition.place,
            before=self._before,
            after=after,
        )

    def heal(self) -> None:
        """Order the move back."""
        self._healed_s = stopwatch_s()
        self._partition.orders.reassign(self._partition.place, self._before.replicas)

    def confirm_healed(self, patience: Patience) -> AssignedAgainEffect | None:
        """See that the replicas are as before, and all of them in sync."""
        after = self._partition.wait(
            lambda now: now.replicas == self._before.replicas and set(now.isr) == set(now.replicas),
            patience,
            what="the old replicas, in sync",
        )
        if after is None:
            return None
        took_s = stopwatch_s() - self._healed_s
        return AssignedAgainEffect(took_s=took_s, place=self._partition.place, after=after)


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
