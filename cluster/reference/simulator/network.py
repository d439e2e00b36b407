"""The simulated network: connections between two incarnations, and faults on their messages.

As with TCP, the messages of one connection arrive in order, and each arrives once. After the
connection breaks, no more messages arrive. A connection belongs to the two processes that opened
and accepted it. A message to a process that has died never reaches the next process on the same
machine.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from cluster.reference.simulator.agenda import Agenda
from cluster.reference.simulator.badness import (
    HELD_NS,
    RESEND_NS,
    SLOWEST_RESEND_NS,
    BadLink,
    Badness,
)

US = 1_000
END = -1
"""A message with this number means that the sender has closed its end of the connection."""
KNOCK = -2
"""A message with this number is not a request, so the server closes the connection."""
HANDSHAKES = 3
"""A connection's first message takes three times as long, because SYN and SYN-ACK come first."""

CLIENT = -1
"""In a link, this number stands for the machine of any client. Each client also has its own
negative number."""
NEVER = 1 << 63
"""Virtual time never reaches this time."""
MANY = 1000
"""If there are more connections than this, the network forgets the finished ones."""

Link = tuple[int, int]
"""One direction between two machines: (from, to)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The delay of messages and the lifetime of connections.

    Attributes:
        least_ns: The smallest delay of a message.
        spread_ns: The most additional delay, chosen at random.
        slow_share: The share of messages that are much slower, because a packet is lost and resent.
        mean_life_s: The average time until a connection breaks. With None, no connection breaks by
            itself.
    """

    least_ns: int = 100 * US
    spread_ns: int = 300 * US
    slow_share: float = 0.0005
    mean_life_s: float | None = 600


class Party(Protocol):
    """The part of a process that its connections use.

    Attributes:
        id: The id of the process's machine; negative for a client.
        alive: Whether the process exists: it runs or is paused.
    """

    id: int
    alive: bool

    def requested(self, over: "Connection", number: int, message: object) -> None:
        """Handle a request, or the end of a connection over which requests came."""

    def answered(self, over: "Connection", number: int, message: object) -> None:
        """Handle a response, or the end of a connection that this process opened."""


class Destination(Protocol):
    """A machine to which connections can be opened.

    Attributes:
        id: The machine's id.
        powered: Whether the machine is on. If the machine is off, its kernel does not answer.
    """

    id: int
    powered: bool

    @property
    def process(self) -> Party | None:
        """Return the process that accepts connections on the machine, if any."""


@dataclass(slots=True, eq=False)
class Connection:
    """A connection. `there` means from client to server, `back` the other direction.

    Attributes:
        number: The connection's number, unique in a simulation.
        ahead, behind: The links of requests and of responses.
        client: The process that opened the connection.
        to: The machine to which the connection was opened.
        server: The process that accepted the connection; None while the first message is in
            transit.
        pending: The deadlines of unanswered requests, in order.
        looks_ns: The time of the client's next check for overdue requests.
        client_open, server_open: Whether the process at each end still has the connection open.
        broken: Whether the connection is broken, so that only the message `END` can still arrive.
        blocked: For each block, the number of messages that have waited since the block began.
            While a block exists, all messages over the connection wait, and the two ends do not
            notice.
    """

    number: int
    ahead: Link
    behind: Link
    client: Party
    to: Destination
    server: Party | None = None
    pending: dict[int, int] = field(default_factory=dict)
    looks_ns: int = NEVER
    client_open: bool = True
    server_open: bool = True
    broken: bool = False
    blocked: dict[str, int] = field(default_factory=dict)
    there_ns: int = 0
    back_ns: int = 0
    held_there: deque[tuple[int, object]] = field(default_factory=deque)
    held_back: deque[tuple[int, object]] = field(default_factory=deque)

    @property
    def at_client(self) -> bool:
        """Whether the client's end is open and established."""
        return self.client_open and self.client.alive and self.server is not None

    @property
    def at_server(self) -> bool:
        """Whether the server's end is open."""
        return self.server is not None and self.server.alive and self.server_open

    @property
    def is_over(self) -> bool:
        """Whether both ends are closed for good."""
        if self.server is None:
            return self.broken
        return not (self.at_client or self.at_server)


class Network:
    """All connections, and the links below them.

    Args:
        agenda: Virtual time.
        random: The network's own random stream.
        latency: The latency of every link.
    """

    def __init__(self, agenda: Agenda, random: Random, latency: Latency) -> None:
        self._agenda = agenda
        self._draw = random.random
        self._random = random
        self._latency = latency
        self._least_ns = latency.least_ns
        self._spread_ns = latency.spread_ns
        self._slow_share = latency.slow_share
        self._cuts: dict[Link, int] = {}
        self._bad: dict[Link, BadLink] = {}
        self._stalled: dict[Link, list[tuple[Callable[[], object], int]]] = {}
        """Datagrams that stalled links hold, each with its flow."""
        self._held: dict[int, Connection] = {}
        self._last: dict[Link, int] = {}
        self._opened = 0
        self._made: dict[int, Connection] = {}
        """By number: all connections that may be established, and some connections that are
        over."""
        self._tidies_at = MANY
        self.messages = 0
        """The number of delivered messages."""
        self.dropped: dict[Link, int] = {}
        """For each link, the number of messages and datagrams that a cut has held or dropped."""

    def connect(self, client: Party, to: Destination) -> Connection:
        """Open a connection; its first message includes the handshake."""
        self._opened += 1
        mine = client.id if client.id >= 0 else CLIENT
        ahead, behind = (mine, to.id), (to.id, mine)
        made = Connection(self._opened, ahead, behind, client, to)
        self._remember(made)
        now = self._agenda.now
        made.there_ns = now + (HANDSHAKES - 1) * self._delay_ns(ahead)
        if self._latency.mean_life_s is not None:
            life_ns = int(self._random.expovariate(1 / self._latency.mean_life_s) * 1e9)
            self._agenda.at(now + life_ns, self.break_off, made)
        return made

    def _remember(self, made: Connection) -> None:
        if len(self._made) >= self._tidies_at:
            left = {number: each for number, each in self._made.items() if not each.is_over}
            self._made, self._tidies_at = left, max(MANY, 2 * len(left))
        self._made[made.number] = made

    def send_there(self, over: Connection, number: int, message: object) -> None:
        """Send a message from the client's end; the number `END` closes that end."""
        agenda = self._agenda
        at_ns, before_ns = agenda.now + self._delay_ns(over.ahead, message), over.there_ns
        over.there_ns = at_ns = at_ns if at_ns > before_ns else before_ns
        agenda.coming(at_ns, self._come_there, over, number, message)

    def send_back(self, over: Connection, number: int, message: object) -> None:
        """Send a message from the server's end."""
        agenda = self._agenda
        at_ns, before_ns = agenda.now + self._delay_ns(over.behind, message), over.back_ns
        over.back_ns = at_ns = at_ns if at_ns > before_ns else before_ns
        agenda.coming(at_ns, self._come_back, over, number, message)

    def break_off(self, connection: Connection) -> None:
        """Break a connection: messages in transit are lost, and both ends notice."""
        if connection.broken or not connection.client_open:
            return
        connection.broken = True
        connection.held_there.clear()
        connection.held_back.clear()
        self.send_there(connection, END, None)
        self.send_back(connection, END, None)

    def connections(self) -> list[Connection]:
        """Return all connections that are established at either end, the oldest first."""
        return [each for each in self._made.values() if each.at_client or each.at_server]

    def block(self, connection: Connection, block_id: str) -> None:
        """Stop all messages over a connection, which neither end notices. Several blocks add up."""
        connection.blocked.setdefault(block_id, 0)

    def unblock(self, connection: Connection, block_id: str) -> None:
        """Undo one block. TCP now resends the messages of that time, so they arrive later."""
        connection.blocked.pop(block_id, None)
        if connection.number in self._held and not connection.blocked:
            delay_ns = int(self._draw() * SLOWEST_RESEND_NS)
            self._agenda.after(delay_ns, self._let_go, connection)

    def cut(self, links: list[Link]) -> None:
        """Stop all messages from one machine to another. Several cuts add up."""
        for link in links:
            self._cuts[link] = self._cuts.get(link, 0) + 1

    def join(self, links: list[Link]) -> None:
        """Undo one cut. TCP now resends the messages of that time, so they arrive later."""
        for link in links:
            self._cuts[link] -= 1
            if not self._cuts[link]:
                del self._cuts[link]
        for connection in list(self._held.values()):
            delay_ns = int(self._draw() * SLOWEST_RESEND_NS)
            self._agenda.after(delay_ns, self._let_go, connection)

    def is_cut(self, sender: int, receiver: int) -> bool:
        """Return whether a link is cut."""
        return (sender, receiver) in self._cuts

    def probe(
        self, link: Link, arrived: Callable[[], object], *, size: int = 64, flow: int = 0
    ) -> None:
        """Send a datagram; `arrived` is called when it arrives.

        Datagrams of a link arrive in order. Over a bad link a datagram may be lost, arrive twice,
        or arrive after a later datagram.
        """
        now, draw = self._agenda.now, self._draw
        due_ns = max(now + self._least_ns + int(draw() * self._spread_ns), self._last.get(link, 0))
        if draw() < self._slow_share:
            return  # A lost datagram is not sent again.
        self._last[link] = due_ns
        bad = self._bad.get(link)
        if bad is None:
            self._agenda.at(due_ns, self._probed, link, arrived, flow)
            return
        for late_ns, what in bad.departures(size, arrived, now):
            self._agenda.at(due_ns + late_ns, self._probed, link, what, flow)
        if bad.is_held(arrived):
            self._agenda.after(HELD_NS, self._overdue, bad, link, arrived)

    def _overdue(self, bad: BadLink, link: Link, arrived: Callable[[], object]) -> None:
        if bad.let_go(arrived):
            self._probed(link, arrived)

    def _probed(self, link: Link, arrived: Callable[[], object], flow: int = 0) -> None:
        if link in self._cuts:
            self.dropped[link] = self.dropped.get(link, 0) + 1
        elif link in self._stalled and self._bad[link].stalls(f"flow-{flow}"):
            self._stalled[link].append((arrived, flow))
        else:
            arrived()

    def make_bad(self, links: list[Link], badness: Badness, *, seed: int | None = None) -> None:
        """Turn links into bad links.

        Args:
            links: The links. If an earlier stall holds messages, these messages are delivered now.
            badness: The properties of each link.
            seed: The seed of the random decisions. With None, the network's own stream gives the
                seed.
        """
        drawn = self._random.getrandbits(32) if seed is None else seed
        for link in links:
            self._pass_on(link)
            bad = BadLink(badness, Random(f"{drawn}/{link[0]}>{link[1]}"), drawn)
            self._bad[link] = bad
            if badness.stall_ns:
                self._stall(link, bad)

    def make_good(self, links: list[Link]) -> None:
        """Turn bad links into good links again, and deliver the messages that the links hold."""
        for link in links:
            self._bad.pop(link, None)
            self._pass_on(link)

    def is_stalled(self, sender: int, receiver: int) -> bool:
        """Return whether a link is in a stall."""
        return (sender, receiver) in self._stalled

    def _stall(self, link: Link, bad: BadLink) -> None:
        """Begin a stall of a link; do nothing if the link has changed in the meantime."""
        if self._bad.get(link) is bad:
            self._stalled.setdefault(link, [])
            self._agenda.after(bad.badness.stall_ns, self._open, link, bad)

    def _open(self, link: Link, bad: BadLink) -> None:
        if self._bad.get(link) is bad:
            self._pass_on(link)
            self._agenda.after(bad.badness.open_ns, self._stall, link, bad)

    def _pass_on(self, link: Link) -> None:
        """End a stall: held messages arrive now, in order."""
        datagrams = self._stalled.pop(link, None)
        if datagrams is None:
            return
        for arrived, flow in datagrams:
            self._agenda.after(0, self._probed, link, arrived, flow)
        for connection in self._held.values():
            if link in {connection.ahead, connection.behind}:
                self._agenda.after(0, self._let_go, connection)

    def _delay_ns(self, link: Link, message: object = None) -> int:
        draw = self._draw
        delay_ns = self._least_ns + int(draw() * self._spread_ns)
        if draw() < self._slow_share:
            delay_ns += RESEND_NS
        if self._bad and (bad := self._bad.get(link)) is not None:
            delay_ns += bad.late_ns(message, self._agenda.now + delay_ns)
        return delay_ns

    def _come_there(self, over: Connection, number: int, message: object) -> None:
        if self._cuts and over.ahead in self._cuts:
            self.dropped[over.ahead] = self.dropped.get(over.ahead, 0) + 1
        if over.blocked:
            _count(over)
        stops = over.blocked or self._cuts or self._stalled
        if (stops and self._stops_there(over)) or over.held_there:
            over.held_there.append((number, message))
            self._held[over.number] = over
            return
        server = over.server
        if server is not None and server.alive and over.server_open and not over.broken:
            self.messages += 1
            server.requested(over, number, message)
        else:
            self._hand_over_there(over, number, message)

    def _stops_there(self, over: Connection) -> bool:
        if over.blocked or over.ahead in self._cuts or self._holds(over.ahead, over):
            return True
        # A handshake needs both directions.
        opens = over.server is None
        return opens and (over.behind in self._cuts or self._holds(over.behind, over))

    def _stops_back(self, over: Connection) -> bool:
        return bool(over.blocked) or over.behind in self._cuts or self._holds(over.behind, over)

    def _holds(self, link: Link, over: Connection) -> bool:
        return link in self._stalled and self._bad[link].stalls(f"{over.number}")

    def _hand_over_there(self, over: Connection, number: int, message: object) -> None:
        if over.broken and number != END:
            return
        server = over.server
        if server is None or not server.alive:
            if not self._accepted(over):
                return
            server = over.server
            assert server is not None, "it was accepted"
        if not over.server_open:
            return
        self.messages += 1
        server.requested(over, number, message)

    def _accepted(self, over: Connection) -> bool:
        """Let the machine's process accept a connection; if none runs, the kernel refuses it."""
        host = over.to
        if not host.powered:
            # No kernel answers. This message is lost, so later ones must not arrive either.
            over.broken = True
            return False
        if over.server is None and not over.broken and host.process is not None:
            over.server = host.process
            return True
        if over.client_open:
            over.broken = True
            self.send_back(over, END, None)
        return False

    def _come_back(self, over: Connection, number: int, message: object) -> None:
        link = over.behind
        if self._cuts and link in self._cuts:
            self.dropped[link] = self.dropped.get(link, 0) + 1
        elif over.blocked:
            _count(over)
        elif not (over.held_back or (self._stalled and self._holds(link, over))):
            self._hand_over_back(over, number, message)
            return
        over.held_back.append((number, message))
        self._held[over.number] = over

    def _hand_over_back(self, over: Connection, number: int, message: object) -> None:
        if (over.broken and number != END) or not (over.client_open and over.client.alive):
            return
        self.messages += 1
        over.client.answered(over, number, message)

    def _let_go(self, over: Connection) -> None:
        """Deliver held messages until a cut or a stall stops a message."""
        while over.held_there and not self._stops_there(over):
            self._hand_over_there(over, *over.held_there.popleft())
        while over.held_back and not self._stops_back(over):
            self._hand_over_back(over, *over.held_back.popleft())
        if not over.held_there and not over.held_back:
            self._held.pop(over.number, None)


def _count(over: Connection) -> None:
    """Count a waiting message, once for each block of the connection."""
    for block_id in over.blocked:
        over.blocked[block_id] += 1
