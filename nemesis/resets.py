"""Connections that are reset, some at a time, again and again: what such faults share.

Both ends lose a connection at once (RFC 9293, sections 3.5.2 and 3.5.3), with all that was under
way on it: a client does not know whether its last request was done, and asks again on a new one. As
where a load balancer, a NAT or a restarted proxy resets what it does not know any more. Nothing
stays in force: what was reset stays so, and its client may open another one.

It is proven by what the kernels say: the server's had the connection and ended it, afterwards
neither end has it, and there is a new one between the same two.
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
"""Between two strikes: some hit connections that were just opened, some those that are in use."""
GONE_S = 2.0
"""Within this, both ends of what was reset must be gone."""
END_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetStrike:
    """Connections that were reset at one moment.

    Attributes:
        at_s: In seconds after the first.
        drawn: How many were to be reset.
        gone: Those that the kernel had and ended, and that neither end has afterwards.
    """

    at_s: float
    drawn: int
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionsResetEffect:
    """Connections that are reset again and again; the strikes until a new connection was seen.

    Attributes:
        took_s: Until it was confirmed.
        strikes: So far.
        renewed: New connections between the same two, to the same port.
    """

    took_s: float
    strikes: tuple[ResetStrike, ...]
    renewed: tuple[str, ...]

    @property
    def told(self) -> str:
        """What was measured."""
        gone = [each for strike in self.strikes for each in strike.gone]
        return (
            f"{len(gone)} connections are gone at both ends ({named(gone)}); between the same two"
            f" a new one was there ({named(self.renewed)})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetsOverEffect:
    """Connections that are reset no more.

    Attributes:
        took_s: Until new connections got through.
        strikes: All that there were.
        opened: Which new connections got through, as `n1 > n2:9092`.
    """

    took_s: float
    strikes: tuple[ResetStrike, ...]
    opened: tuple[str, ...]

    @property
    def told(self) -> str:
        """What was measured."""
        gone = sum(len(strike.gone) for strike in self.strikes)
        opened = f"new ones pass ({', '.join(self.opened) or 'none was tried'})"
        return f"{gone} connections were reset in {len(self.strikes)} strikes; {opened}"


class Resets:
    """Drawn connections that are reset until the fault is healed.

    Args:
        aim: Which fault this is; its random source draws moments and connections.
        connections: From which they are drawn.
    """

    def __init__(self, aim: Aim, connections: Connections) -> None:
        self.targets = aim.targets
        self.links = ()
        """Links as a whole stay open."""
        self._connections = connections
        self._aim, self._rng = aim, aim.rng
        self._turn, self._over = new_lock(), new_event()
        self._strikes: list[ResetStrike] = []
        self._gone: set[Connection] = set()
        self._known: set[Connection] = set()
        """Those of before the first strike that was seen to work."""
        self._started_s = self._healed_s = stopwatch_s()
        self._background = Background()

    def undo(self) -> tuple[Undo, ...]:
        """Return nothing: nothing stays in force."""
        return ()

    def inject(self) -> None:
        """See that there are connections, and begin to reset some."""
        self._known.update(self._connections.some())
        self._started_s = stopwatch_s()
        self._background.start(self._go_on, f"fault-{self._aim.fault_id}-resets")

    def confirm(self, patience: Patience) -> ConnectionsResetEffect | None:
        """See that connections are gone at both ends, and that there are new ones.

        Raises:
            ClusterError: There are not, and a strike has failed.
        """
        try:
            renewed = wait_until(
                self._renewed,
                timeout_s=patience.limit_s,
                what="a new connection between two of whom one was reset",
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
        """Reset none any more."""
        if not self._over.is_set():
            self._healed_s = stopwatch_s()
        self._over.set()
        with self._turn:
            pass  # A strike that is under way has reset what it drew.
        self._background.join(END_LIMIT_S)

    def confirm_healed(self, patience: Patience) -> ResetsOverEffect | None:
        """See that new connections get through, and that no strike is under way."""
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
        """Reset some of the connections that there are, and see that they are gone."""
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
            # At once: it counts, whether anybody can look at it afterwards or not.
            self._strikes.append(ResetStrike(at_s=round(at_s, 3), drawn=len(hit), gone=()))
        with suppress(WaitTimeoutError):  # Those that are gone count.
            wait_until(
                lambda: self._connections.now().keys().isdisjoint(ended),
                timeout_s=GONE_S,
                what="both ends to be gone",
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
    """Return the words of such a fault, by the two between whom connections are."""
    return InWords(
        does=f"some of the connections between {between} are reset at both ends, again and again,"
        " at drawn moments",
        injected="the kernel of the server of each ends it (SOCK_DESTROY) and sends an RST",
        proven="the kernel had it; neither end has it afterwards; a new one between the same two",
        undone="nothing stays in force; new connections get through",
    )
