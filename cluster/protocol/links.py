"""Protocols and data types for cutting, shaping and measuring the links between machines."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, Self, runtime_checkable

Link = tuple[str, str]
"""A link: a directed pair of nodes. The link stands for the packets from the first node to the
second."""


MOST_FLOWS = 20
CLIENTS = "clients"
"""In a link, this name stands for the machine of the harness and of all clients."""


@runtime_checkable
class CanPartition(Protocol):
    """Hosts whose links can be cut, each link and each direction separately."""

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        """Make the receivers drop the packets of these links. Several cuts can exist at once."""

    def join(self, cut_id: str) -> None:
        """Undo the cut with this id. Idempotent."""

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        """Return the number of packets that each link of a cut has dropped (nft counters)."""

    def probe(self, links: Iterable[Link], timeout_s: float = 0.5) -> Mapping[Link, bool]:
        """Send a datagram over each directed link; return, for each link, whether it arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The effects of a shaped link on packets. With all values 0 there is no effect.

    Attributes:
        delay_ms, jitter_ms: Each packet is delayed by `delay_ms`, plus or minus up to `jitter_ms`.
        loss, duplicate, reorder: The shares of packets, from 0 to 1, that the link loses, sends
            twice, or holds back until a later packet has passed.
        rate_kbit: The maximum rate in kilobits per second; 0: no limit.
        stall_ms, open_ms: During `stall_ms`, all packets wait. Then they leave in order, and during
            `open_ms` packets pass at once. Then the next stall begins. If 0, there are no stalls.
        stall_share: The share of connections (and of datagram flows) that stall, each in both
            directions. Packets of other connections pass.
        seed: The seed of the random decisions.
    """

    delay_ms: float = 0
    jitter_ms: float = 0
    loss: float = 0
    duplicate: float = 0
    reorder: float = 0
    rate_kbit: float = 0
    stall_ms: float = 0
    open_ms: float = 0
    stall_share: float = 1
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The result of a series of numbered datagrams over one directed link and back.

    Attributes:
        sent: The number of sent datagrams.
        arrived: How many different datagrams arrived at the receiver.
        copies: How many copies of datagrams arrived after the first copy.
        overtaken: How many datagrams arrived right after a datagram that was sent later. So if a
            whole group of datagrams is late, for example from a stalled machine, it counts once.
        round_trip_ms: The round trip of each returned datagram, in order of sending.
        lasted_s: Seconds from the first arrival to the last, by the receiver's clock.
        numbers: The numbers of the arrived datagrams, each once, in order of arrival.
    """

    sent: int
    arrived: int
    copies: int
    overtaken: int
    round_trip_ms: tuple[float, ...]
    lasted_s: float
    numbers: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, numbers: Iterable[int], *, sent: int, round_trip_ms: Iterable[float], lasted_s: float
    ) -> Self:
        """Return the result for datagrams that arrived with these numbers, in this order."""
        came = [*numbers]
        first_copies = [*dict.fromkeys(came)]
        return cls(
            sent=sent,
            arrived=len(first_copies),
            copies=len(came) - len(first_copies),
            overtaken=sum(one > next_one for one, next_one in pairwise(first_copies)),
            round_trip_ms=tuple(round_trip_ms),
            lasted_s=lasted_s,
            numbers=tuple(first_copies),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeEnd:
    """How a shape ended on one node.

    Attributes:
        gone: Whether the shaper on this node had already ended.
        killed: Whether the shaper was killed after a timeout, and lost the packets that it held.
        dropped: The number of packets that were dropped because too many packets waited in a stall.
    """

    gone: bool = False
    killed: bool = False
    dropped: int = 0


class Volley(Protocol):
    """Numbered datagrams that are sent over some links at once."""

    def look(self) -> Mapping[Link, Measured]:
        """Return the results so far."""


@runtime_checkable
class CanShape(Protocol):
    """Hosts whose links can be shaped, each link and each direction separately."""

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        """Shape links: delay, lose or slow the packets from each link's first node to its second.

        Raise `ClusterError` if one of the links already has a shape: a link can have only one.
        """

    def unshape(self, shape_id: str) -> Mapping[str, ShapeEnd]:
        """Undo the shape with this id; return, for each node, how the shape ended. Idempotent."""

    def shape_ids(self) -> list[str]:
        """Return the ids of the shapes in force, oldest first."""

    def measure(
        self,
        links: Iterable[Link],
        *,
        count: int = 50,
        size: int = 64,
        interval_s: float = 0.005,
        burst: int = 1,
    ) -> Mapping[Link, Measured]:
        """Send a series of datagrams of `size` bytes over each link; the receiver answers each.

        `burst` datagrams are sent at once, so that no other packet comes between them.
        """

    def volley(self, links: Iterable[Link], *, count: int, flows: int = 1) -> Volley:
        """Send datagrams over each link at once, without waiting; the receiver answers each.

        The datagrams leave from `flows` different ports in turn, because the effect of a shape may
        depend on the port. Raise `ClusterError` if `flows` is larger than `MOST_FLOWS`.
        """


Opening = tuple[str, str, int]
"""A connection that is to be opened: the client, the server, and the server's port."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Connection:
    """A TCP connection between two machines.

    Attributes:
        client, client_port: The machine that opened the connection, and the local port there.
        server, server_port: The machine that listens, and the port at which it listens.
    """

    client: str
    client_port: int
    server: str
    server_port: int

    def __str__(self) -> str:
        """Return the connection as text: `n1:40000 > n2:9092`."""
        return f"{self.client}:{self.client_port} > {self.server}:{self.server_port}"

    @property
    def opening(self) -> Opening:
        """The client, the server and the server's port: what a similar connection needs."""
        return self.client, self.server, self.server_port


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """One end of an established connection, as the kernel of this end's machine reports it.

    Attributes:
        inode: The number of the socket. A later socket with the same ports has another inode.
        unacknowledged: How many bytes the other end has not acknowledged. In virtual time, it is a
            number of messages, not of bytes.
        again: How often these bytes were sent again since the last acknowledgement.
    """

    inode: int
    unacknowledged: int
    again: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Both ends of a connection. An end is None if the connection is not established there."""

    client: Socket | None
    server: Socket | None

    @property
    def is_whole(self) -> bool:
        """Whether the connection is established at both ends."""
        return self.client is not None and self.server is not None


@runtime_checkable
class HasConnections(Protocol):
    """Hosts that can list the TCP connections over their links, and can reset or block some."""

    def connections(self, links: Iterable[Link]) -> Mapping[Connection, Ends]:
        """Return the TCP connections over links; at least one end of each is established."""

    def reset(self, wanted: Collection[Connection]) -> Collection[Connection]:
        """Reset connections with an RST at both ends; return those that still existed.

        Raise `ClusterError` if a kernel refuses.
        """

    def block(self, block_id: str, wanted: Collection[Connection]) -> None:
        """Drop all packets of these connections in both directions, and no other packets.

        A later call with the same id adds connections to the block.
        """

    def unblock(self, block_id: str) -> None:
        """Undo the block with this id. Idempotent."""

    def blocked(self, block_id: str) -> Mapping[Connection, int]:
        """Return, for each connection of a block, the number of packets dropped so far."""

    def block_ids(self) -> list[str]:
        """Return the ids of the blocks in force, oldest first."""

    def is_blocked(self, block_id: str) -> bool:
        """Return whether any machine reports rules of a block that are still in force."""

    def connects(self, openings: Collection[Opening]) -> Mapping[Opening, bool]:
        """Open new connections and close them at once; return whether each one opened."""
