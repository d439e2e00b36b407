"""The fault `controller-failover`: the active controller is killed, and another has to take over.

With KRaft that is the leader of the quorum, a broker or a controller of its own; with ZooKeeper the
broker that holds `/controller`. Healed by a restart.
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
"""ZooKeeper's session, or the quorum's election after its timeouts, on a busy machine."""

KNOWN_LIMIT_S = 5.0
LEAST_VOTERS = 3
"""Of so many, one may be gone, and a majority is left."""


class ControllerFailover:
    """A controller killed, and another one in a later epoch.

    Args:
        aim: Which fault this is; its target has to be the controller.
        site: Where.
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
        """Return the controller to start again."""
        return self._kill.undo()

    def inject(self) -> None:
        """Kill the controller."""
        self._started_s = stopwatch_s()
        self._kill.inject()

    def confirm(self, patience: Patience) -> ControllerFailoverEffect | None:
        """See that the process is gone, and that another controller leads in a later epoch."""
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
        """Start it again."""
        self._kill.heal()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """See that it is registered again, or answers."""
        return self._kill.confirm_healed(patience)

    def _taken_over(self) -> ClusterView | None:
        view = self._site.cluster.view()
        if view is None or view.controller in {None, self._before}:
            return None
        return view if view.controller_epoch > self._epoch else None


def _with_controller(site: Site, aim: Aim) -> ClusterView:
    """Return a view that knows the controller; who was asked may just have missed its election."""

    def look() -> ClusterView | None:
        view = site.cluster.view()
        return view if view is not None and view.controller is not None else None

    try:
        return wait_until(look, timeout_s=KNOWN_LIMIT_S, what="a controller", stop=aim.stop)
    except WaitTimeoutError as late:
        raise ClusterError("no controller is known now") from late


def leaves_a_quorum(plan: Plan) -> bool:
    """Tell whether somebody can take over when one of those who keep the metadata is gone."""
    if plan.kept_outside:
        return plan.nodes > 1
    return plan.voters >= LEAST_VOTERS


SAYS = {
    "controller-failover": InWords(
        does="the active controller is killed",
        injected="SIGKILL",
        proven="another leads the quorum in a later epoch",
        undone="as `kill`",
    ),
}
