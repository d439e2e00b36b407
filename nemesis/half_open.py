"""Code shared by the half-open faults: connections deliver nothing, although both ends keep them.

A NAT, a firewall or a dead switch that has forgotten a connection acts like this. All packets of
the connection are dropped, including RST and FIN. So if one end closes the connection, the other
end does not notice. The connection is then half-open (RFC 9293, section 3.5.1), and the other end
needs a timeout of its own. New connections work.

Three facts from the kernels prove the fault on one connection. Its packets were dropped. Data was
retransmitted, but no acknowledgement arrived. Both ends still have the same established sockets.
Meanwhile new connections between the same two machines must succeed. A connection without traffic
proves nothing. In this case the fault blocks one more connection at a time, until one proves the
fault. After the heal, TCP retransmits the waiting data. If the receiver has closed its end, it
answers with an RST.
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
"""If there is no evidence for this many seconds, the fault blocks one more connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadConnection:
    """A connection that delivers nothing.

    Attributes:
        connection: The two ends: `n1:40000 > n2:9092`.
        inodes: The inodes of the client's and the server's socket. They are the same as before the
            fault.
        dropped: The number of packets that the firewall dropped.
        unacknowledged: Bytes that client and server sent without an acknowledgement. In virtual
            time, this is the number of messages.
        again: The number of retransmissions of client and server.
    """

    connection: str
    inodes: tuple[int, int]
    dropped: int
    unacknowledged: tuple[int, int]
    again: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpenEffect:
    """Connections that deliver nothing.

    Attributes:
        block_id: The id of the firewall rules (the block) on the hosts.
        took_s: Seconds until the fault was confirmed.
        drawn: All chosen connections, whose packets are dropped.
        dead: The chosen connections that prove the fault.
        opened: New connections that succeeded meanwhile: `n1 > n2:9092`.
    """

    block_id: str
    took_s: float
    drawn: tuple[str, ...]
    dead: tuple[DeadConnection, ...]
    opened: tuple[str, ...]

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        packets = sum(each.dropped for each in self.dead)
        return (
            f"{len(self.dead)} of {len(self.drawn)} chosen connections delivered nothing,"
            " although both ends still had them"
            f" ({named([each.connection for each in self.dead])}): {packets} packets dropped,"
            " retransmitted data not acknowledged; new connections work"
            f" ({', '.join(self.opened)})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PassAgainEffect:
    """Connections whose packets are no longer dropped.

    Attributes:
        took_s: Seconds until all firewall rules were gone and new connections succeeded.
        dropped: The number of dropped packets of all connections, just before the heal.
        held: The number of connections that both ends still had just before the heal. At least one
            end had closed each of the others.
        opened: New connections that succeeded.
    """

    took_s: float
    dropped: int
    held: int
    opened: tuple[str, ...]

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        opened = ", ".join(self.opened) or "none was tried"
        return (
            f"no firewall has a rule of this fault; the fault dropped {self.dropped} packets, and"
            f" both ends had {self.held} of the connections until the heal; new connections work"
            f" ({opened})"
        )


class HalfOpen:
    """A fault that drops all packets of randomly chosen connections.

    Args:
        aim: The fault's id and targets.
        connections: The connections to choose from.
    """

    def __init__(self, aim: Aim, connections: Connections) -> None:
        self.targets = aim.targets
        self.links = ()
        """The fault cuts no whole links."""
        self._connections, self._hosts = connections, connections.hosts
        self._rng = aim.rng
        self._block_id = f"fault-{aim.fault_id}"
        self._before: Mapping[Connection, Ends] = {}
        self._drawn: list[Connection] = []
        self._dropped = self._held = 0
        self._started_s = self._grown_s = self._healed_s = stopwatch_s()

    def undo(self) -> tuple[Unblock, ...]:
        """Return the undo step that removes the firewall rules."""
        return (Unblock(block_id=self._block_id),)

    def inject(self) -> None:
        """Choose some of the existing connections at random, and drop their packets."""
        self._before = self._connections.some()
        self._started_s = stopwatch_s()
        self._block(drawn(self._before, self._rng))

    def confirm(self, patience: Patience) -> HalfOpenEffect | None:
        """Confirm that a connection delivers nothing, and that a new one between its ends works."""
        try:
            return wait_until(
                self._proven,
                timeout_s=patience.limit_s,
                what="a connection that delivers nothing",
                interval_s=LOOK_S,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None

    def heal(self) -> None:
        """Remove the firewall rules, so that packets of these connections pass again."""
        if self._block_id in self._hosts.block_ids():
            self._healed_s = stopwatch_s()
            # These counts are evidence only. Errors here must not prevent the removal of the block.
            with suppress(ClusterError, OSError):
                self._dropped = sum(self._hosts.blocked(self._block_id).values())
                now = self._connections.now()
                self._held = sum(self._is_same(each, now) for each in self._drawn)
        self._hosts.unblock(self._block_id)

    def confirm_healed(self, patience: Patience) -> PassAgainEffect | None:
        """Confirm that no firewall drops the fault's packets, and that new connections succeed."""
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
        """Look for a proof once. After a while without proof, block one more connection."""
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
        """Return whether both ends have the same sockets as before the fault."""
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
    """Return whether an end has retransmitted data at least once without an acknowledgement."""
    return any(
        end is not None and end.unacknowledged and end.again for end in (ends.client, ends.server)
    )


def in_words(between: str) -> InWords:
    """Return the documentation texts of a half-open fault. `between` names both ends."""
    return InWords(
        does=f"all packets of some connections between {between} are dropped, but neither end is"
        " notified; new connections work",
        injected=(
            "an nft chain at both ends drops arriving packets of these addresses and ports; for"
            " clients' connections to containers, the server's chain drops both directions"
        ),
        proven=(
            "both ends still have the old socket; nft dropped its packets; retransmitted data is"
            " not acknowledged; a new connection between the same ends works"
        ),
        undone="removal of the chains; no firewall has them; new connections work",
    )
