"""The fault `kill`: SIGKILL. The broker is gone without a word; its page cache is not.

What was written and not yet fsynced survives (a power loss would take it). Healed by a restart.
"""

from cluster.protocol import CanKill, ClusterError
from nemesis.broker_effects import BackEffect, KillEffect
from nemesis.brokers import GONE, HitBrokers
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Restart
from results.record.clock import stopwatch_s


class Kill:
    """Brokers killed without warning: gone from `/proc`, and back when registered again.

    Args:
        aim: Which fault this is.
        site: Its cluster's brokers are killed.
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
        """Return the brokers to start again."""
        return tuple(Restart(node=node) for node in self.targets)

    def inject(self) -> None:
        """Kill the brokers."""
        self._started_s = stopwatch_s()
        for node in self._brokers.one_a_process():
            self.strike(node)

    def strike(self, node: str) -> None:
        """Kill the broker of one node, whichever process that is now."""
        self._cluster.kill_node(node)

    def confirm(self, patience: Patience) -> KillEffect | None:
        """See that the processes are gone."""
        if not self._brokers.wait_states(GONE, patience):
            return None
        took_s = stopwatch_s() - self._started_s
        return KillEffect(took_s=took_s, processes=self._brokers.changes())

    def heal(self) -> None:
        """Start the brokers again, but those that run."""
        self._brokers.note_heal()
        self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """See that the brokers are registered again."""
        return self._brokers.wait_back(patience)


SAYS = {
    "kill": InWords(
        does="brokers are gone without a word; the page cache is not",
        injected="SIGKILL to the broker's process group",
        proven="the process is gone from `/proc`",
        undone="a start; registered anew, as another broker says",
    ),
}
