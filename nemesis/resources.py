"""Brokers that get less of a resource than they want, as the faults of that family use them."""

from collections.abc import Callable, Iterable, Iterator

from cluster.protocol import CanLimitResources, ClusterError, TellsLastWords
from nemesis.brokers import GONE, HitBrokers, on_each
from nemesis.protocol import Aim, Patience, Site
from nemesis.resource_effects import FreedEffect
from nemesis.undo import FreeResources, Restart
from results.record.clock import stopwatch_s

LOOK_S = 2.0
"""So often it is looked whether a broker has ended after its heal."""


class StarvedBrokers:
    """The brokers of a fault's targets, and the hosts that limit them.

    Args:
        aim: Which fault this is.
        site: Its hosts limit resources.

    Attributes:
        brokers: As they were before the fault.
        hosts: Limit them.

    Raises:
        ClusterError: They do not; or no broker runs on a target.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        if site.hosts is None or not isinstance(site.hosts, CanLimitResources):
            raise ClusterError("these hosts cannot limit what a broker gets: use --hosts namespace")
        self.hosts: CanLimitResources = site.hosts
        self.brokers = HitBrokers(site, aim.targets)
        self._site, self._targets = site, aim.targets
        self._said: dict[str, tuple[str, ...]] = {}

    def undo(self) -> tuple[FreeResources | Restart, ...]:
        """Return the brokers to give back what they had, and to start again if they ended."""
        return (
            *(FreeResources(node=node) for node in self._targets),
            *(Restart(node=node) for node in self._targets),
        )

    def each(self) -> tuple[str, ...]:
        """Return one target of each process."""
        return self.brokers.one_a_process()

    def living(self) -> Iterator[str]:
        """Yield one target of each process that has not ended."""
        return (node for node in self.each() if self.lives(node))

    def lives(self, node: str) -> bool:
        """Tell whether the broker that was hit still runs."""
        return self._site.state_of(self.brokers.before[node]) not in GONE

    def said(self, node: str) -> tuple[str, ...]:
        """Return the last words of a broker that has ended, if none was started since."""
        cluster = self._site.cluster
        replaced = cluster.process(node) != self.brokers.before[node]
        if replaced or not isinstance(cluster, TellsLastWords):
            return ()
        return tuple(cluster.complaints(node))

    def free(self, nodes: Iterable[str], give_back: Callable[[str], object]) -> None:
        """Give each of some brokers back what it had, and start those of all that ended."""
        try:
            on_each(nodes, give_back)
        finally:
            self.start_missing()

    def start_missing(self) -> None:
        """Start those that ended; what these said last is kept."""
        self.brokers.note_heal()
        # One that ends from here on is for the next look: its words would be lost.
        ended = [node for node in self._targets if not self.lives(node)]
        for node in ended:
            if node not in self._said and (words := self.said(node)):
                self._said[node] = words
        self.brokers.start_missing(ended)

    def wait_back(
        self, patience: Patience, *, kills: dict[str, int] | None = None
    ) -> FreedEffect | None:
        """Wait until all run and are registered; None if that does not come.

        One that was about to halt when it was healed is started as soon as it has.
        """
        until_s, back = stopwatch_s() + patience.limit_s, None
        while back is None and (left_s := until_s - stopwatch_s()) > 0:
            if patience.stop is not None and patience.stop.is_set():
                break
            self.start_missing()
            look = Patience(limit_s=min(LOOK_S, left_s), stop=patience.stop)
            back = self.brokers.wait_back(look)
        return None if back is None else FreedEffect.of(back, kills=kills or {}, said=self._said)
