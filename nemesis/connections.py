"""Faults of single TCP connections: what those that reset them and those that block them share.

Connections are drawn from those that both ends have established. None is drawn that another fault
blocks, nor over a link that another fault cuts or stalls: nothing would be proven there. New
connections must get through all the while: no cut lets them.
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
        self._openings: set[Opening] = set()
        """Of all that were seen."""

    def now(self) -> Mapping[Connection, Ends]:
        """Return those that an end has now."""
        found = self.hosts.connections(self._links)
        self._openings.update(each.opening for each in found)
        return found

    def whole(self) -> Mapping[Connection, Ends]:
        """Return those that both ends have now, and that nothing else keeps silent."""
        silent = self._silent()
        blocked = {each for block in self.hosts.block_ids() for each in self.hosts.blocked(block)}
        return {
            each: ends
            for each, ends in self.now().items()
            if ends.is_whole and each not in blocked and (each.client, each.server) not in silent
        }

    def some(self) -> Mapping[Connection, Ends]:
        """Return the same.

        Raises:
            ClusterError: There is none.
        """
        if found := self.whole():
            return found
        raise ClusterError(f"no connection of {self._of} is established that could be broken")

    def opened(self) -> Mapping[Opening, bool]:
        """Open a new connection beside each that there was, to the same port; return if it worked.

        Not over links that something else keeps silent, nor to a server that does not run.
        """
        silent = self._silent()
        openings = [
            (client, server, port)
            for client, server, port in sorted(self._openings)
            if (client, server) not in silent and broker_runs(self._site, server)
        ]
        return self.hosts.connects(openings) if openings else {}

    def wait_open(self, patience: Patience, *, ready: Callable[[], bool]) -> tuple[str, ...] | None:
        """Wait until all new connections get through; return which, None if that does not come.

        Args:
            patience: How long, and what ends it.
            ready: Before it says so, none is opened.
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
                what="new connections to get through",
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


def passed(opened: Mapping[Opening, bool]) -> tuple[str, ...]:
    """Return in words which new connections got through, such as `n1 > n2:9092`."""
    return tuple(
        f"{client} > {server}:{port}"
        for client, server, port in sorted(opened)
        if opened[client, server, port]
    )
