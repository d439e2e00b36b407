"""The fault `preferred-election`: the first replica of a partition is elected leader, under load.

The election is clean, but the leader changes. Clients must find the new leader. Requests in flight
are rejected, and a retry may append records that are already in the log. If the first replica
already leads or is not in sync, the fault first changes the order of the replicas. Then the heal
restores the order.
"""

from cluster.protocol import ClusterError
from nemesis.cluster_effects import Led, PreferredElectionEffect
from nemesis.in_words import InWords
from nemesis.leadership import MovedPartition
from nemesis.protocol import Aim, Patience, Site

REORDER_LIMIT_S = 10.0
ELECTED_LIMIT_S = 15.0
"""Seconds to wait for the result of the election. On a busy machine, brokers report it late."""


class PreferredElection(MovedPartition):
    """A fault that requests the election of another leader.

    Args:
        aim: The fault's id, targets and partition. If no partition is given, the fault chooses a
            random partition that a target leads.
        site: The run's cluster and hosts.

    Raises:
        ClusterError: No other replica can be elected.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site)
        self._order = _order(self.before)
        if self._order is None:
            raise ClusterError(
                f"no other replica of {self.partition} is in sync, so no other replica can be"
                " elected"
            )

    @property
    def is_moved(self) -> bool:
        """Return whether the fault changed the order of replicas. The heal then restores it."""
        return self._order != self.before.replicas

    def inject(self) -> None:
        """Change the order of replicas if necessary, and request the first replica's election."""
        self.begin()
        if self._order is not None and self.is_moved:
            order = self._order
            self.partition.orders.reassign(self.partition.place, order)
            self.partition.wait(
                lambda now: now.replicas == order,
                Patience(limit_s=REORDER_LIMIT_S),
                what="a new order of the replicas",
            )
        self.partition.orders.elect_preferred(self.partition.place)

    def confirm(self, patience: Patience) -> PreferredElectionEffect | None:
        """Confirm that the first replica leads, and that another replica led before."""
        longer = Patience(limit_s=max(patience.limit_s, ELECTED_LIMIT_S), stop=patience.stop)
        after = self.partition.wait(self._is_elected, longer, what="the preferred leader")
        if after is None:
            return None
        return PreferredElectionEffect(
            took_s=self.took_s,
            place=self.partition.place,
            before=self.before,
            after=after,
            reordered=self.is_moved,
        )

    def _is_elected(self, now: Led) -> bool:
        later = now.leader_epoch > self.before.leader_epoch
        return later and now.leader == now.replicas[0] != self.before.leader


def _order(now: Led) -> tuple[str, ...] | None:
    """Return an order in which the first replica is in sync but is not the leader, or None."""
    others = [node for node in now.replicas if node in now.isr and node != now.leader]
    if not others:
        return None
    first = others[0]
    return (first, *(node for node in now.replicas if node != first))


SAYS = {
    "preferred-election": InWords(
        does="the first replica of a partition is elected leader, under load",
        injected=(
            "ElectLeaders; before it a new order of replicas, if the first replica already leads"
            " or is not in sync"
        ),
        proven="leader and leader epoch in the metadata, before and after",
        undone="the old order of replicas; the partition has a leader",
    ),
}
