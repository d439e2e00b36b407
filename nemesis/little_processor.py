"""The fault `little-processor`: a broker gets 2 to 10 % of one core.

This happens on a busy machine, or in a container with a small quota. The broker's cgroup `cpu` lets
it run for only 2 to 10 ms in each period of 100 ms. Heartbeats, fetches and answers continue, but
late. The broker's session may end. Then other brokers lead its partitions, while the slow broker
still believes that it is the leader. The heal removes the quota.
"""

from cluster.protocol import ClusterError, Processor
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.resource_effects import FreedEffect, ProcessorEffect
from nemesis.resources import StarvedBrokers
from nemesis.undo import FreeResources, Restart
from results.record.clock import pause_until, stopwatch_s

LEAST_SHARE, MOST_SHARE = 0.02, 0.10
MEASURED_S = 2.0
LOOK_S = 0.5
LEAST_THROTTLED = 3
"""The minimum number of kernel periods (0.1 s each) in which the broker had to wait."""
SLACK = 1.25
"""The measured share may exceed the quota by this factor and by 0.01 more, because CPU time is
measured in steps of 0.01 s."""


class LittleProcessor:
    """A fault that lets brokers run for a small share of the time.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts must be able to limit resources.

    Raises:
        ClusterError: The hosts do not limit resources, or no broker runs on a target.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self.targets = aim.targets
        self._hit = StarvedBrokers(aim, site)
        self._share = round(aim.rng.uniform(LEAST_SHARE, MOST_SHARE), 3)
        self._limited: list[str] = []
        self._begun: dict[str, tuple[float, Processor]] = {}
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[FreeResources | Restart, ...]:
        """Return the undo steps: remove the quotas, and start the brokers that are down."""
        return self._hit.undo()

    def inject(self) -> None:
        """Set the CPU quotas.

        Raises:
            ClusterError: A broker already has a quota, or cannot have one.
        """
        self._started_s = stopwatch_s()
        for node in self._hit.each():
            if self._hit.hosts.processor(node).share is not None:
                raise ClusterError(f"the broker of {node} already has a processor quota")
            self._limited.append(node)
            self._hit.hosts.limit_processor(node, self._share)
            self._begun[node] = (stopwatch_s(), self._hit.hosts.processor(node))

    def confirm(self, patience: Patience) -> ProcessorEffect | None:
        """Confirm that for two seconds each broker stays within its share, and has to wait.

        The confirmation takes longer if other processes use so much CPU time that a broker does not
        even get its share.
        """
        until_s = stopwatch_s() + patience.limit_s
        pause_until(stopwatch_s() + min(MEASURED_S, patience.limit_s), patience.stop)
        while (effect := self._measured()) is None and stopwatch_s() < until_s:
            if pause_until(stopwatch_s() + LOOK_S, patience.stop):
                break
        return effect

    def _measured(self) -> ProcessorEffect | None:
        """Return the CPU use since the injection.

        Return None if a broker used too much, hardly had to wait, or is another process.
        """
        used: dict[str, float] = {}
        throttled: dict[str, int] = {}
        waited_s: dict[str, float] = {}
        processes = self._hit.brokers.changes()  # Take these first, while the processes run.
        for node, (since_s, before) in self._begun.items():
            now = self._hit.hosts.processor(node)
            used[node] = (now.used_s - before.used_s) / (stopwatch_s() - since_s)
            throttled[node] = now.throttled - before.throttled
            waited_s[node] = now.throttled_s - before.throttled_s
            waits = now.share is not None and throttled[node] >= LEAST_THROTTLED
            is_little = 0 <= used[node] <= SLACK * self._share + 0.01
            if now.process != before.process or not waits or not is_little:
                return None
        return ProcessorEffect(
            took_s=stopwatch_s() - self._started_s,
            share=self._share,
            used=used,
            throttled=throttled,
            waited_s=waited_s,
            processes=processes,
        )

    def heal(self) -> None:
        """Remove the quotas, and start brokers that ended meanwhile. Idempotent."""
        self._hit.free(self._limited, lambda node: self._hit.hosts.limit_processor(node, None))

    def confirm_healed(self, patience: Patience) -> FreedEffect | None:
        """Confirm that no quota is left, and that the brokers are registered."""
        back = self._hit.wait_back(patience)
        if any(self._hit.hosts.processor(node).share is not None for node in self._limited):
            return None
        return back


SAYS = {
    "little-processor": InWords(
        does="a broker gets 2 to 10 % of one core",
        injected="a quota on its control group (cgroup `cpu`)",
        proven=(
            "the kernel counts the periods in which the broker had to wait; its CPU use stays"
            " within the quota"
        ),
        undone="removal of the quota; the broker runs and is registered",
    ),
}
