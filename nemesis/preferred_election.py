"""The fault `preferred-election`: the first replica of a partition is made to lead it, under load.

Clean, and yet a change of leader: clients must find the new one, and what was in flight is refused
or answered twice. A partition that its first replica leads already has its replicas put in another
order before, which the heal undoes.
"""

from cluster.protocol import ClusterError
from nemesis.cluster_effects import AssignedAgainEffect, Led, PreferredElectionEffect
from nemesis.leadership import Partition
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Reassign
from results.record.clock import stopwatch_s

REORDER_LIMIT_S = 10.0


class PreferredElection:
    """A leader elected by order.

    Args:
        aim: Which fault this is; its place is the partition, or one is drawn that a target leads.
        site: Where.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self.targets = aim.targets
        self._partition = Partition(aim, site)
        self._before = self._partition.led()
        self._order = _order(self._before)
        if self._order is None:
            raise ClusterError(
                f"no other replica of {self._partition} is in sync, so none can be elected"
            )
        self._started_s = self._healed_s = stopwatch_s()

    @property
    def _reordered(self) -> bool:
        return self._order != self._before.replicas

    def undo(self) -> tuple[Reassign, ...]:
        """Return the order of the replicas, as it was."""
        place, replicas = self._partition.place, self._before.replicas
        return (Reassign(topic=place[0], partition=place[1], replicas=replicas),)

    def inject(self) -> None:
        """Put the replicas in order if need be, and have the first elected."""
        self._started_s = stopwatch_s()
        if self._order is not None and self._reordered:
            order = self._order
            self._partition.orders.reassign(self._partition.place, order)
            self._partition.wait(
                lambda now: now.replicas == order,
                Patience(limit_s=REORDER_LIMIT_S),
                what="another order of the replicas",
            )
        self._partition.orders.elect_preferred(self._partition.place)

    def confirm(self, patience: Patience) -> PreferredElectionEffect | None:
        """See that the first replica leads, and that another did before."""
        after = self._partition.wait(self._is_elected, patience, what="the preferred leader")
        if after is None:
            return None
        return PreferredElectionEffect(
            took_s=stopwatch_s() - self._started_s,
            place=self._partition.place,
            before=self._before,
            after=after,
            reordered=self._reordered,
        )

    def heal(self) -> None:
        """Give the replicas their order back; who leads now may go on."""
        self._healed_s = stopwatch_s()
        if self._reordered:
            self._partition.orders.reassign(self._partition.place, self._before.replicas)

    def confirm_healed(self, patience: Patience) -> AssignedAgainEffect | None:
        """See that the replicas are in their order, with a leader."""
        after = self._partition.wait(
            lambda now: now.replicas == self._before.replicas and now.leader is not None,
            patience,
            what="the replicas in their order",
        )
        if after is None:
            return None
        took_s = stopwatch_s() - self._healed_s
        return AssignedAgainEffect(took_s=took_s, place=self._partition.place, after=after)

    def _is_elected(self, now: Led) -> bool:
        later = now.leader_epoch > self._before.leader_epoch
        return later and now.leader == now.replicas[0] != self._before.leader


def _order(now: Led) -> tuple[str, ...] | None:
    """Return an order of the replicas whose first can be elected and does not lead; None: none."""
    others = [node for node in now.replicas if node in now.isr and node != now.leader]
    if not others:
        return None
    first = others[0]
    return (first, *(node for node in now.replicas if node != first))
