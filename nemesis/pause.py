"""The fault `pause`: SIGSTOP. The broker stands still; its sockets stay open and answer nothing.

This is a long garbage collection, or a virtual machine that is moved: when it goes on, the broker
still believes what it believed, that it leads, for instance. Healed by SIGCONT.
"""

from cluster.protocol import CanPause, ClusterError
from nemesis.broker_effects import BackEffect, PauseEffect
from nemesis.brokers import STOPPED, HitBrokers, on_each
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Resume
from results.record.clock import stopwatch_s


class Pause:
    """Brokers that stand still: state T in `/proc`, and back when they run and are registered.

    Args:
        aim: Which fault this is.
        site: Its cluster's brokers are paused.
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
        """Return the processes to continue."""
        return tuple(
            Resume(node=node, pid=process.pid, start_ticks=process.start_ticks)
            for node, process in self._brokers.before.items()
        )

    def inject(self) -> None:
        """Stop the processes where they are."""
        self._started_s = stopwatch_s()
        for node in self._brokers.one_a_process():
            self._cluster.pause_node(node)

    def confirm(self, patience: Patience) -> PauseEffect | None:
        """See that the processes are stopped."""
        if not self._brokers.wait_states(STOPPED, patience):
            return None
        took_s = stopwatch_s() - self._started_s
        return PauseEffect(took_s=took_s, processes=self._brokers.changes())

    def heal(self) -> None:
        """Continue the processes; start those again that died meanwhile."""
        self._brokers.note_heal()
        on_each(self._brokers.one_a_process(), self._continue)

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """See that the brokers run and are registered."""
        return self._brokers.wait_back(patience)

    def _continue(self, node: str) -> None:
        self._cluster.resume_node(node)
        self._brokers.start_missing(self._brokers.of_process(node))


SAYS = {
    "pause": InWords(
        does="brokers stand still",
        injected="SIGSTOP",
        proven="`/proc` state T",
        undone="SIGCONT; it runs and is registered",
    ),
}
