"""Code shared by the faults that reset or block individual TCP connections.

The fault chooses at random from connections that both ends have established. It excludes
connections that another fault blocks, and links that another fault cuts or stalls. On those, the
fault could not prove that it has an effect. New connections must succeed during the whole fault,
because the fault does not cut them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random

from cluster.protocol import (
    CLIENTS,
    ClusterError,
    Connection,
    Ends,
    HasConnections,
    Link,
    Opening,
)
from nemesis.brokers import broker_runs
from nemesis.protocol import Aim, Patience, Site
from results.record.clock import WaitTimeoutError, wait_until

LOOK_S = 0.2
"""Seconds between two observations. Each observation queries the kernel of every machine that
has one of the links."""
NAMED = 3
"""The number of connections that a sentence names. The run's record has all of them."""


class Connections:
    """The connections over some links, as the kernels at both ends report them.

    Args:
        site: The run's cluster and hosts. The hosts report connections.
        links: The links, each used in both directions.
        of: The owner of the connections, as text for messages.

    Raises:
        ClusterError: The hosts cannot report connections, or there is no link.
    """

    def __init__(self, site: Site, links: Collection[Link], *, of: str) -> None:
        if site.hosts is None or not isinstance(site.hosts, HasConnections):
            raise ClusterError("these hosts cannot list or break single connections")
        if not links:
            raise ClusterError(f"there is no link of {of} whose connections can be broken")
        self.hosts: HasConnections = site.hosts
        self._site, self._links, self._of = site, tuple(links), of
        self._openings: set[Opening] = set()
        """All combinations of client, server and port that were seen so far."""

    def now(self) -> Mapping[Connection, Ends]:
        """Return the connections that at least one end has now."""
        found = self.hosts.connections(self._links)
        self._openings.update(each.opening for each in found)
        return found

    def whole(self) -> Mapping[Connection, Ends]:
        """Return the connections that both ends have now and that no other fault silences."""
        silent = self._silent()
        blocked = {each for block in self.hosts.block_ids() for each in self.hosts.blocked(block)}
        return {
            each: ends
            for each, ends in self.now().items()
            if ends.is_whole and each not in blocked and (each.client, each.server) not in silent
        }

    def some(self) -> Mapping[Connection, Ends]:
        """Return the connections of `whole()`.

        Raises:
            ClusterError: There is no such connection.
        """
        if found := self.whole():
            return found
        raise ClusterError(f"{self._of}: no connection is established, so none can be broken")

    def opened(self) -> Mapping[Opening, bool]:
        """Try to open a new connection for each one seen so far. Return which attempts succeeded.

        A new connection goes to the port of the old one. Servers that do not run, and links that
        another fault silences, are left out.
        """
        silent = self._silent()
        openings = [
            (client, server, port)
            for client, server, port in sorted(self._openings)
            if (client, server) not in silent and broker_runs(self._site, server)
        ]
        return self.hosts.connects(openings) if openings else {}

    def wait_open(self, patience: Patience, *, ready: Callable[[], bool]) -> tuple[str, ...] | None:
        """Wait until all new connections succeed. Return their names, or None after a timeout.

        Args:
            patience: The time limit, and the event that ends the wait.
            ready: Connections are opened only after this function has returned True.
        """
        opened: dict[Opening, bool] = {}

        def all_pass() -> bool:
            opened.clear()
            opened.update(self.opened() if (is_ready := ready()) else {})
            return is_ready and all(opened.values())

        try:
            wait_until(
                all_pass,
                timeout_s=patience.limit_s,
                what="new connections to succeed",
                interval_s=LOOK_S,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        return passed(opened)

    def _silent(self) -> Collection[Link]:
        silent = self._site.network.silent_links() if self._site.network else frozenset()
        return silent | {(b, a) for a, b in silent}


def between_servers(aim: Aim, site: Site) -> Connections:
    """Return the connections between a target and any other server, other targets included."""
    servers = (*site.cluster.nodes, *site.controllers)
    links = {
        (min(target, other), max(target, other))
        for target in aim.targets
        for other in servers
        if other != target
    }
    return Connections(site, sorted(links), of=", ".join(aim.targets))


def of_clients(aim: Aim, site: Site) -> Connections:
    """Return the connections between clients and the targets."""
    links = [(CLIENTS, node) for node in aim.targets]
    return Connections(site, links, of=f"clients with {', '.join(aim.targets)}")


def drawn(among: Iterable[Connection], rng: Random) -> list[Connection]:
    """Return random connections in random order: up to half of them, but at least one."""
    deck = sorted(among)
    return rng.sample(deck, rng.randint(1, max(1, len(deck) // 2)))


def named(connections: Collection[str]) -> str:
    """Return connections as text: the first names, and the number of the others."""
    more = len(connections) - NAMED
    first = ", ".join(sorted(connections)[:NAMED])
    return f"{first} and {more} more" if more > 0 else first


def passed(opened: Mapping[Opening, bool]) -> tuple[str, ...]:
    """Return the names of the successful new connections, such as `n1 > n2:9092`."""
    return tuple(
        f"{client} > {server}:{port}"
        for client, server, port in sorted(opened)
        if opened[client, server, port]
    )
