"""What a bad link does to what goes over it, one way: to messages of connections, to datagrams.

A connection is TCP's: what is lost comes later, and later again, what comes twice is dropped, what
was overtaken waits for nobody but those behind it. So of a message all that shows is when it comes.
Datagrams fare as packets do on real hosts (`cluster.hosts.shaper`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from msgspec import Struct, msgpack

MS = 1_000_000
RESEND_NS = 200 * MS
"""Linux's smallest retransmission timeout (TCP_RTO_MIN); a lost packet costs as much."""
SLOWEST_RESEND_NS = 2_000 * MS
"""How long after a cut's end TCP may try again: its timeout doubles all the while."""
HELD_NS = 100 * MS
"""What is held back for a later one waits no longer, should none come."""
QUEUE_NS = 300 * MS
"""A datagram that would wait longer for its turn is dropped; TCP sends no more than passes."""
BURST_BYTES = 3000
"""What may pass at once before a rate shows."""
_HEADER_BYTES = 100
"""Of a message, beside what it says: those of Kafka's protocol, of TCP and of IP."""

Arrived = Callable[[], object]
"""Called where a datagram arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Badness:
    """What a bad link does.

    Attributes:
        delay_ns: Every message is so much later.
        spread_ns: And up to so much later still.
        loss: The share of packets that are lost; of a message sent again.
        duplicate: The share of datagrams that come twice.
        reorder: The share that is held back until a later one has passed.
        rate_kbit: So many kilobits a second get through; 0: no limit.
        stall_ns, open_ns: All that comes waits for so long, and goes on in order; then so long it
            passes; and so on. The network holds it; 0: none waits.
        stall_share: Of connections, and of flows of datagrams, so large a share stalls.
    """

    delay_ns: int = 0
    spread_ns: int = 0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    rate_kbit: float = 0.0
    stall_ns: int = 0
    open_ns: int = 0
    stall_share: float = 1.0


class BadLink:
    """One direction of a link that is bad.

    Args:
        badness: How.
        random: Draws.
        seed: Decides which connections stall, of both ways alike.
    """

    def __init__(self, badness: Badness, random: Random, seed: int = 0) -> None:
        self.badness, self._draw, self._seed = badness, random.random, seed
        self._per_byte_ns = 8 * MS / badness.rate_kbit if badness.rate_kbit else 0.0
        self._free_ns = 0
        self._held: Arrived | None = None

    def stalls(self, key: str) -> bool:
        """Tell whether a connection, or a flow of datagrams, is one that stalls."""
        share = self.badness.stall_share
        return share >= 1 or Random(f"{self._seed}/{key}").random() < share

    def late_ns(self, message: object, now_ns: int) -> int:
        """Return how much later a message of a connection comes for it."""
        bad, draw = self.badness, self._draw
        late_ns, again_ns = bad.delay_ns + int(draw() * bad.spread_ns), RESEND_NS
        while bad.loss and draw() < bad.loss and again_ns < SLOWEST_RESEND_NS:
            late_ns, again_ns = late_ns + again_ns, 2 * again_ns
        if bad.reorder and draw() < bad.reorder:
            late_ns += int(draw() * HELD_NS)
        if self._per_byte_ns:
            late_ns = self._turn_ns(_size(message), now_ns + late_ns) - now_ns
        return late_ns

    def departures(self, size: int, arrived: Arrived, now_ns: int) -> list[tuple[int, Arrived]]:
        """Return what goes on because of a datagram, and by how much later than over a good link.

        Args:
            size: Of it, in bytes.
            arrived: What it brings about.
            now_ns: When it is sent.
        """
        bad, draw = self.badness, self._draw
        if bad.loss and draw() < bad.loss:
            return []
        copies = 2 if bad.duplicate and draw() < bad.duplicate else 1
        held_back = bool(bad.reorder) and draw() < bad.reorder
        late_ns = bad.delay_ns + int(draw() * bad.spread_ns)
        if self._per_byte_ns:
            turn_ns = self._turn_ns(size * copies, now_ns + late_ns, most_ns=QUEUE_NS)
            if turn_ns < 0:
                return []
            late_ns = turn_ns - now_ns
        if held_back and self._held is None:
            self._held = arrived
            return [(late_ns, arrived)] * (copies - 1)
        passed = [(late_ns, arrived)] * copies
        held, self._held = self._held, None
        return passed if held is None else [*passed, (late_ns + 1, held)]

    def is_held(self, arrived: Arrived) -> bool:
        """Tell whether a datagram is held back."""
        return self._held is arrived

    def let_go(self, arrived: Arrived) -> bool:
        """Hold a datagram back no longer; tell whether it was."""
        if self._held is not arrived:
            return False
        self._held = None
        return True

    def _turn_ns(self, size: int, due_ns: int, *, most_ns: int | None = None) -> int:
        """Return when the rate lets so many bytes pass; -1: the queue before them is too long."""
        self._free_ns = max(self._free_ns, due_ns - int(BURST_BYTES * self._per_byte_ns))
        turn_ns = max(due_ns, self._free_ns)
        if most_ns is not None and turn_ns - due_ns > most_ns:
            return -1
        self._free_ns += int(size * self._per_byte_ns)
        return turn_ns


def _size(message: object) -> int:
    """Return about how many bytes a message has: as nodes of processes write it."""
    if not isinstance(message, Struct):
        return _HEADER_BYTES
    return _HEADER_BYTES + len(msgpack.encode(message))
