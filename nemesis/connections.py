"""Faults of single TCP connections: what those that reset them and those that block them share.

Connections are drawn from those that both ends have established; over links that another fault cuts
or stalls nothing would be proven, so that none is drawn there. New connections must get through all
the while: that tells these faults from cuts.
"""

from collections.abc import Collection, Iterable, Mapping
from random import Random

from cluster.protocol import (
    CLIENTS,
    ClusterError,
    Connection,
    Ends,
    HasConnections,
    Link,
)
from nemesis.brokers import broker_runs
from nemesis.protocol import Aim, Site

LOOK_S = 0.2
"""Between two looks: each asks the kernel of every machine."""
NAMED = 3
"""In a sentence; the record has all."""


class Connections:
    """The connections over some links, as the kernels at both ends have them.

    Args:
        site: Its hosts tell.
        links: Between whom; either direction.
        of: Whose these are, for messages.

    Raises:
        ClusterError: The hosts cannot tell, or there is no link.
    """

    def __init__(self, site: Site, links: Collection[Link], *, of: str) -> None:
        if site.hosts is None or not isinstance(site.hosts, HasConnections):
            raise ClusterError("these hosts do not tell single connections from others")
        if not links:
            raise ClusterError(f"there is no link of {of} with connections to break")
        self.hosts: HasConnections = site.hosts
        self._site, self._links, self._of = site, tuple(links), of
        self._ports: dict[Link, int] = {}
        """By client and server, where the server listens, as far as any was seen."""

    def now(self) -> Mapping[Connection, Ends]:
        """Return those that an end has now."""
        found = self.hosts.connections(self._links)
        self._ports.update({(each.client, each.server): each.server_port for each in found})
        return found

    def whole(self) -> Mapping[Connection, Ends]:
        """Return those that both ends have now, over links that nothing else keeps silent."""
        silent = self._silent()
        return {
            each: ends
            for each, ends in self.now().items()
            if ends.is_whole and (each.client, each.server) not in silent
        }

    def some(self) -> Mapping[Connection, Ends]:
        """Return the same.

        Raises:
            ClusterError: There is none.
        """
        if found := self.whole():
            return found
        raise ClusterError(f"no connection of {self._of} is established that could be broken")

    def opened(self) -> Mapping[Link, bool]:
        """Open a new connection between any two between whom there was one; tell if that works.

        Not over links that something else keeps silent, nor to a broker that does not run.
        """
        silent = self._silent()
        links = {
            link: port
            for link, port in self._ports.items()
            if link not in silent and self._runs(link[1])
        }
        return self.hosts.connects(links) if links else {}

    def _runs(self, node: str) -> bool:
        return self._site.cluster.process(node) is None or broker_runs(self._site, node)

    def _silent(self) -> Collection[Link]:
        silent = self._site.network.silent_links() if self._site.network else frozenset()
        return silent | {(b, a) for a, b in silent}


def between_servers(aim: Aim, site: Site) -> Connections:
    """Return the connections between the targets and all other servers, or of targets together."""
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
    """Return up to half of some connections, at least one, in a drawn order."""
    deck = sorted(among)
    return rng.sample(deck, rng.randint(1, max(1, len(deck) // 2)))


def named(connections: Collection[str]) -> str:
    """Return some connections in words: the first ones, and how many more."""
    more = len(connections) - NAMED
    first = ", ".join(sorted(connections)[:NAMED])
    return f"{first} and {more} more" if more > 0 else first


def way(link: Link) -> str:
    """Return a link in words."""
    return f"{link[0]} > {link[1]}"
