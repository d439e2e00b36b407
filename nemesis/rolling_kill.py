"""The fault `rolling-kill`: brokers are killed in turn, each while the one before it recovers.

Who was killed is down for a drawn time, so that others have or have not taken over, and is started.
Before it is in every ISR again the next one is killed: its successor, or who had to bring it up to
date. So elections follow one another, and who is elected has just taken over, or has just come
back. At a moment that is drawn, or as soon as the one before is registered, whichever is first. If
all was whole by then, the next one is hit, sooner. The last one is down until the heal.
"""

from dataclasses import dataclass, replace
from itertools import cycle, islice, pairwise

from cluster.protocol import ClusterError
from nemesis.broker_effects import BackEffect
from nemesis.brokers import GONE, broker_is_gone, is_registered, running_broker
from nemesis.in_words import InWords
from nemesis.kill import Kill
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Restart
from results.record.clock import pause_until, stopwatch_s

DOWN_S = (0.0, 5.0)
"""A broker's session ends after 3 s."""
MOST_BROKERS = 3
"""Of more targets so many are drawn: a turn of all of a large cluster would take minutes."""
MOST_STRIKES = 5
LATEST_S = 6.0
"""After a start: a broker of real Kafka is registered, and in its ISRs, by about then."""
LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A broker that was killed.

    Attributes:
        node: Whose.
        pid, start_ticks: Which process.
        after_s: Since the start of the one before; 0 of the first.
        recovering: Whether the one before was not registered since its start, or not in all of
            its ISRs.
    """

    node: str
    pid: int
    start_ticks: int
    after_s: float = 0.0
    recovering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingKillEffect:
    """Brokers that were killed one after the other, in the order of their ends."""

    took_s: float
    strikes: tuple[Struck, ...]

    @property
    def told(self) -> str:
        """Who was killed, and whether the one before had recovered by then, for people."""
        first, *others = self.strikes
        parts = [f"process {first.pid} of {first.node} is gone"]
        for before, each in pairwise((first, *others)):
            state = "recovered" if each.recovering else "was whole again"
            parts.append(
                f"process {each.pid} of {each.node} was killed {each.after_s:.1f} s after"
                f" {before.node} had started, while that {state}"
            )
        return "; ".join(parts)


class RollingKill:
    """Brokers killed one after the other, none waiting for the one before.

    Args:
        aim: Which fault this is; up to three of its targets are killed, in an order that is drawn.
        site: Its cluster's brokers are killed and started.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if len(aim.targets) < 2:  # noqa: PLR2004 - nobody is hit after one
            raise ClusterError(f"a turn takes two brokers, and there is {', '.join(aim.targets)}")
        self._order = aim.rng.sample(aim.targets, min(len(aim.targets), MOST_BROKERS))
        self.targets = tuple(node for node in aim.targets if node in self._order)
        self._aim = replace(aim, targets=self.targets)
        self._kill, self._site = Kill(self._aim, site), site
        self._strikes: list[Struck] = []
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Restart, ...]:
        """Return the brokers to start again."""
        return self._kill.undo()

    def inject(self) -> None:
        """Kill one broker after the other, and start each but the last.

        Raises:
            ClusterError: One does not end or start, or the main phase ends meanwhile.
        """
        self._started_s = stopwatch_s()
        before, *others = self._order
        self._strike(before)
        after_s = self._aim.rng.uniform(LOOK_S, LATEST_S)
        for node in islice(cycle([*others, before]), MOST_STRIKES - 1):
            self._wait(stopwatch_s() + self._aim.rng.uniform(*DOWN_S))
            process = self._site.cluster.start_node(before)
            started_s = stopwatch_s()
            self._wait(started_s + after_s, back=before)
            if self._site.state_of(process) in GONE:
                raise ClusterError(f"the broker of {before} ended before the next strike")
            recovering = not is_registered(self._site, before) or self._lacks(before)
            after_s = stopwatch_s() - started_s
            self._strike(node, after_s=after_s, recovering=recovering)
            if recovering and len(self._strikes) >= len(self._order):
                break
            before, after_s = node, after_s * self._aim.rng.uniform(0.02, 0.5)

    def confirm(self, patience: Patience) -> RollingKillEffect | None:
        """See that all are gone that ran, and that one was struck before another was whole."""
        last = self._strikes[-1].node
        if self._kill.confirm(patience) is None or not broker_is_gone(self._site, last):
            return None
        if not any(each.recovering for each in self._strikes):
            return None
        took_s = stopwatch_s() - self._started_s
        return RollingKillEffect(took_s=took_s, strikes=tuple(self._strikes))

    def heal(self) -> None:
        """Start the brokers again, but those that run."""
        self._kill.heal()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """See that the brokers are registered again."""
        return self._kill.confirm_healed(patience)

    def _lacks(self, node: str) -> bool:
        """Tell whether an ISR of a broker's partitions is seen to be without it."""
        view = self._site.cluster.view()
        states = [] if view is None else view.partitions.values()
        return any(node in each.replicas and node not in each.isr for each in states)

    def _strike(self, node: str, *, after_s: float = 0.0, recovering: bool = False) -> None:
        at = running_broker(self._site, node)
        self._kill.strike(node)
        self._strikes.append(
            Struck(
                node=node,
                pid=at.pid,
                start_ticks=at.start_ticks,
                after_s=round(after_s, 3),
                recovering=recovering,
            )
        )

    def _wait(self, until_s: float, *, back: str = "") -> None:
        """Wait for a moment, or for a broker to be registered."""
        while (left_s := until_s - stopwatch_s()) > 0:
            if back and is_registered(self._site, back):
                return
            if pause_until(stopwatch_s() + min(LOOK_S, left_s), self._aim.stop):
                raise ClusterError("the main phase ended before the last strike")


SAYS = {
    "rolling-kill": InWords(
        does="brokers are killed in turn, each while the one before it still recovers",
        injected="SIGKILL and a start, each; the last one stays down",
        proven=(
            "the processes are gone from `/proc`; at a strike the one before was not registered"
            " since its start, or not in all of its ISRs"
        ),
        undone="as `kill`",
    ),
}
