"""What faults on leadership share: one partition, as the cluster's metadata tell it."""

from collections.abc import Callable

from cluster.protocol import CanMoveLeaders, ClusterError, PartitionState
from nemesis.cluster_effects import AssignedAgainEffect, Led, Place
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Reassign
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until

INTERNAL = "__"
"""Topics of Kafka's own, and of ours, whose names begin so carry none of the run's values."""

TOLD_LIMIT_S = 5.0


Concerns = Callable[[PartitionState, tuple[str, ...]], bool]
"""Whether a fault that has some targets may be about a partition."""


def leads(state: PartitionState, targets: tuple[str, ...]) -> bool:
    """Tell whether a target leads a partition."""
    return state.leader in targets


def has_all(state: PartitionState, targets: tuple[str, ...]) -> bool:
    """Tell whether targets are all replicas of a partition, and nobody else."""
    return set(state.replicas) == set(targets)


class Partition:
    """One partition that a fault is about.

    Args:
        aim: Names it by its place, or by what the targets are in it.
        site: Where.
        concerns: What that is; where it is nothing in any partition, all are drawn from.

    Raises:
        ClusterError: There is none to be found, or the cluster takes no such orders.
    """

    def __init__(self, aim: Aim, site: Site, concerns: Concerns = leads) -> None:
        if not isinstance(site.cluster, CanMoveLeaders):
            raise ClusterError("this cluster takes no orders on who leads what")
        self.orders: CanMoveLeaders = site.cluster
        self._site, self._stop = site, aim.stop
        self.place = aim.place or self._drawn(aim, concerns)

    def led(self) -> Led:
        """Return how it is now; a busy machine needs more than one question.

        Raises:
            ClusterError: Nobody tells.
        """
        now = self.wait(lambda _: True, Patience(limit_s=TOLD_LIMIT_S, stop=self._stop), what="it")
        if now is None:
            raise ClusterError(f"nobody tells who leads {self}")
        return now

    def wait(self, wanted: Callable[[Led], bool], patience: Patience, *, what: str) -> Led | None:
        """Wait until it is as wanted; None if that does not come."""

        def as_wanted() -> Led | None:
            now = self._told()
            return now if now is not None and wanted(now) else None

        try:
            return wait_until(
                as_wanted, timeout_s=patience.limit_s, what=what, interval_s=0.1, stop=patience.stop
            )
        except WaitTimeoutError:
            return None

    def _told(self) -> Led | None:
        view = self._site.cluster.view()
        state = view.partitions.get(self.place) if view else None
        if view is None or state is None:
            return None
        return Led(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            replicas=state.replicas,
            isr=state.isr,
            asked=view.asked,
        )

    def __str__(self) -> str:
        """Return its name as Kafka writes it: `log-0-1`."""
        return f"{self.place[0]}-{self.place[1]}"

    def _drawn(self, aim: Aim, concerns: Concerns) -> Place:
        """Return a partition of the run's own: one that the targets concern, if there is any."""
        view = self._site.cluster.view()
        states = view.partitions if view else {}
        own = {at: state for at, state in sorted(states.items()) if not at[0].startswith(INTERNAL)}
        meant = [at for at, state in own.items() if concerns(state, aim.targets)]
        if not own:
            raise ClusterError("no partition is known now")
        return aim.rng.choice(meant or list(own))


class MovedPartition:
    """What faults share that change the replicas of a partition, or their order.

    Args:
        aim: Which fault this is; its place is the partition, or one is drawn that a target leads.
        site: Where.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self.targets = aim.targets
        self.partition = Partition(aim, site)
        self.before = self.partition.led()
        self._started_s = self._healed_s = stopwatch_s()

    @property
    def took_s(self) -> float:
        """Seconds since `begin`."""
        return stopwatch_s() - self._started_s

    def begin(self) -> None:
        """Note when the fault begins."""
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Reassign, ...]:
        """Return the replicas, in their order, as they were."""
        place, replicas = self.partition.place, self.before.replicas
        return (Reassign(topic=place[0], partition=place[1], replicas=replicas),)

    def heal(self) -> None:
        """Order the replicas back."""
        self._healed_s = stopwatch_s()
        if self.is_moved:
            self.partition.orders.reassign(self.partition.place, self.before.replicas)

    def confirm_healed(self, patience: Patience) -> AssignedAgainEffect | None:
        """See that the replicas are as before."""
        after = self.partition.wait(self.is_back, patience, what="the replicas as they were")
        if after is None:
            return None
        took_s = stopwatch_s() - self._healed_s
        return AssignedAgainEffect(took_s=took_s, place=self.partition.place, after=after)

    @property
    def is_moved(self) -> bool:
        """Whether the fault changes anything that a heal has to give back."""
        return True

    def is_back(self, now: Led) -> bool:
        """Tell whether the partition is as before."""
        return now.replicas == self.before.replicas and now.leader is not None
