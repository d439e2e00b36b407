"""The fault `rolling-restart`: each broker in turn is stopped gracefully and started again.

An operator restarts a cluster in this way. The next broker is stopped only after the cluster's own
metadata shows two things: the previous broker is registered again, and every ISR is full. At most
one broker is down at any time. So nothing may be lost, and hardly any request has to wait. The heal
starts the brokers that are down. Brokers are down only if the rolling restart was interrupted.
"""

from cluster.protocol import ClusterError
from nemesis.broker_effects import BackEffect, Restarted, RollingRestartEffect
from nemesis.brokers import GONE, HitBrokers, wait_again
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.replicas import unwhole, wait_whole
from nemesis.stop import STOP_LIMIT_S
from nemesis.undo import Restart
from results.record.clock import WaitTimeoutError, stopwatch_s

WHOLE_LIMIT_S = 60.0
"""A broker must be back within this many seconds. After that, all ISRs must be full within the same
time. Otherwise the rolling restart stops."""


class RollingRestart:
    """A fault that restarts brokers one after the other. Each broker then runs as a new process.

    Args:
        aim: The fault's id and targets. The targets are restarted in order.
        site: The run's cluster and hosts. The fault restarts brokers of this cluster.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self.targets = aim.targets
        self._site, self._stop = site, aim.stop
        self._brokers = HitBrokers(site, aim.targets)
        self._restarts: list[Restarted] = []
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Restart, ...]:
        """Return the undo steps that start the brokers, if the restart is interrupted."""
        return tuple(Restart(node=node) for node in self.targets)

    def inject(self) -> None:
        """Restart all targets, one after the other.

        Raises:
            ClusterError: A broker does not come back, or an ISR does not become full. Or the main
                phase ends before the last broker is back and all ISRs are full.
        """
        self._started_s = stopwatch_s()
        for node in self.targets:
            self._restart(node)

    def confirm(self, patience: Patience) -> RollingRestartEffect | None:
        """Confirm that each broker is a new process, and that the old process has ended."""
        if not self._brokers.wait_states(GONE, patience):
            return None
        if any(self._site.cluster.process(node) == at for node, at in self._brokers.before.items()):
            return None
        return RollingRestartEffect(
            took_s=stopwatch_s() - self._started_s, restarts=tuple(self._restarts)
        )

    def heal(self) -> None:
        """Start the brokers that are down."""
        self._brokers.note_heal()
        self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """Confirm that the brokers are registered again."""
        return self._brokers.wait_back(patience)

    def _restart(self, node: str) -> None:
        begun_s, before = stopwatch_s(), self._brokers.before[node]
        graceful = self._site.cluster.stop_node(node, STOP_LIMIT_S)
        self._brokers.note_gone()
        after = self._site.cluster.start_node(node)
        patience = Patience(limit_s=WHOLE_LIMIT_S, stop=self._stop)
        try:
            wait_again(self._site, node, patience)
        except WaitTimeoutError as late:
            raise ClusterError(f"{late}; restarted before: {self._so_far()}") from late
        back_s = stopwatch_s() - begun_s
        if not wait_whole(self._site, patience):
            lacking = ", ".join(unwhole(self._site)[:3])
            raise ClusterError(
                f"the ISR was not full after {node} was back: {lacking};"
                f" restarted before: {self._so_far()}"
            )
        self._restarts.append(
            Restarted(
                node=node,
                pid_before=before.pid,
                start_ticks_before=before.start_ticks,
                pid=after.pid,
                start_ticks=after.start_ticks,
                graceful=graceful,
                back_s=back_s,
                whole_s=stopwatch_s() - begun_s,
            )
        )

    def _so_far(self) -> str:
        return ", ".join(each.node for each in self._restarts) or "none"


SAYS = {
    "rolling-restart": InWords(
        does="the brokers are restarted in turn; each restart waits until all ISRs are full",
        injected="SIGTERM and a start for each broker",
        proven="each broker has a new process and is registered",
        undone="the brokers that are down are started",
    ),
}
