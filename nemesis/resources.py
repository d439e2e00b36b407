"""The base of the resource faults: brokers that get less of a resource than they need."""

from collections.abc import Callable, Iterable, Iterator

from cluster.protocol import CanLimitResources, ClusterError, CountsStarts, TellsLastWords
from nemesis.brokers import GONE, HitBrokers, on_each
from nemesis.protocol import Aim, Patience, Site
from nemesis.resource_effects import FreedEffect
from nemesis.undo import FreeResources, Restart
from results.record.clock import stopwatch_s

LOOK_S = 2.0
"""After the heal, seconds between two checks whether a broker has ended."""


class StarvedBrokers:
    """The brokers of a fault's targets, and the hosts that limit these brokers.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts must be able to limit resources.

    Attributes:
        brokers: The brokers before the fault.
        hosts: The hosts, which limit resources.

    Raises:
        ClusterError: The hosts do not limit resources, or no broker runs on a target.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        if site.hosts is None or not isinstance(site.hosts, CanLimitResources):
            raise ClusterError(
                "these hosts cannot limit the resources of a broker; use --hosts namespace"
            )
        self.hosts: CanLimitResources = site.hosts
        self.brokers = HitBrokers(site, aim.targets)
        self._site, self._targets = site, aim.targets
        self._lives = {node: _incarnation(site, node) for node in aim.targets}
        self._said: dict[str, tuple[str, ...]] = {}

    def undo(self) -> tuple[FreeResources | Restart, ...]:
        """Return the undo steps: restore the resources, and start the brokers that are down."""
        return (
            *(FreeResources(node=node) for node in self._targets),
            *(Restart(node=node) for node in self._targets),
        )

    def each(self) -> tuple[str, ...]:
        """Return one target of each broker process."""
        return self.brokers.one_a_process()

    def living(self) -> Iterator[str]:
        """Yield one target of each broker process that is still running."""
        return (node for node in self.each() if self.lives(node))

    def lives(self, node: str) -> bool:
        """Return whether the broker process that the fault hit is still running."""
        return self._site.state_of(self.brokers.before[node]) not in GONE

    def said(self, node: str) -> tuple[str, ...]:
        """Return the last output of a broker that has ended and was not started again.

        Another fault's heal may start the broker during this call. So request only the output of
        the process that was hit (its incarnation).
        """
        cluster = self._site.cluster
        replaced = cluster.process(node) != self.brokers.before[node]
        if replaced or not isinstance(cluster, TellsLastWords):
            return ()
        return tuple(cluster.complaints(node, life=self._lives[node]))

    def free(self, nodes: Iterable[str], give_back: Callable[[str], object]) -> None:
        """Restore the resources of the given brokers, and start all targets that have ended."""
        try:
            on_each(nodes, give_back)
        finally:
            self.start_missing()

    def start_missing(self) -> None:
        """Start the brokers that have ended, and keep their last output."""
        self.brokers.note_heal()
        # A broker that ends after this point is handled later, to keep its output.
        ended = [node for node in self._targets if not self.lives(node)]
        for node in ended:
            if node not in self._said and (words := self.said(node)):
                self._said[node] = words
        self.brokers.start_missing(ended)

    def wait_back(
        self, patience: Patience, *, kills: dict[str, int] | None = None
    ) -> FreedEffect | None:
        """Wait until all brokers run and are registered. Return None after a timeout.

        If a broker was about to halt when the fault was healed, it is started as soon as it has
        ended.
        """
        until_s, back = stopwatch_s() + patience.limit_s, None
        while back is None and (left_s := until_s - stopwatch_s()) > 0:
            if patience.stop is not None and patience.stop.is_set():
                break
            self.start_missing()
            look = Patience(limit_s=min(LOOK_S, left_s), stop=patience.stop)
            back = self.brokers.wait_back(look)
        return None if back is None else FreedEffect.of(back, kills=kills or {}, said=self._said)


def _incarnation(site: Site, node: str) -> int:
    """Return the start count of a node's broker, or 0 if the cluster does not count starts."""
    cluster = site.cluster
    return cluster.incarnation(node) if isinstance(cluster, CountsStarts) else 0
