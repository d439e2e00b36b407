"""Code shared by the faults on leadership: one partition's state in the cluster's metadata."""

from collections.abc import Callable

from cluster.protocol import CanMoveLeaders, ClusterError, PartitionState
from nemesis.cluster_effects import AssignedAgainEffect, Led, Place
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Reassign
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until

INTERNAL = "__"
"""The prefix of internal topics of Kafka and Logquake. These contain no messages of the run."""

TOLD_LIMIT_S = 5.0


Concerns = Callable[[PartitionState, tuple[str, ...]], bool]
"""The type of a function that returns whether a fault on given targets can use a partition."""


def leads(state: PartitionState, targets: tuple[str, ...]) -> bool:
    """Return whether a target leads the partition."""
    return state.leader in targets


def has_all(state: PartitionState, targets: tuple[str, ...]) -> bool:
    """Return whether the targets are exactly the replicas of the partition."""
    return set(state.replicas) == set(targets)


class Partition:
    """The partition that a fault changes.

    Args:
        aim: The fault's targets, and its partition if the plan names one.
        site: The run's cluster and hosts.
        concerns: The condition that a randomly chosen partition should meet. If no partition meets
            it, any partition is chosen.

    Raises:
        ClusterError: There is no partition, or the cluster cannot change leaders.
    """

    def __init__(self, aim: Aim, site: Site, concerns: Concerns = leads) -> None:
        if not isinstance(site.cluster, CanMoveLeaders):
            raise ClusterError("this cluster does not accept requests that change leaders")
        self.orders: CanMoveLeaders = site.cluster
        self._site, self._stop = site, aim.stop
        self.place = aim.place or self._drawn(aim, concerns)

    def led(self) -> Led:
        """Return the current state. On a busy machine, several queries may be necessary.

        Raises:
            ClusterError: No node reports the state.
        """
        now = self.wait(lambda _: True, Patience(limit_s=TOLD_LIMIT_S, stop=self._stop), what="it")
        if now is None:
            raise ClusterError(f"no node reports the leader of {self}")
        return now

    def wait(self, wanted: Callable[[Led], bool], patience: Patience, *, what: str) -> Led | None:
        """Wait for a wanted state, and return this state. Return None after a timeout."""

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
        """Return the partition's name as Kafka writes it: `log-0-1`."""
        return f"{self.place[0]}-{self.place[1]}"

    def _drawn(self, aim: Aim, concerns: Concerns) -> Place:
        """Choose a partition of the run at random. Prefer partitions that fit the targets."""
        view = self._site.cluster.view()
        states = view.partitions if view else {}
        own = {at: state for at, state in sorted(states.items()) if not at[0].startswith(INTERNAL)}
        meant = [at for at, state in own.items() if concerns(state, aim.targets)]
        if not own:
            raise ClusterError("no partition is known now")
        return aim.rng.choice(meant or list(own))


class MovedPartition:
    """The base of faults that change the replicas of a partition, or their order.

    Args:
        aim: The fault's id, targets and partition. If no partition is given, the fault chooses a
            random partition, if possible one that a target leads.
        site: The run's cluster and hosts.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self.targets = aim.targets
        self.partition = Partition(aim, site)
        self.before = self.partition.led()
        self._started_s = self._healed_s = stopwatch_s()

    @property
    def took_s(self) -> float:
        """Return the seconds since `begin`."""
        return stopwatch_s() - self._started_s

    def begin(self) -> None:
        """Note the start time of the fault."""
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Reassign, ...]:
        """Return the undo step that restores the old replicas in their old order."""
        place, replicas = self.partition.place, self.before.replicas
        return (Reassign(topic=place[0], partition=place[1], replicas=replicas),)

    def heal(self) -> None:
        """Request the old replicas in their old order."""
        self._healed_s = stopwatch_s()
        if self.is_moved:
            self.partition.orders.reassign(self.partition.place, self.before.replicas)

    def confirm_healed(self, patience: Patience) -> AssignedAgainEffect | None:
        """Confirm that the partition has its old replicas (`is_back`)."""
        after = self.partition.wait(
            self.is_back, patience, what="the old replicas in their old order"
        )
        if after is None:
            return None
        took_s = stopwatch_s() - self._healed_s
        return AssignedAgainEffect(took_s=took_s, place=self.partition.place, after=after)

    @property
    def is_moved(self) -> bool:
        """Return whether the fault changes something that the heal must restore."""
        return True

    def is_back(self, now: Led) -> bool:
        """Return whether the partition has its old replicas in their old order, and a leader."""
        return now.replicas == self.before.replicas and now.leader is not None
