"""Hosts in memory with connections between brokers, and hosts that break them wrongly."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from random import Random

from cluster.protocol import CLIENTS, ClusterError, Connection, Ends, Link, Opening, Socket
from nemesis.network import Network
from nemesis.protocol import Aim, Patience, Site
from tests.nemesis.conftest import FakeCluster, FakeNetwork

NODES = ["n1", "n2", "n3"]
SOON = Patience(limit_s=1.5)
IDLE = 9093
"""The port of connections over which nothing is sent."""


class FakeConnections(FakeNetwork):
    """Two connections between any two, and of clients with each; one of the two is idle.

    What is reset is opened again at the next look. Over what is not idle something is sent before
    each look.
    """

    def __init__(self) -> None:
        super().__init__()
        self._opened = 0
        self.there: dict[Connection, Ends] = {}
        self.blocks: dict[str, dict[Connection, int]] = {}
        self._due: list[Connection] = []
        pairs = [("n1", "n2"), ("n3", "n1"), ("n2", "n3"), *((CLIENTS, node) for node in NODES)]
        for client, server in pairs:
            for port in (9092, IDLE):
                self.open(client, server, port)

    def open(self, client: str, server: str, port: int) -> None:
        self._opened += 1
        at = 40_000 + self._opened
        made = Connection(client=client, client_port=at, server=server, server_port=port)
        ends = [Socket(inode=at + end, unacknowledged=0, again=0) for end in (1000, 2000)]
        self.there[made] = Ends(client=ends[0], server=ends[1])

    def connections(self, links: Iterable[Link]) -> Mapping[Connection, Ends]:
        pairs = {frozenset(link) for link in links}
        for each in self._due:
            self.open(each.client, each.server, each.server_port)
        self._due.clear()
        for block in self.blocks.values():
            for each in [one for one in block if one in self.there and one.server_port != IDLE]:
                self.sent_in_vain(each, block)
        return {
            each: ends
            for each, ends in self.there.items()
            if frozenset({each.client, each.server}) in pairs
        }

    def sent_in_vain(self, each: Connection, block: dict[Connection, int]) -> None:
        block[each] += 1
        ends = self.there[each]
        assert ends.client is not None, "it was opened"
        waits = replace(ends.client, unacknowledged=100, again=block[each])
        self.there[each] = replace(ends, client=waits)

    def reset(self, wanted: Collection[Connection]) -> Collection[Connection]:
        ended = [each for each in wanted if each in self.there]
        for each in ended:
            del self.there[each]
        self._due += ended
        return ended

    def block(self, block_id: str, wanted: Collection[Connection]) -> None:
        self.blocks.setdefault(block_id, {}).update(dict.fromkeys(wanted, 0))

    def unblock(self, block_id: str) -> None:
        self.blocks.pop(block_id, None)

    def blocked(self, block_id: str) -> Mapping[Connection, int]:
        return self.blocks.get(block_id, {})

    def block_ids(self) -> list[str]:
        return list(self.blocks)

    def is_blocked(self, block_id: str) -> bool:
        return block_id in self.blocks

    def connects(self, openings: Collection[Opening]) -> Mapping[Opening, bool]:
        arrives = self.probe([each[:2] for each in openings])
        return {each: arrives[each[:2]] for each in openings}


class NothingThere(FakeConnections):
    """No connection is established."""

    def connections(self, links: Iterable[Link]) -> Mapping[Connection, Ends]:
        del links
        return {}


class NobodyHit(FakeConnections):
    """Nothing is reset, nothing is dropped."""

    def reset(self, wanted: Collection[Connection]) -> Collection[Connection]:
        del wanted
        return []

    def sent_in_vain(self, each: Connection, block: dict[Connection, int]) -> None:
        """It arrives."""


class OneEndStays(FakeConnections):
    """What is reset is gone at one end only; what is blocked loses its other end."""

    def reset(self, wanted: Collection[Connection]) -> Collection[Connection]:
        for each in wanted:
            self.there[each] = replace(self.there[each], server=None)
        return wanted

    def sent_in_vain(self, each: Connection, block: dict[Connection, int]) -> None:
        super().sent_in_vain(each, block)
        self.there[each] = replace(self.there[each], server=None)


class NobodyComesBack(FakeConnections):
    """What is reset is not opened again; beside what is blocked nothing new gets through."""

    def reset(self, wanted: Collection[Connection]) -> Collection[Connection]:
        ended = super().reset(wanted)
        self._due.clear()
        return ended

    def connects(self, openings: Collection[Opening]) -> Mapping[Opening, bool]:
        return dict.fromkeys(openings, False)


class OnlyAnotherPort(FakeConnections):
    """Beside what is blocked new connections get through to another port only."""

    def connects(self, openings: Collection[Opening]) -> Mapping[Opening, bool]:
        return {each: each[2] == IDLE for each in openings}


class AnotherInItsPlace(FakeConnections):
    """The socket of before is gone; another one has its ports."""

    def sent_in_vain(self, each: Connection, block: dict[Connection, int]) -> None:
        super().sent_in_vain(each, block)
        ends = self.there[each]
        assert ends.client is not None, "it was opened"
        self.there[each] = replace(ends, client=replace(ends.client, inode=7))


class NeverUnblocked(FakeConnections):
    """A block stays."""

    def unblock(self, block_id: str) -> None:
        del block_id


class KernelRefuses(FakeConnections):
    """The kernel was built without resets."""

    def reset(self, wanted: Collection[Connection]) -> Collection[Connection]:
        raise ClusterError(f"the kernel of n2 resets nothing ({len(wanted)} asked)")


class RefusesTwice(FakeConnections):
    """The machine cannot be reached for a while."""

    refusals = 2

    def reset(self, wanted: Collection[Connection]) -> Collection[Connection]:
        if self.refusals:
            self.refusals -= 1
            raise ClusterError("n2 cannot be reached")
        return super().reset(wanted)


def site_of(hosts: FakeNetwork) -> Site:
    """Return a site of three brokers on hosts."""
    cluster = FakeCluster(NODES)
    network = Network(hosts)
    return Site(cluster=cluster, network=network, state_of=cluster.state_of, hosts=hosts)


def aimed(*targets: str, seed: int = 0) -> Aim:
    """Return that some nodes, or n2, are meant."""
    return Aim(fault_id=1, targets=targets or ("n2",), rng=Random(seed))
