"""The fault `stop`: SIGTERM. The broker hands over its leaderships, writes checkpoints and ends.

The heal restarts the broker. A broker that does not end within the limit is killed, and the effect
records this.
"""

from cluster.protocol import Cluster
from nemesis.broker_effects import BackEffect, StopEffect
from nemesis.brokers import GONE, HitBrokers
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Restart
from results.record.clock import stopwatch_s

STOP_LIMIT_S = 20.0


class Stop:
    """A fault that stops brokers gracefully. After the heal, they register again.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The fault stops brokers of this cluster.
        limit_s: If a broker is still running this many seconds after SIGTERM, it is killed.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site, limit_s: float = STOP_LIMIT_S) -> None:
        self.targets = aim.targets
        self._limit_s = limit_s
        self._cluster: Cluster = site.cluster
        self._brokers = HitBrokers(site, aim.targets)
        self._graceful: list[str] = []
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Restart, ...]:
        """Return the undo steps that start the brokers again."""
        return tuple(Restart(node=node) for node in self.targets)

    def inject(self) -> None:
        """Stop the brokers, one after the other."""
        self._started_s = stopwatch_s()
        for node in self._brokers.one_a_process():
            if self._cluster.stop_node(node, self._limit_s):
                self._graceful += self._brokers.of_process(node)

    def confirm(self, patience: Patience) -> StopEffect | None:
        """Confirm that the processes have ended."""
        if not self._brokers.wait_states(GONE, patience):
            return None
        return StopEffect(
            took_s=stopwatch_s() - self._started_s,
            graceful=tuple(self._graceful),
            processes=self._brokers.changes(),
        )

    def heal(self) -> None:
        """Start the brokers that are down."""
        self._brokers.note_heal()
        self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """Confirm that the brokers are registered again."""
        return self._brokers.wait_back(patience)


SAYS = {
    "stop": InWords(
        does="brokers are stopped cleanly",
        injected="SIGTERM; SIGKILL after a time limit",
        proven="like `kill`",
        undone="like `kill`",
    ),
}
