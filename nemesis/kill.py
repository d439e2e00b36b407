"""The fault `kill`: the broker is killed with SIGKILL. The page cache survives.

Data that was written but not flushed is not lost. Only a power loss would lose this data. The heal
restarts the broker.
"""

from cluster.protocol import CanKill, ClusterError
from nemesis.broker_effects import BackEffect, KillEffect
from nemesis.brokers import GONE, HitBrokers
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Restart
from results.record.clock import stopwatch_s


class Kill:
    """A fault that kills brokers: their processes disappear from `/proc` or become zombies.

    After the heal, the brokers register again.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The fault kills brokers of this cluster.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        self.targets = aim.targets
        self._cluster: CanKill = site.cluster
        self._brokers = HitBrokers(site, aim.targets)
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Restart, ...]:
        """Return the undo steps that start the brokers again."""
        return tuple(Restart(node=node) for node in self.targets)

    def inject(self) -> None:
        """Kill the brokers."""
        self._started_s = stopwatch_s()
        for node in self._brokers.one_a_process():
            self.strike(node)

    def strike(self, node: str) -> None:
        """Kill the current broker process of one node."""
        self._cluster.kill_node(node)

    def confirm(self, patience: Patience) -> KillEffect | None:
        """Confirm that the processes have ended."""
        if not self._brokers.wait_states(GONE, patience):
            return None
        took_s = stopwatch_s() - self._started_s
        return KillEffect(took_s=took_s, processes=self._brokers.changes())

    def heal(self) -> None:
        """Start the brokers that are down."""
        self._brokers.note_heal()
        self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """Confirm that the brokers are registered again."""
        return self._brokers.wait_back(patience)


SAYS = {
    "kill": InWords(
        does="brokers are killed; the page cache stays intact",
        injected="SIGKILL to the broker's process group",
        proven="the process is not in `/proc`, or only as a zombie",
        undone="a start; the broker is registered again, as the cluster's metadata shows",
    ),
}
