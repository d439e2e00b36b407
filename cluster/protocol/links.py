"""The links between machines: cut, made bad, measured."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, Self, runtime_checkable

Link = tuple[str, str]
"""A directed pair of nodes: what the first sends to the second."""


MOST_FLOWS = 20
CLIENTS = "clients"
"""In a link: the machine of the harness and of all clients."""


@runtime_checkable
class CanPartition(Protocol):
    """Hosts whose network can be cut, link by link and direction by direction."""

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        """Drop what travels over the links, at the receiver. Cuts of several ids add up."""

    def join(self, cut_id: str) -> None:
        """Undo one cut, and no other. Idempotent."""

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        """Return how many packets each link of a cut has dropped so far (nft counters)."""

    def probe(self, links: Iterable[Link], timeout_s: float = 0.5) -> Mapping[Link, bool]:
        """Send a datagram of our own over each directed link; tell for each if it arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What a link does to packets. All faults of 0: nothing.

    Attributes:
        delay_ms, jitter_ms: Each packet is late by `delay_ms`, give or take up to `jitter_ms`.
        loss, duplicate, reorder: Shares of packets, 0 to 1, that are lost, sent twice, held back
            until a later one has passed.
        rate_kbit: At most so many kilobits a second; 0: no limit.
        stall_ms, open_ms: All packets wait for `stall_ms` and then go on in order; for `open_ms`
            each passes at once; then all wait again, and so on. 0: none waits.
        stall_share: Of connections, and of flows of datagrams, so large a share stalls, in both
            directions; packets of others pass.
        seed: Of the draws.
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
    """What became of a series of numbered datagrams of our own over one directed link and back.

    Attributes:
        sent: How many were sent.
        arrived: How many different ones arrived at the receiver.
        copies: How many arrived once more.
        overtaken: How many arrived right behind one that was sent later. What is late as a whole,
            as on a machine that stalls, counts once.
        round_trip_ms: Of each that came back, in order of sending.
        lasted_s: From the first arrival to the last, by the receiver's clock.
        numbers: Those that arrived, each once, in the order in which they came.
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
        """Return it for the numbers that arrived, in the order in which they came."""
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
    """How the end of a shape went on one node.

    Attributes:
        gone: What shaped there had ended before.
        killed: It did not end in time and was killed, with all packets that it held.
        dropped: So many packets found no room while a link stalled.
    """

    gone: bool = False
    killed: bool = False
    dropped: int = 0


class Volley(Protocol):
    """Numbered datagrams that were sent over some links at once."""

    def look(self) -> Mapping[Link, Measured]:
        """Return what has become of them so far."""


@runtime_checkable
class CanShape(Protocol):
    """Hosts whose links can be made bad, link by link and direction by direction."""

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        """Make links bad for what the first node sends to the second.

        Raises `ClusterError` if another shape has one of the links: two do not add up.
        """

    def unshape(self, shape_id: str) -> Mapping[str, ShapeEnd]:
        """Undo one shape, and no other; return how it ended, by node. Idempotent."""

    def shape_ids(self) -> list[str]:
        """Return the shapes in force, the oldest first."""

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

        `burst` of them are sent at once, so that nothing of others comes between.
        """

    def volley(self, links: Iterable[Link], *, count: int, flows: int = 1) -> Volley:
        """Send datagrams over each link, all at once, and do not wait; the receiver answers each.

        They leave by turns from `flows` ports, at most `MOST_FLOWS`: what becomes of a connection
        may depend on its port. Raises `ClusterError` if that is too many.
        """


Opening = tuple[str, str, int]
"""Of a connection: who opens it, to whom, to which port there."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Connection:
    """A TCP connection between two machines, by who opened it to whom.

    Attributes:
        client, client_port: Who opened it, and its port there.
        server, server_port: To whom; the port listens.
    """

    client: str
    client_port: int
    server: str
    server_port: int

    def __str__(self) -> str:
        """Return `n1:40000 > n2:9092`."""
        return f"{self.client}:{self.client_port} > {self.server}:{self.server_port}"

    @property
    def opening(self) -> Opening:
        """How another one beside it is opened."""
        return self.client, self.server, self.server_port


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """An end of a connection that is established, as its machine's kernel says.

    Attributes:
        inode: Its own number: another one with the same ports has another.
        unacknowledged: So many bytes (in virtual time: messages) the other end has not
            acknowledged.
        again: So often they were sent again since it acknowledged anything.
    """

    inode: int
    unacknowledged: int
    again: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Both ends of a connection; None: that end does not have it established."""

    client: Socket | None
    server: Socket | None

    @property
    def is_whole(self) -> bool:
        """Whether both ends have it."""
        return self.client is not None and self.server is not None


@runtime_checkable
class HasConnections(Protocol):
    """Hosts that know the single TCP connections over their links, and can break them."""

    def connections(self, links: Iterable[Link]) -> Mapping[Connection, Ends]:
        """Return the connections over links, in either direction, that an end has established."""

    def reset(self, wanted: Collection[Connection]) -> Collection[Connection]:
        """End connections at once, as by an RST at both ends; return those that were there.

        Raises `ClusterError` if a kernel refuses it.
        """

    def block(self, block_id: str, wanted: Collection[Connection]) -> None:
        """Drop all packets of connections, both ways, so that neither end hears of the other.

        No other connection is touched. Again with the same id: these as well.
        """

    def unblock(self, block_id: str) -> None:
        """Undo one block, and no other. Idempotent."""

    def blocked(self, block_id: str) -> Mapping[Connection, int]:
        """Return how many packets of each connection a block has dropped so far."""

    def block_ids(self) -> list[str]:
        """Return the blocks in force, the oldest first."""

    def is_blocked(self, block_id: str) -> bool:
        """Tell whether any machine still has something of a block in force, as it says itself."""

    def connects(self, openings: Collection[Opening]) -> Mapping[Opening, bool]:
        """Open new connections, and close them at once; return of each if that worked."""
