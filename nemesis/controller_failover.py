"""The fault `controller-failover`: the active controller is killed, and another must take over.

With KRaft the active controller is the leader of the quorum, which is a broker or a separate
controller. With ZooKeeper it is the broker that holds `/controller`. The heal restarts the killed
process.
"""

from cluster.protocol import ClusterError, ClusterView
from nemesis.broker_effects import BackEffect
from nemesis.cluster_effects import ControllerFailoverEffect
from nemesis.in_words import InWords
from nemesis.kill import Kill
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Restart
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until
from results.record.plan import Plan

TAKE_OVER_LIMIT_S = 20.0
"""Seconds until another controller leads, on a busy machine. This includes the session timeout of
ZooKeeper, or the timeouts and the election of the quorum."""

KNOWN_LIMIT_S = 5.0
LEAST_VOTERS = 3
"""The smallest number of voters of which a majority is left after one voter has failed."""


class ControllerFailover:
    """A fault that kills the active controller, so that another leads in a later epoch.

    Args:
        aim: The fault's id and targets. The target must be the active controller.
        site: The run's cluster and hosts.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        view = _with_controller(site, aim)
        if aim.targets != (view.controller,):
            raise ClusterError(
                f"{', '.join(aim.targets)} is not the controller: {view.controller} is; use the"
                " target controller"
            )
        self._site = site
        self._before, self._epoch = aim.targets[0], view.controller_epoch
        self._kill = Kill(aim, site)
        self.targets, self.links = self._kill.targets, self._kill.links
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Restart, ...]:
        """Return the undo step that starts the controller again."""
        return self._kill.undo()

    def inject(self) -> None:
        """Kill the controller."""
        self._started_s = stopwatch_s()
        self._kill.inject()

    def confirm(self, patience: Patience) -> ControllerFailoverEffect | None:
        """Confirm that the process has ended and another controller leads in a later epoch."""
        killed = self._kill.confirm(patience)
        if killed is None:
            return None
        try:
            view = wait_until(
                self._taken_over,
                timeout_s=max(patience.limit_s, TAKE_OVER_LIMIT_S),
                what="another controller",
                interval_s=0.2,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        return ControllerFailoverEffect(
            took_s=stopwatch_s() - self._started_s,
            before=self._before,
            epoch_before=self._epoch,
            after=view.controller or "",
            epoch_after=view.controller_epoch,
            gone=killed.processes[0].pid,
            asked=view.asked,
        )

    def heal(self) -> None:
        """Start the killed controller again."""
        self._kill.heal()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """Confirm that the killed controller is registered again, or responds to requests."""
        return self._kill.confirm_healed(patience)

    def _taken_over(self) -> ClusterView | None:
        view = self._site.cluster.view()
        if view is None or view.controller in {None, self._before}:
            return None
        return view if view.controller_epoch > self._epoch else None


def _with_controller(site: Site, aim: Aim) -> ClusterView:
    """Query the metadata until it names the controller. Then return this metadata."""

    def look() -> ClusterView | None:
        view = site.cluster.view()
        return view if view is not None and view.controller is not None else None

    try:
        return wait_until(look, timeout_s=KNOWN_LIMIT_S, what="a controller", stop=aim.stop)
    except WaitTimeoutError as late:
        raise ClusterError("no controller is known now") from late


def leaves_a_quorum(plan: Plan) -> bool:
    """Return whether another node can take over if one controller node fails."""
    if plan.kept_outside:
        return plan.nodes > 1
    return plan.voters >= LEAST_VOTERS


SAYS = {
    "controller-failover": InWords(
        does="the active controller is killed",
        injected="SIGKILL",
        proven="another controller leads in a later epoch",
        undone="like `kill`",
    ),
}
