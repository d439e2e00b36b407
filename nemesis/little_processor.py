"""The fault `little-processor`: a broker gets 2 to 10 % of one core.

This happens on a machine that others keep busy, or in a container whose quota is too small. The
kernel lets the broker run for 2 to 10 of each 100 ms, and not at all for the rest (cgroup `cpu`).
Heartbeats, fetches and answers go on, late. The broker's session may end; others then take over
while it still believes that it leads. The heal removes the quota.
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
"""In so many of the kernel's periods, a tenth of a second each, it had to wait."""
SLACK = 1.25
"""So much above its share a broker may be measured: its time is counted in whole hundredths."""


class LittleProcessor:
    """Brokers that the kernel lets run for a small part of the time.

    Args:
        aim: Which fault this is.
        site: Its hosts limit resources.

    Raises:
        ClusterError: They do not.
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
        """Return the quotas to take away, and the brokers to start again."""
        return self._hit.undo()

    def inject(self) -> None:
        """Set the quotas.

        Raises:
            ClusterError: A broker has one already, or cannot have one.
        """
        self._started_s = stopwatch_s()
        for node in self._hit.each():
            if self._hit.hosts.processor(node).share is not None:
                raise ClusterError(f"the broker of {node} has a quota of processors already")
            self._limited.append(node)
            self._hit.hosts.limit_processor(node, self._share)
            self._begun[node] = (stopwatch_s(), self._hit.hosts.processor(node))

    def confirm(self, patience: Patience) -> ProcessorEffect | None:
        """See for two seconds that each uses no more than its share, and has to wait for it.

        For longer, where others leave it too little of a core to come up against its share.
        """
        until_s = stopwatch_s() + patience.limit_s
        pause_until(stopwatch_s() + min(MEASURED_S, patience.limit_s), patience.stop)
        while (effect := self._measured()) is None and stopwatch_s() < until_s:
            if pause_until(stopwatch_s() + LOOK_S, patience.stop):
                break
        return effect

    def _measured(self) -> ProcessorEffect | None:
        """Return what was used since the injection, if that was little."""
        used: dict[str, float] = {}
        throttled: dict[str, int] = {}
        waited_s: dict[str, float] = {}
        processes = self._hit.brokers.changes()  # Who is measured after it ran then.
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
        """Take the quotas away, and start brokers that ended meanwhile. Idempotent."""
        self._hit.free(self._limited, lambda node: self._hit.hosts.limit_processor(node, None))

    def confirm_healed(self, patience: Patience) -> FreedEffect | None:
        """See that there is no quota, and that the brokers are registered."""
        back = self._hit.wait_back(patience)
        if any(self._hit.hosts.processor(node).share is not None for node in self._limited):
            return None
        return back


SAYS = {
    "little-processor": InWords(
        does="a broker gets 2 to 10 % of one core",
        injected="a quota of its control group (cgroup `cpu`)",
        proven="the kernel counts periods in which it had to wait; it uses no more than its share",
        undone="the quota goes; it runs and is registered",
    ),
}
