"""The fault `rolling-kill`: brokers are killed in turn, often while the previous one recovers.

A killed broker is down for a random time. Within this time, another broker may or may not take
over. Then the killed broker is started, and the next broker is killed, if possible before the first
one is in every ISR again. The next broker may be the new leader, or the broker from which the first
one fetches the missing records. So elections follow one another, and the elected broker has often
just taken over or just come back. The next kill comes at a random moment, but at the latest when
the previous broker has registered. Each further kill follows sooner after a start than the kill
before it.

The fault kills each chosen broker at least once. Then it ends with a kill during a recovery, at the
latest with the fifth kill. The fault is confirmed if at least one kill came during a recovery. The
last broker stays down until the heal.
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
"""Shortest and longest downtime of a killed broker, in seconds. A broker's session ends after 3
s."""
MOST_BROKERS = 3
"""The highest number of killed brokers. To kill all brokers of a large cluster would take
minutes."""
MOST_STRIKES = 5
LATEST_S = 6.0
"""The longest time in seconds from a start to the next kill. After about this time, a real Kafka
broker has registered and is in its ISRs."""
LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A broker that was killed.

    Attributes:
        node: The broker's node.
        pid, start_ticks: The process.
        after_s: Seconds since the start of the previously killed broker. 0 for the first.
        recovering: Whether the previously killed broker had not registered since its start, or was
            missing in an ISR.
    """

    node: str
    pid: int
    start_ticks: int
    after_s: float = 0.0
    recovering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingKillEffect:
    """Brokers that were killed one after the other, in the order of their kills."""

    took_s: float
    strikes: tuple[Struck, ...]

    @property
    def told(self) -> str:
        """Return the kills as a sentence, which also says which brokers had recovered by then."""
        first, *others = self.strikes
        parts = [f"process {first.pid} of {first.node} was killed"]
        for before, each in pairwise((first, *others)):
            state = "had not yet recovered" if each.recovering else "had recovered"
            parts.append(
                f"process {each.pid} of {each.node} was killed {each.after_s:.1f} s after the"
                f" start of {before.node}, which {state}"
            )
        return "; ".join(parts)


class RollingKill:
    """A fault that kills brokers in turn, and does not wait until the previous one has recovered.

    Args:
        aim: The fault's id and targets. Up to three targets are killed, in random order.
        site: The run's cluster and hosts. The brokers are killed and started again.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if len(aim.targets) < 2:  # noqa: PLR2004 - it takes two to kill in turn
            raise ClusterError(
                "this fault needs two brokers or more as targets, but the only"
                f" target is {', '.join(aim.targets)}"
            )
        self._order = aim.rng.sample(aim.targets, min(len(aim.targets), MOST_BROKERS))
        self.targets = tuple(node for node in aim.targets if node in self._order)
        self._aim = replace(aim, targets=self.targets)
        self._kill, self._site = Kill(self._aim, site), site
        self._strikes: list[Struck] = []
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Restart, ...]:
        """Return the undo steps that start the brokers again."""
        return self._kill.undo()

    def inject(self) -> None:
        """Kill one broker after the other, and start each of them except the last.

        Raises:
            ClusterError: A broker does not end or start, or the main phase ends meanwhile.
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
                raise ClusterError(f"the broker of {before} ended before the next kill")
            recovering = not is_registered(self._site, before) or self._lacks(before)
            after_s = stopwatch_s() - started_s
            self._strike(node, after_s=after_s, recovering=recovering)
            if recovering and len(self._strikes) >= len(self._order):
                break
            before, after_s = node, after_s * self._aim.rng.uniform(0.02, 0.5)

    def confirm(self, patience: Patience) -> RollingKillEffect | None:
        """Confirm that all processes have ended, and that a kill came during a recovery."""
        last = self._strikes[-1].node
        if self._kill.confirm(patience) is None or not broker_is_gone(self._site, last):
            return None
        if not any(each.recovering for each in self._strikes):
            return None
        took_s = stopwatch_s() - self._started_s
        return RollingKillEffect(took_s=took_s, strikes=tuple(self._strikes))

    def heal(self) -> None:
        """Start the brokers that are down."""
        self._kill.heal()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """Confirm that the brokers are registered again."""
        return self._kill.confirm_healed(patience)

    def _lacks(self, node: str) -> bool:
        """Return whether a broker is known to be missing in the ISR of one of its partitions."""
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
        """Wait until a given time, or until a broker is registered, if one is given."""
        while (left_s := until_s - stopwatch_s()) > 0:
            if back and is_registered(self._site, back):
                return
            if pause_until(stopwatch_s() + min(LOOK_S, left_s), self._aim.stop):
                raise ClusterError("the main phase ended before the last kill")


SAYS = {
    "rolling-kill": InWords(
        does="brokers are killed in turn, at least one while the previous broker still recovers",
        injected="SIGKILL and a start for each broker; the last broker stays down",
        proven=(
            "the processes are not in `/proc`; at a kill, the previous broker was not yet"
            " registered, or was missing in an ISR"
        ),
        undone="like `kill`",
    ),
}
