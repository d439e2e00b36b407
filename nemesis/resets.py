"""Code shared by the reset faults: again and again, some of the connections are reset.

Both ends lose the connection and all its data in flight at once (RFC 9293, sections 3.5.2 and
3.5.3). The client does not know whether its last request was executed, so it retries the request on
a new connection. In the same way, a load balancer, a NAT or a restarted proxy resets connections
that it no longer knows. The fault leaves nothing behind that must be undone. A reset connection
stays closed, and the client can open another one.

The proof comes from the kernels. First, the server's kernel had the connection and ended it.
Second, the connection is gone at both ends afterwards. Third, a new connection exists between the
same two machines.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from cluster.protocol import Connection
from nemesis.background import Background
from nemesis.connections import LOOK_S, Connections, drawn, named
from nemesis.in_words import InWords
from nemesis.protocol import FAILURES, Aim, Patience
from nemesis.undo import Undo
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until
from results.record.runtime import new_event, new_lock

EVERY_S = (0.3, 3.0)
"""Shortest and longest pause after a round of resets. So some rounds hit new connections, and
other rounds hit connections in use."""
GONE_S = 2.0
"""Seconds within which a reset connection must disappear at both ends."""
END_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetStrike:
    """Connections that were reset at one moment.

    Attributes:
        at_s: Seconds from the fault's start to the round.
        drawn: How many connections were chosen for a reset.
        gone: Connections that the kernel ended, and that are gone at both ends afterwards.
    """

    at_s: float
    drawn: int
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionsResetEffect:
    """Connections that are reset repeatedly. At least one new connection has been seen.

    Attributes:
        took_s: Seconds until the fault was confirmed.
        strikes: The rounds of resets so far.
        renewed: New connections between the same two machines, to the same port.
    """

    took_s: float
    strikes: tuple[ResetStrike, ...]
    renewed: tuple[str, ...]

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        gone = [each for strike in self.strikes for each in strike.gone]
        return (
            f"{len(gone)} connections were closed at both ends ({named(gone)}); new connections"
            f" between the same machines were seen ({named(self.renewed)})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetsOverEffect:
    """Connections that are no longer reset.

    Attributes:
        took_s: Seconds until new connections succeeded.
        strikes: All rounds of resets.
        opened: New connections that succeeded: `n1 > n2:9092`.
    """

    took_s: float
    strikes: tuple[ResetStrike, ...]
    opened: tuple[str, ...]

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        gone = sum(len(strike.gone) for strike in self.strikes)
        opened = f"new connections work ({', '.join(self.opened) or 'none was tried'})"
        return f"{gone} connections were reset in {len(self.strikes)} rounds; {opened}"


class Resets:
    """A fault that resets random connections until the heal.

    Args:
        aim: The fault's id and targets. The random source chooses times and connections.
        connections: The connections to choose from.
    """

    def __init__(self, aim: Aim, connections: Connections) -> None:
        self.targets = aim.targets
        self.links = ()
        """The fault cuts no whole links."""
        self._connections = connections
        self._aim, self._rng = aim, aim.rng
        self._turn, self._over = new_lock(), new_event()
        self._strikes: list[ResetStrike] = []
        self._gone: set[Connection] = set()
        self._known: set[Connection] = set()
        """The connections seen before the first round of resets that had an effect."""
        self._started_s = self._healed_s = stopwatch_s()
        self._background = Background()

    def undo(self) -> tuple[Undo, ...]:
        """Return no undo steps, because the fault leaves nothing active."""
        return ()

    def inject(self) -> None:
        """Check that there are connections, and start to reset some of them."""
        self._known.update(self._connections.some())
        self._started_s = stopwatch_s()
        self._background.start(self._go_on, f"fault-{self._aim.fault_id}-resets")

    def confirm(self, patience: Patience) -> ConnectionsResetEffect | None:
        """Confirm that connections are closed at both ends, and that new connections exist.

        Raises:
            ClusterError: A round of resets failed, and no effect was confirmed.
        """
        try:
            renewed = wait_until(
                self._renewed,
                timeout_s=patience.limit_s,
                what="a new connection between two machines whose connection was reset",
                interval_s=LOOK_S,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            self._background.raise_failure()
            return None
        return ConnectionsResetEffect(
            took_s=stopwatch_s() - self._started_s,
            strikes=tuple(self._strikes),
            renewed=tuple(map(str, renewed)),
        )

    def heal(self) -> None:
        """Stop resetting connections."""
        if not self._over.is_set():
            self._healed_s = stopwatch_s()
        self._over.set()
        with self._turn:
            pass  # A round in progress has already reset its connections.
        self._background.join(END_LIMIT_S)

    def confirm_healed(self, patience: Patience) -> ResetsOverEffect | None:
        """Confirm that new connections succeed, and that no round of resets is running."""
        self._background.raise_bugs()
        opened = self._connections.wait_open(patience, ready=lambda: not self._background.is_busy())
        if opened is None:
            return None
        return ResetsOverEffect(
            took_s=stopwatch_s() - self._healed_s,
            strikes=tuple(self._strikes),
            opened=opened,
        )

    def _go_on(self) -> None:
        while not self._is_over():
            try:
                self._strike()
            except FAILURES as failed:
                self._background.note(failed)
            self._over.wait(self._rng.uniform(*EVERY_S))

    def _is_over(self) -> bool:
        return self._over.is_set() or self._aim.is_late

    def _strike(self) -> None:
        """Reset some of the current connections, and check that they are closed."""
        there = self._connections.whole()
        if not there:
            return
        if not self._gone:
            self._known.update(there)
        hit, at_s = drawn(there, self._rng), stopwatch_s() - self._started_s
        with self._turn:
            if self._is_over():
                return
            ended = self._connections.hosts.reset(hit)
            # Note the round at once, because it counts even if it cannot be checked afterwards.
            self._strikes.append(ResetStrike(at_s=round(at_s, 3), drawn=len(hit), gone=()))
        with suppress(WaitTimeoutError):  # The connections that were closed count.
            wait_until(
                lambda: self._connections.now().keys().isdisjoint(ended),
                timeout_s=GONE_S,
                what="both ends to be closed",
                stop=self._over,
            )
        gone = {*ended} - self._connections.now().keys()
        self._strikes[-1] = replace(self._strikes[-1], gone=tuple(map(str, sorted(gone))))
        self._gone |= gone

    def _renewed(self) -> Sequence[Connection]:
        self._background.raise_bugs()
        gone = {each.opening for each in {*self._gone}}
        return [
            each
            for each, ends in (self._connections.now() if gone else {}).items()
            if ends.is_whole and each not in self._known
            if each.opening in gone
        ]


def in_words(between: str) -> InWords:
    """Return the documentation texts of a reset fault. `between` names both ends."""
    return InWords(
        does=f"some of the connections between {between} are repeatedly reset at both ends, at"
        " random moments",
        injected="the kernel of each server ends its connection (SOCK_DESTROY) and sends an RST",
        proven=(
            "both ends had the connection before and neither has it afterwards; a new connection"
            " exists between the same machines"
        ),
        undone="the resets end; new connections work",
    )
