"""Connections that let nothing through while both ends hold them: what half-open ones share.

As where a NAT, a firewall or a dead switch has forgotten a connection: all its packets are dropped,
RST and FIN too. An end that closes it is not heard: the connection is half-open then (RFC 9293,
section 3.5.1), and the other end finds out by a time-out of its own. New connections pass.

It is proven by what the kernels say: packets of a connection were dropped, what an end sent is not
acknowledged though it was sent again, and the other end has the same socket established still.
Meanwhile new connections are opened between the same two. A connection over which nothing is sent
proves nothing, so that others are drawn, one by one, until one does. After the heal TCP sends again
what waits, or an end that knows the connection no more answers with an RST.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from cluster.protocol import ClusterError, Connection, Ends
from nemesis.connections import LOOK_S, Connections, drawn, named, passed
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience
from nemesis.undo import Unblock
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until

ANOTHER_S = 1.0
"""After so long without any evidence one more connection is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadConnection:
    """One connection that lets nothing through.

    Attributes:
        connection: As `n1:40000 > n2:9092`.
        inodes: Of its sockets at client and server: the same as before.
        dropped: Packets that the firewall has dropped of it.
        unacknowledged: Bytes that client and server have sent without an acknowledgement; in
            virtual time messages.
        again: How often each has sent them again.
    """

    connection: str
    inodes: tuple[int, int]
    dropped: int
    unacknowledged: tuple[int, int]
    again: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpenEffect:
    """Connections that let nothing through.

    Attributes:
        block_id: Of the hosts' block.
        took_s: Until it was confirmed.
        drawn: All connections whose packets are dropped.
        dead: Those of which that was seen.
        opened: Which new connections got through meanwhile, as `n1 > n2:9092`.
    """

    block_id: str
    took_s: float
    drawn: tuple[str, ...]
    dead: tuple[DeadConnection, ...]
    opened: tuple[str, ...]

    @property
    def told(self) -> str:
        """What was measured."""
        packets = sum(each.dropped for each in self.dead)
        return (
            f"{len(self.dead)} of {len(self.drawn)} drawn connections let nothing through though"
            f" both ends held them ({named([each.connection for each in self.dead])}): {packets}"
            f" dropped, what was sent again is not acknowledged; new ones pass"
            f" ({', '.join(self.opened)})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PassAgainEffect:
    """Connections whose packets are not dropped any more.

    Attributes:
        took_s: Until no firewall had a rule, and new connections got through.
        dropped: Packets of all of them, right before the heal.
        held: How many both ends still held then; others had been given up.
        opened: Which new connections got through.
    """

    took_s: float
    dropped: int
    held: int
    opened: tuple[str, ...]

    @property
    def told(self) -> str:
        """What was measured."""
        opened = ", ".join(self.opened) or "none was tried"
        return (
            f"no firewall has a rule of it; it had dropped {self.dropped} packets, and both ends"
            f" held {self.held} of the connections to its end; new ones pass ({opened})"
        )


class HalfOpen:
    """Drawn connections whose packets are dropped.

    Args:
        aim: Which fault this is.
        connections: From which they are drawn.
    """

    def __init__(self, aim: Aim, connections: Connections) -> None:
        self.targets = aim.targets
        self.links = ()
        """Links as a whole stay open."""
        self._connections, self._hosts = connections, connections.hosts
        self._rng = aim.rng
        self._block_id = f"fault-{aim.fault_id}"
        self._before: Mapping[Connection, Ends] = {}
        self._drawn: list[Connection] = []
        self._dropped = self._held = 0
        self._started_s = self._grown_s = self._healed_s = stopwatch_s()

    def undo(self) -> tuple[Unblock, ...]:
        """Return the block to remove."""
        return (Unblock(block_id=self._block_id),)

    def inject(self) -> None:
        """Draw some of the connections that there are, and drop their packets."""
        self._before = self._connections.some()
        self._started_s = stopwatch_s()
        self._block(drawn(self._before, self._rng))

    def confirm(self, patience: Patience) -> HalfOpenEffect | None:
        """See that a connection lets nothing through, and that a new one beside it does."""
        try:
            return wait_until(
                self._proven,
                timeout_s=patience.limit_s,
                what="a connection that lets nothing through",
                interval_s=LOOK_S,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None

    def heal(self) -> None:
        """Drop the packets of these connections no more."""
        if self._block_id in self._hosts.block_ids():
            self._healed_s = stopwatch_s()
            # Evidence only: nothing may stand between a block and its end.
            with suppress(ClusterError, OSError):
                self._dropped = sum(self._hosts.blocked(self._block_id).values())
                now = self._connections.now()
                self._held = sum(self._is_same(each, now) for each in self._drawn)
        self._hosts.unblock(self._block_id)

    def confirm_healed(self, patience: Patience) -> PassAgainEffect | None:
        """See that no firewall drops them, and that new connections get through."""
        opened = self._connections.wait_open(
            patience, ready=lambda: not self._hosts.is_blocked(self._block_id)
        )
        if opened is None:
            return None
        return PassAgainEffect(
            took_s=stopwatch_s() - self._healed_s,
            dropped=self._dropped,
            held=self._held,
            opened=opened,
        )

    def _block(self, more: list[Connection]) -> None:
        self._drawn += more
        self._hosts.block(self._block_id, more)
        self._grown_s = stopwatch_s()

    def _proven(self) -> HalfOpenEffect | None:
        """Look once; where no connection proves anything for a while, drop those of one more."""
        packets = self._hosts.blocked(self._block_id)
        now = self._connections.now()
        dead = {
            each: self._dead(each, now[each], packets[each])
            for each in self._drawn
            if self._is_same(each, now) and packets.get(each) and _waits(now[each])
        }
        opened = self._connections.opened() if dead else {}
        if any(opened.get(each.opening) for each in dead):
            return HalfOpenEffect(
                block_id=self._block_id,
                took_s=stopwatch_s() - self._started_s,
                drawn=tuple(map(str, self._drawn)),
                dead=tuple(dead.values()),
                opened=passed(opened),
            )
        left = sorted(self._before.keys() - {*self._drawn})
        if not dead and left and stopwatch_s() - self._grown_s > ANOTHER_S:
            self._block([self._rng.choice(left)])
        return None

    def _is_same(self, each: Connection, now: Mapping[Connection, Ends]) -> bool:
        """Tell whether both ends have the sockets of before."""
        return each in now and _inodes(now[each]) == _inodes(self._before[each])

    def _dead(self, each: Connection, ends: Ends, packets: int) -> DeadConnection:
        assert ends.client is not None, "both ends have it"
        assert ends.server is not None, "both ends have it"
        return DeadConnection(
            connection=str(each),
            inodes=(ends.client.inode, ends.server.inode),
            dropped=packets,
            unacknowledged=(ends.client.unacknowledged, ends.server.unacknowledged),
            again=(ends.client.again, ends.server.again),
        )


def _inodes(ends: Ends) -> tuple[int | None, ...]:
    return tuple(end.inode if end else None for end in (ends.client, ends.server))


def _waits(ends: Ends) -> bool:
    """Return whether an end has sent something again and again without an acknowledgement."""
    return any(
        end is not None and end.unacknowledged and end.again for end in (ends.client, ends.server)
    )


def in_words(between: str) -> InWords:
    """Return the words of such a fault, by the two between whom connections are."""
    return InWords(
        does=f"all packets of some connections between {between} are dropped, and neither end"
        " learns of it; new connections pass",
        injected="an nft chain of their addresses and ports at both ends drops what arrives there;"
        " where nodes are containers, the server's drops both ways of connections with clients",
        proven="both ends have the socket of before; nft dropped its packets; what was sent again"
        " is not acknowledged; a new connection beside it gets through",
        undone="removal of its chains; no firewall lists them, and new connections get through",
    )
