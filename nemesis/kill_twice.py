"""The fault `kill-twice`: SIGKILL, a start, and SIGKILL again while the broker still starts.

A supervisor restarts what crashed, and it crashes again: the second strike meets a broker that
recovers its logs, loads what it coordinates, or registers. What it wrote of that so far lies on
disk beside what the first life left. The moment is drawn; a broker that is back before it is
struck at an earlier one, up to so many times. Healed by a restart.
"""

from dataclasses import replace

from cluster.protocol import ClusterError
from nemesis.broker_effects import BackEffect, KillEffect, StruckAgain
from nemesis.brokers import GONE, broker_is_gone, is_registered
from nemesis.in_words import InWords
from nemesis.kill import Kill
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Restart
from results.record.clock import pause_until, stopwatch_s

LATEST_S = 3.0
"""A broker of real Kafka takes as long to start, at least."""
MOST_STRIKES = 8
LOOK_S = 0.05


class KillTwice:
    """A broker that was killed, and again before it was back.

    Args:
        aim: Which fault this is.
        site: Its cluster's brokers are killed and started.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self._kill, self._site, self._aim = Kill(aim, site), site, aim
        self.targets = self._kill.targets
        self._again: list[StruckAgain] = []
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Restart, ...]:
        """Return the brokers to start again."""
        return self._kill.undo()

    def inject(self) -> None:
        """Kill the brokers, start them, and kill each before it is back.

        Raises:
            ClusterError: One does not end, or the main phase ends meanwhile.
        """
        self._started_s = stopwatch_s()
        self._kill.inject()
        for node in self.targets:
            after_s = self._aim.rng.uniform(0.05, LATEST_S)
            for _ in range(MOST_STRIKES):
                struck = self._strike(node, after_s)
                self._again.append(struck)
                if not struck.back:
                    break
                after_s = struck.lived_s * self._aim.rng.uniform(0.02, 0.5)

    def confirm(self, patience: Patience) -> KillEffect | None:
        """See that all lives are gone, and that the last of each broker was never registered."""
        killed = self._kill.confirm(patience)
        last = {each.node: each for each in self._again}
        struck = [node for node in self.targets if node in last and not last[node].back]
        gone = all(broker_is_gone(self._site, node) for node in self.targets)
        if killed is None or not gone or tuple(struck) != self.targets:
            return None
        return replace(killed, took_s=stopwatch_s() - self._started_s, again=tuple(self._again))

    def heal(self) -> None:
        """Start the brokers again, but those that run."""
        self._kill.heal()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """See that the brokers are registered again."""
        return self._kill.confirm_healed(patience)

    def _strike(self, node: str, after_s: float) -> StruckAgain:
        """Start a broker, and kill it when its time has come, or as soon as it is back."""
        site, back, missed = self._site, False, False
        process = site.cluster.start_node(node)
        begun_s = stopwatch_s()
        while not back and (left_s := begun_s + after_s - stopwatch_s()) > 0:
            if pause_until(stopwatch_s() + min(LOOK_S, left_s), self._aim.stop):
                raise ClusterError("the main phase ended before the second strike")
            # Just before the strike nothing is asked that takes longer than a broker to register.
            missed = missed or (left_s > LOOK_S and self._is_listed(node) is False)
            back = is_registered(site, node)
        if site.state_of(process) in GONE:
            raise ClusterError(f"the broker of {node} ended before the second strike")
        self._kill.strike(node)
        lived_s = stopwatch_s() - begun_s
        return StruckAgain(
            node=node,
            pid=process.pid,
            start_ticks=process.start_ticks,
            lived_s=lived_s,
            # A registration that it had not heard of yet outlives it, as does that of an
            # earlier life, which others had not missed.
            back=back or (missed and self._is_listed(node) is True),
        )

    def _is_listed(self, node: str) -> bool | None:
        """Return whether others list a broker, which outlives it until its session ends.

        Returns:
            None: nobody answers.
        """
        view = self._site.cluster.view()
        return None if view is None else node in view.registered


SAYS = {
    "kill-twice": InWords(
        does="brokers are killed, started, and killed again before they are back",
        injected="SIGKILL and a start; SIGKILL at a drawn moment of the start",
        proven="as `kill`, of each life; the last one was never registered",
        undone="as `kill`",
    ),
}
