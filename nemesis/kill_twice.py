"""The fault `kill-twice`: a broker is killed, started, and killed again while it is still starting.

This happens if a supervisor restarts a crashed process, which then crashes again. The second kill
hits a broker that is recovering its logs, loading coordinator data, or registering. The data that
both processes have written so far is kept, because the page cache survives. The moment of the
second kill is random. If the broker is back before that moment, the fault kills it and tries again
with an earlier moment. The fault starts the broker at most eight times. The heal restarts the
broker.
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
"""The latest moment of the second kill, in seconds after the start. A real Kafka broker needs at
least this many seconds to start."""
MOST_STRIKES = 8
LOOK_S = 0.05


class KillTwice:
    """A fault that kills a broker twice: the second time before the restarted broker is back.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The brokers are killed and started again.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self._kill, self._site, self._aim = Kill(aim, site), site, aim
        self.targets = self._kill.targets
        self._again: list[StruckAgain] = []
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Restart, ...]:
        """Return the undo steps that start the brokers again."""
        return self._kill.undo()

    def inject(self) -> None:
        """Kill the brokers, start them, and kill each broker again before it is back.

        Raises:
            ClusterError: A broker does not start, or does not end after SIGKILL. It ends by itself
                before its second kill. The main phase ends meanwhile.
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
        """Confirm that all processes have ended, and that the last processes never registered."""
        killed = self._kill.confirm(patience)
        last = {each.node: each for each in self._again}
        struck = [node for node in self.targets if node in last and not last[node].back]
        gone = all(broker_is_gone(self._site, node) for node in self.targets)
        if killed is None or not gone or tuple(struck) != self.targets:
            return None
        return replace(killed, took_s=stopwatch_s() - self._started_s, again=tuple(self._again))

    def heal(self) -> None:
        """Start the brokers that are down."""
        self._kill.heal()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """Confirm that the brokers are registered again."""
        return self._kill.confirm_healed(patience)

    def _strike(self, node: str, after_s: float) -> StruckAgain:
        """Start a broker, and kill it at the planned moment, or as soon as it is back."""
        site, back, missed = self._site, False, False
        process = site.cluster.start_node(node)
        begun_s = stopwatch_s()
        while not back and (left_s := begun_s + after_s - stopwatch_s()) > 0:
            if pause_until(stopwatch_s() + min(LOOK_S, left_s), self._aim.stop):
                raise ClusterError("the main phase ended before the second kill")
            # Just before the kill, send no query that takes longer than a registration.
            missed = missed or (left_s > LOOK_S and self._is_listed(node) is False)
            back = is_registered(site, node)
        if site.state_of(process) in GONE:
            raise ClusterError(f"the broker of {node} ended before the second kill")
        self._kill.strike(node)
        lived_s = stopwatch_s() - begun_s
        return StruckAgain(
            node=node,
            pid=process.pid,
            start_ticks=process.start_ticks,
            lived_s=lived_s,
            # A registration stays after its process has ended, even if the process did not know of
            # it. The registration of an earlier process stays until other brokers notice that it
            # ended.
            back=back or (missed and self._is_listed(node) is True),
        )

    def _is_listed(self, node: str) -> bool | None:
        """Return whether other nodes list a broker. A broker is listed until its session ends.

        Returns:
            None if no node answers.
        """
        view = self._site.cluster.view()
        return None if view is None else node in view.registered


SAYS = {
    "kill-twice": InWords(
        does="brokers are killed, started, and killed again before they are registered",
        injected="SIGKILL and a start; SIGKILL at a random moment of the start",
        proven="like `kill`, for each process; the last process never registered",
        undone="like `kill`",
    ),
}
