"""What faults of clocks share: brokers that see a wrong wall-clock time.

Proven by what the brokers themselves say: each is made to write a line into its own log, whose
timestamp is compared with our clock (`CanTellTime`), before, during and after.
"""

from collections.abc import Callable, Mapping

from cluster.protocol import CanShiftClock, CanTellTime, ClusterError
from nemesis.brokers import broker_is_gone, running_broker
from nemesis.cluster_effects import ClockEffect, ClockShifted, ClockTrueEffect
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import TrueClock
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until

TOLERANCE_S = 0.5
"""How far what a broker says may be from what it should: on a busy machine it answers late."""
PROOF_LIMIT_S = 30.0
"""A clock that strobes is right in half of all answers, and a busy broker gives one a second."""
ASK_INTERVAL_S = 0.2


class ShiftedClocks:
    """The clocks of some brokers: a kind of fault says how they go wrong, and when that shows.

    Args:
        aim: Which fault this is.
        site: Its hosts shift clocks, its cluster tells what came of it.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if site.hosts is None or not isinstance(site.hosts, CanShiftClock):
            raise ClusterError("these hosts cannot shift a broker's clock")
        if not isinstance(site.cluster, CanTellTime):
            raise ClusterError("the brokers of this cluster do not tell their time")
        for node in aim.targets:
            running_broker(site, node)
        self.targets: tuple[str, ...] = aim.targets
        self.hosts: CanShiftClock = site.hosts
        self._cluster: CanTellTime = site.cluster
        self._site, self._stop = site, aim.stop
        self._before_s: dict[str, float] = {}
        self.started_s = self._healed_s = stopwatch_s()

    def undo(self) -> tuple[TrueClock, ...]:
        """Return the clocks to put right."""
        return tuple(TrueClock(node=node) for node in self.targets)

    def note_before(self) -> None:
        """Ask each broker for its time as it is.

        Raises:
            ClusterError: One does not tell, however often it is asked.
        """
        told: dict[str, float] = {}

        def all_told() -> bool:
            told.update({node: self._cluster.clock_error_s(node) for node in self.targets})
            return True

        patience = Patience(limit_s=0, stop=self._stop)
        self.come_to(all_told, patience, what="the brokers to tell their time")
        self._before_s = told
        self.started_s = stopwatch_s()

    def ahead_s(self, node: str) -> float:
        """Return by how much a broker is ahead of ours more than before, by its own word."""
        return self._cluster.clock_error_s(node) - self._before_s.get(node, 0.0)

    def come_to(
        self,
        wanted: Callable[[], bool],
        patience: Patience,
        *,
        what: str,
        interval_s: float = ASK_INTERVAL_S,
    ) -> bool:
        """Tell whether the clocks come to be as wanted, in the time that it takes brokers to tell.

        Args:
            wanted: Asks them.
            patience: How long at least.
            what: Is waited for, in words.
            interval_s: Between two questions.

        Raises:
            ClusterError: One of them does not tell: a busy one is asked again, until the end.
        """
        limit_s = max(patience.limit_s, PROOF_LIMIT_S)
        refusal: ClusterError | None = None

        def answered() -> bool:
            nonlocal refusal
            try:
                refusal, answer = None, wanted()
            except ClusterError as silent:
                if any(broker_is_gone(self._site, node) for node in self.targets):
                    raise
                refusal, answer = silent, False
            return answer

        try:
            wait_until(
                answered, timeout_s=limit_s, what=what, interval_s=interval_s, stop=patience.stop
            )
        except WaitTimeoutError:
            if refusal is not None:
                raise refusal from None
            return False
        return True

    def shown(
        self, offset_s: float, rate: float, during_s: Mapping[str, tuple[float, ...]]
    ) -> ClockEffect:
        """Return the effect, of what each broker said to be ahead more than before."""
        return ClockEffect(
            took_s=stopwatch_s() - self.started_s,
            offset_s=offset_s,
            rate=rate,
            clocks=tuple(
                ClockShifted(node=node, before_s=self._before_s[node], during_s=during_s[node])
                for node in self.targets
            ),
        )

    def heal(self) -> None:
        """Have all of them see the true time. Idempotent."""
        self._healed_s = stopwatch_s()
        for node in self.targets:
            self.hosts.reset_clock(node)

    def confirm_healed(self, patience: Patience) -> ClockTrueEffect | None:
        """See that each is as it was, by its own word, but those whose broker is not there."""
        told: dict[str, float] = {}

        def are_true() -> bool:
            told.clear()
            there = [node for node in self.targets if not broker_is_gone(self._site, node)]
            try:
                told.update({node: self.ahead_s(node) for node in there})
            except ClusterError:
                return False  # It is just starting, or stands still: it cannot tell yet.
            return all(abs(told[node]) < TOLERANCE_S for node in there)

        try:
            wait_until(
                are_true,
                timeout_s=patience.limit_s,
                what="the true time",
                interval_s=ASK_INTERVAL_S,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        return ClockTrueEffect(
            took_s=stopwatch_s() - self._healed_s,
            ahead_s=told,
            unasked=tuple(node for node in self.targets if node not in told),
        )
