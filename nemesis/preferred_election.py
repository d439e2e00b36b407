"""The fault `preferred-election`: the first replica of a partition is made to lead it, under load.

Clean, and yet a change of leader: clients must find the new one, and what was in flight is refused
or answered twice. A partition that its first replica leads already has its replicas put in another
order before, which the heal undoes.
"""

from cluster.protocol import ClusterError
from nemesis.cluster_effects import Led, PreferredElectionEffect
from nemesis.in_words import InWords
from nemesis.leadership import MovedPartition
from nemesis.protocol import Aim, Patience, Site

REORDER_LIMIT_S = 10.0
ELECTED_LIMIT_S = 15.0
"""The order was taken; on a busy machine brokers tell late what came of it."""


class PreferredElection(MovedPartition):
    """A leader elected by order.

    Args:
        aim: Which fault this is; its place is the partition, or one is drawn that a target leads.
        site: Where.

    Raises:
        ClusterError: Nobody else can be elected.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site)
        self._order = _order(self.before)
        if self._order is None:
            raise ClusterError(
                f"no other replica of {self.partition} is in sync, so none can be elected"
            )

    @property
    def is_moved(self) -> bool:
        """Whether the replicas are put in another order; who leads after the heal may go on."""
        return self._order != self.before.replicas

    def inject(self) -> None:
        """Put the replicas in order if need be, and have the first elected."""
        self.begin()
        if self._order is not None and self.is_moved:
            order = self._order
            self.partition.orders.reassign(self.partition.place, order)
            self.partition.wait(
                lambda now: now.replicas == order,
                Patience(limit_s=REORDER_LIMIT_S),
                what="another order of the replicas",
            )
        self.partition.orders.elect_preferred(self.partition.place)

    def confirm(self, patience: Patience) -> PreferredElectionEffect | None:
        """See that the first replica leads, and that another did before."""
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
    """Return an order of the replicas whose first can be elected and does not lead; None: none."""
    others = [node for node in now.replicas if node in now.isr and node != now.leader]
    if not others:
        return None
    first = others[0]
    return (first, *(node for node in now.replicas if node != first))


SAYS = {
    "preferred-election": InWords(
        does="the first replica of a partition is made to lead it, under load",
        injected="ElectLeaders; another order of replicas before, if it leads already",
        proven="leader and epoch before and after, as metadata tell",
        undone="the old order of replicas; all in the ISR",
    ),
}
