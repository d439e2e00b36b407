"""The effects of a bad link, in one direction, on messages of connections and on datagrams.

A connection behaves like TCP. A lost packet is sent again, duplicates are dropped, and an overtaken
packet delays only the packets behind it. So a bad link only changes the times at which a
connection's messages arrive. Datagrams behave like the packets on real hosts
(`cluster.hosts.shaper`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from msgspec import Struct, msgpack

MS = 1_000_000
RESEND_NS = 200 * MS
"""The delay that a lost packet causes: Linux's smallest retransmission timeout (TCP_RTO_MIN)."""
SLOWEST_RESEND_NS = 2_000 * MS
"""TCP retries at most this long after a cut ends. During a cut, TCP's timeout doubles."""
HELD_NS = 100 * MS
"""The longest time that a datagram is held back for reordering if no later datagram comes."""
QUEUE_NS = 300 * MS
"""If a rate limit would delay a datagram longer than this, the datagram is dropped.

TCP never sends faster than the rate limit.
"""
BURST_BYTES = 3000
"""The number of bytes that pass at once before the rate limit applies."""
_HEADER_BYTES = 100
"""The size in bytes of a message's headers: Kafka's protocol, TCP and IP."""

Arrived = Callable[[], object]
"""A function called when a datagram arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Badness:
    """The properties of a bad link.

    Attributes:
        delay_ns: The delay of every message.
        spread_ns: The largest additional delay. The actual additional delay is random.
        loss: The share of lost packets. TCP sends a lost packet of a message again.
        duplicate: The share of datagrams that arrive twice.
        reorder: The share of datagrams that are held back until a later datagram has passed.
        rate_kbit: The most kilobits a second; 0: no limit.
        stall_ns, open_ns: During `stall_ns`, all messages wait. Then they leave in order, and
            during `open_ns` messages pass. Then the next stall begins. If 0, there are no stalls.
        stall_share: The share of connections, and of datagram flows, that stall.
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
    """One direction of a bad link.

    Args:
        badness: The properties of the link.
        random: Makes the random decisions.
        seed: Decides which connections stall. The same connections stall in both directions.
    """

    def __init__(self, badness: Badness, random: Random, seed: int = 0) -> None:
        self.badness, self._draw, self._seed = badness, random.random, seed
        self._per_byte_ns = 8 * MS / badness.rate_kbit if badness.rate_kbit else 0.0
        self._free_ns = 0
        self._held: Arrived | None = None

    def stalls(self, key: str) -> bool:
        """Return whether a connection, or a flow of datagrams, stalls."""
        share = self.badness.stall_share
        return share >= 1 or Random(f"{self._seed}/{key}").random() < share

    def late_ns(self, message: object, now_ns: int) -> int:
        """Return the delay that the bad link adds to a connection's message."""
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
        """Return which datagrams leave when this one is sent, and the additional delay of each.

        This datagram may be lost, doubled, or held back. An earlier datagram that was held back may
        leave with this one.

        Args:
            size: The datagram's size in bytes.
            arrived: The function to call when the datagram arrives.
            now_ns: The time at which the datagram is sent.
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
        """Return whether a datagram is held back."""
        return self._held is arrived

    def let_go(self, arrived: Arrived) -> bool:
        """Release a datagram, if it is held back; return whether it was held back."""
        if self._held is not arrived:
            return False
        self._held = None
        return True

    def _turn_ns(self, size: int, due_ns: int, *, most_ns: int | None = None) -> int:
        """Return the time at which the rate limit lets the bytes pass; -1: the queue is full."""
        self._free_ns = max(self._free_ns, due_ns - int(BURST_BYTES * self._per_byte_ns))
        turn_ns = max(due_ns, self._free_ns)
        if most_ns is not None and turn_ns - due_ns > most_ns:
            return -1
        self._free_ns += int(size * self._per_byte_ns)
        return turn_ns


def _size(message: object) -> int:
    """Return the approximate size of a message in bytes, as node processes encode it."""
    if not isinstance(message, Struct):
        return _HEADER_BYTES
    return _HEADER_BYTES + len(msgpack.encode(message))
