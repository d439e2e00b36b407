"""Code shared by the clock faults: brokers that get a wrong wall-clock time.

The proof comes from the brokers. Each broker is made to write a line into its own log, before,
during and after the fault. The line's timestamp is compared with Logquake's clock (`CanTellTime`).
"""

from collections.abc import Callable, Mapping

from cluster.protocol import CanShiftClock, CanTellTime, ClusterError
from nemesis.brokers import broker_is_gone, running_broker
from nemesis.cluster_effects import ClockEffect, ClockShifted, ClockTrueEffect
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import TrueClock
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until

TOLERANCE_S = 0.5
"""The allowed difference in seconds, because a broker on a busy machine answers late."""
PROOF_LIMIT_S = 30.0
"""Seconds to wait for a proof. A strobing clock is right in half of the responses, and a busy
broker responds only once a second."""
ASK_INTERVAL_S = 0.2


class ShiftedClocks:
    """The base class of clock faults. Each subclass makes and proves one kind of wrong clock.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts must be able to shift clocks, and the cluster
            must report the brokers' time.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if site.hosts is None or not isinstance(site.hosts, CanShiftClock):
            raise ClusterError("these hosts cannot shift a broker's clock")
        if not isinstance(site.cluster, CanTellTime):
            raise ClusterError("the brokers of this cluster do not report their time")
        for node in aim.targets:
            running_broker(site, node)
        self.targets: tuple[str, ...] = aim.targets
        self.hosts: CanShiftClock = site.hosts
        self._cluster: CanTellTime = site.cluster
        self._site, self._stop = site, aim.stop
        self._before_s: dict[str, float] = {}
        self.started_s = self._healed_s = stopwatch_s()

    def undo(self) -> tuple[TrueClock, ...]:
        """Return undo steps that set the clocks right."""
        return tuple(TrueClock(node=node) for node in self.targets)

    def note_before(self) -> None:
        """Ask each broker for its current time, before the fault begins.

        Raises:
            ClusterError: A broker does not report its time after several requests.
        """
        told: dict[str, float] = {}

        def all_told() -> bool:
            told.update({node: self._cluster.clock_error_s(node) for node in self.targets})
            return True

        patience = Patience(limit_s=0, stop=self._stop)
        self.come_to(all_told, patience, what="the brokers to report their time")
        self._before_s = told
        self.started_s = stopwatch_s()

    def ahead_s(self, node: str) -> float:
        """Return how many seconds a broker's clock has gained since `note_before`."""
        return self._cluster.clock_error_s(node) - self._before_s.get(node, 0.0)

    def come_to(
        self,
        wanted: Callable[[], bool],
        patience: Patience,
        *,
        what: str,
        interval_s: float = ASK_INTERVAL_S,
    ) -> bool:
        """Wait until the clocks reach a wanted state. Return False after a timeout.

        Args:
            wanted: A function that asks the brokers, and returns whether the state is reached.
            patience: The time limit (at least `PROOF_LIMIT_S` is used), and the event that ends the
                wait.
            what: The wanted state as text.
            interval_s: Seconds between two requests.

        Raises:
            ClusterError: A broker does not report its time. A busy broker is asked again until the
                time limit.
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
        """Return the effect, computed from the clock differences that brokers reported."""
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
        """Set all clocks to the true time. Idempotent."""
        self._healed_s = stopwatch_s()
        for node in self.targets:
            self.hosts.reset_clock(node)

    def confirm_healed(self, patience: Patience) -> ClockTrueEffect | None:
        """Confirm that each broker reports the right time. Brokers that are down are not asked."""
        told: dict[str, float] = {}

        def are_true() -> bool:
            told.clear()
            there = [node for node in self.targets if not broker_is_gone(self._site, node)]
            try:
                told.update({node: self.ahead_s(node) for node in there})
            except ClusterError:
                return False  # The broker is starting or paused, and cannot answer yet.
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
