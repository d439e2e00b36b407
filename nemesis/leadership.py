"""What faults on leadership share: one partition, as the cluster's metadata tell it."""

from collections.abc import Callable

from cluster.protocol import CanMoveLeaders, ClusterError, PartitionState
from nemesis.cluster_effects import Led, Place
from nemesis.protocol import Aim, Patience, Site
from results.record.clock import WaitTimeoutError, wait_until

INTERNAL = "__"
"""Topics of Kafka's own, and of ours, whose names begin so carry none of the run's values."""


class Partition:
    """One partition that a fault is about.

    Args:
        aim: Names it by its place, or by a leader of some.
        site: Where.

    Raises:
        ClusterError: There is none to be found, or the cluster takes no such orders.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        if not isinstance(site.cluster, CanMoveLeaders):
            raise ClusterError("this cluster takes no orders on who leads what")
        self.orders: CanMoveLeaders = site.cluster
        self._site = site
        self.place = aim.place or self._drawn(aim)

    def led(self) -> Led:
        """Return how it is now.

        Raises:
            ClusterError: Nobody tells.
        """
        view = self._site.cluster.view()
        state = view.partitions.get(self.place) if view else None
        if view is None or state is None:
            raise ClusterError(f"nobody tells who leads {self}")
        return Led(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            replicas=state.replicas,
            isr=state.isr,
            asked=view.asked,
        )

    def wait(self, wanted: Callable[[Led], bool], patience: Patience, *, what: str) -> Led | None:
        """Wait until it is as wanted; None if that does not come."""

        def as_wanted() -> Led | None:
            try:
                now = self.led()
            except ClusterError:
                return None
            return now if wanted(now) else None

        try:
            return wait_until(
                as_wanted, timeout_s=patience.limit_s, what=what, interval_s=0.1, stop=patience.stop
            )
        except WaitTimeoutError:
            return None

    def __str__(self) -> str:
        """Return its name as Kafka writes it: `log-0-1`."""
        return f"{self.place[0]}-{self.place[1]}"

    def _drawn(self, aim: Aim) -> Place:
        """Return a partition of the run's own: one that a target leads, if there is any."""
        view = self._site.cluster.view()
        states = view.partitions if view else {}
        own = {at: state for at, state in sorted(states.items()) if not at[0].startswith(INTERNAL)}
        led = [at for at, state in own.items() if _concerns(state, aim.targets)]
        if not own:
            raise ClusterError("no partition is known now")
        return aim.rng.choice(led or list(own))


def _concerns(state: PartitionState, targets: tuple[str, ...]) -> bool:
    return state.leader in targets
