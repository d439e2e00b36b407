"""The fault `pause`: the broker is paused with SIGSTOP.

Its sockets stay open, but the broker does not respond. A long garbage collection has this effect,
and so has the migration of a virtual machine. When the broker continues, it still has its old view
of the cluster. For example, it still believes that it is the leader. The heal sends SIGCONT.
"""

from cluster.protocol import CanPause, ClusterError
from nemesis.broker_effects import BackEffect, PauseEffect
from nemesis.brokers import STOPPED, HitBrokers, on_each
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Resume
from results.record.clock import stopwatch_s


class Pause:
    """A fault that pauses brokers (state T in `/proc`). After the heal, they are registered.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The fault pauses brokers of this cluster.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if not isinstance(site.cluster, CanPause):
            raise ClusterError("the brokers of this cluster cannot be paused")
        self.targets = aim.targets
        self._cluster: CanPause = site.cluster
        self._brokers = HitBrokers(site, aim.targets)
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Resume, ...]:
        """Return the undo steps that continue the processes."""
        return tuple(
            Resume(node=node, pid=process.pid, start_ticks=process.start_ticks)
            for node, process in self._brokers.before.items()
        )

    def inject(self) -> None:
        """Pause the processes."""
        self._started_s = stopwatch_s()
        for node in self._brokers.one_a_process():
            self._cluster.pause_node(node)

    def confirm(self, patience: Patience) -> PauseEffect | None:
        """Confirm that the processes are paused."""
        if not self._brokers.wait_states(STOPPED, patience):
            return None
        took_s = stopwatch_s() - self._started_s
        return PauseEffect(took_s=took_s, processes=self._brokers.changes())

    def heal(self) -> None:
        """Continue the processes, and start brokers that died meanwhile."""
        self._brokers.note_heal()
        on_each(self._brokers.one_a_process(), self._continue)

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """Confirm that the brokers run and are registered."""
        return self._brokers.wait_back(patience)

    def _continue(self, node: str) -> None:
        self._cluster.resume_node(node)
        self._brokers.start_missing(self._brokers.of_process(node))


SAYS = {
    "pause": InWords(
        does="brokers are paused",
        injected="SIGSTOP",
        proven="`/proc` state T",
        undone="SIGCONT; the broker runs and is registered",
    ),
}
