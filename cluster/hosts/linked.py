"""The base class of hosts in which each machine has an agent and an address.

Namespace, container and ssh hosts share this code. Cuts are nft rules at the receiver. Probes are
datagrams between agents. Each kind of hosts has its own way to make machines, connect to them, and
remove them.
"""

import threading
import uuid
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from cluster.hosts import connections
from cluster.hosts.cuts import (
    OUTPUT,
    TABLE,
    Drop,
    block_chains,
    block_rules,
    chain,
    chains,
    cut_rules,
    drop_marked,
    dropped_packets,
    join_rules,
    unblock_rules,
)
from cluster.hosts.machine import Machine
from cluster.hosts.series import SentVolley, measure
from cluster.hosts.shapes import device, order, receivers_by_sender
from cluster.protocol import (
    CLIENTS,
    ClusterError,
    Connection,
    Ends,
    Link,
    Measured,
    Opening,
    ProcessId,
    Quality,
    ShapeEnd,
)
from results.record.clock import pause_until, stopwatch_s

PROBE_INTERVAL_S = 0.1


class LinkedHosts(ABC):
    """The code of `CanPartition`, `CanShape` and `HasConnections` for hosts with agents.

    Attributes:
        machines: The machines by node. Each kind of hosts adds its machines in `up` and removes
            them in `down`.
        table: The name of this run's nft table on each machine.
        clients_are_ours: Whether the run may change nft rules on the clients' machine.
    """

    clients_are_ours = True

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {}
        self.table = TABLE
        self._cuts: dict[str, frozenset[Link]] = {}
        self._shapes: dict[str, frozenset[Link]] = {}
        self._ends: dict[str, dict[str, ShapeEnd]] = {}
        self._blocks: dict[str, dict[str, Connection]] = {}
        """The connections of each block, by block id and then by name."""
        self._blocking = threading.Lock()
        """The lock for making, extending and undoing a block, so that no connection
        is forgotten."""

    @abstractmethod
    def address(self, node: str) -> str:
        """Return the address of a node, or of `CLIENTS`."""

    def machine(self, node: str) -> Machine:
        """Return the machine of a node.

        Raises:
            ClusterError: There is no such node, or the hosts are down.
        """
        self.address(node)
        if node not in self.machines:
            raise ClusterError("the hosts are down")
        return self.machines[node]

    def exit_of(self, node: str, process: ProcessId) -> int | None:
        """Return the exit code of a node's process, or minus the signal that ended it."""
        return self.machines[node].exit_of(process) if node in self.machines else None

    def nft(self, node: str) -> Sequence[str]:  # noqa: ARG002 - hosts of other kinds may differ
        """Return the command line that starts nft on a machine, perhaps through sudo."""
        return ("nft",)

    def drop_what_cuts_mark(self, node: str) -> None:
        """Create the run's nft table on a machine, with the chain that drops marked packets."""
        self.run_nft(node, drop_marked(self.table))

    def run_nft(self, node: str, script: str) -> None:
        """Run an nft script on a node. If a command fails, no command takes effect."""
        self.machine(node).run([*self.nft(node), "-f", "-"], stdin=script)

    def _run_nft_on_each(self, nodes: Iterable[str], script: str) -> None:
        """Run an nft script on each node, even after a failure; then raise the first failure."""
        failures: list[ClusterError] = []
        for node in sorted(nodes):
            try:
                self.run_nft(node, script)
            except ClusterError as failed:
                failures.append(failed)
        if failures:
            raise failures[0]

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        """Drop the packets on the links. For this, each receiver gets an nft chain."""
        directed = frozenset(links)
        self.join(cut_id)
        self._cuts[cut_id] = directed
        for receiver, sources in _sources_by_receiver(directed).items():
            addresses = {source: self.address(source) for source in sorted(sources)}
            self.run_nft(receiver, cut_rules(cut_id, addresses, table=self.table))

    def join(self, cut_id: str) -> None:
        """Undo the cut with this id. Idempotent: a call after a failure retries every node."""
        receivers = _sources_by_receiver(self._cuts.get(cut_id, frozenset()))
        # The rules are added again before their deletion, so that a half-made cut is undone too.
        self._run_nft_on_each(receivers, join_rules(cut_id, table=self.table))
        self._cuts.pop(cut_id, None)

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        """Return the number of packets that each link of a cut has dropped (nft counters)."""
        links = self._cuts.get(cut_id, frozenset())
        counts: dict[Link, int] = {}
        for receiver in sorted(_sources_by_receiver(links)):
            argv = [*self.nft(receiver), "-j", "list", "chain", "ip", self.table, chain(cut_id)]
            listing = self.machine(receiver).run(argv)
            for source, packets in dropped_packets(listing, {chain(cut_id)}):
                counts[source, receiver] = packets
        return counts

    def probe(self, links: Iterable[Link], timeout_s: float = 0.5) -> Mapping[Link, bool]:
        """Send datagrams over each directed link. Return, for each link, whether any arrived."""
        nonces = {f"{uuid.uuid4()}": link for link in links}
        deadline_s = stopwatch_s() + timeout_s
        arrived: set[Link] = set()
        while True:
            last = stopwatch_s() + PROBE_INTERVAL_S >= deadline_s
            arrived |= self._probe_once({n: at for n, at in nonces.items() if at not in arrived})
            if last or len(arrived) == len(nonces):
                return {link: link in arrived for link in nonces.values()}
            pause_until(stopwatch_s() + PROBE_INTERVAL_S)

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        """Shape links: delay, lose or limit packets from the first node to the second node.

        A shaper runs at the first node of each link.

        Raises:
            ClusterError: One of the links already has another shape, or a shaper cannot start.
        """
        directed = frozenset(links)
        self.unshape(shape_id)
        for other, taken in self._shapes.items():
            if both := sorted(directed & taken):
                raise ClusterError(
                    f"the link from {' to '.join(both[0])} is already shaped by {other}"
                )
        self._shapes[shape_id] = directed
        name = device(self.table, shape_id)
        for sender, receivers in receivers_by_sender(directed).items():
            addresses = {receiver: self.address(receiver) for receiver in receivers}
            told = order(name, quality, sender=sender, addresses=addresses)
            self.machine(sender).shape(told, prefix=self.nft(sender)[:-1])

    def unshape(self, shape_id: str) -> Mapping[str, ShapeEnd]:
        """Undo a shape: end the shapers, and return how each shaper ended. Idempotent."""
        name = device(self.table, shape_id)
        failures: list[ClusterError] = []
        ends = self._ends.setdefault(shape_id, {})  # Keeps the results of a call that failed.
        for sender in receivers_by_sender(self._shapes.get(shape_id, frozenset())):
            if sender not in self.machines:
                continue  # The machine's shaper ended with it.
            try:
                if end := self.machines[sender].unshape(name):
                    ends[sender] = end
            except ClusterError as failed:
                failures.append(failed)
        if failures:
            raise failures[0]
        self._shapes.pop(shape_id, None)
        return self._ends.pop(shape_id)

    def shape_ids(self) -> list[str]:
        """Return the ids of the shapes in force, oldest first."""
        return list(self._shapes)

    def measure(
        self,
        links: Iterable[Link],
        *,
        count: int = 50,
        size: int = 64,
        interval_s: float = 0.005,
        burst: int = 1,
    ) -> Mapping[Link, Measured]:
        """Send a series of datagrams of `size` bytes over each link. The receivers answer."""
        spacing = {
            "count": count, "size": size, "interval_s": interval_s, "burst": burst, "flows": 1,
        }  # fmt: skip
        return measure(links, machine=self.machine, address=self.address, spacing=spacing)

    def volley(self, links: Iterable[Link], *, count: int, flows: int = 1) -> SentVolley:
        """Send datagrams over each link at once, without waiting. Receivers answer all datagrams.

        Raises:
            ClusterError: An agent has fewer ports than `flows`.
        """
        return SentVolley(
            links, machine=self.machine, address=self.address, count=count, flows=flows
        )

    def connections(self, links: Iterable[Link]) -> Mapping[Connection, Ends]:
        """Return the TCP connections over links, including those established at only one end."""
        return connections.connections(links, machine=self.machine, address=self.address)

    def reset(self, wanted: Collection[Connection]) -> Collection[Connection]:
        """Reset connections with an RST at both ends. Return the connections that still existed.

        Raises:
            ClusterError: A kernel refuses to reset a connection.
        """
        return connections.reset(wanted, machine=self.machine, address=self.address)

    def block(self, block_id: str, wanted: Collection[Connection]) -> None:
        """Drop all packets of connections at both ends, and add the connections to the block."""
        with self._blocking:
            self._blocks.setdefault(block_id, {}).update({str(each): each for each in wanted})
            for node, those in self._drops(wanted).items():
                self.run_nft(node, block_rules(block_id, those, table=self.table))

    def _drops(self, wanted: Iterable[Connection]) -> Mapping[str, list[Drop]]:
        """Return, for each node, the rules that drop incoming packets of the connections.

        If the run may not change rules on the clients' machine, the server also drops the packets
        that it sends to clients.
        """
        drops: dict[str, list[Drop]] = defaultdict(list)
        for each in sorted(wanted):
            name, server, client = str(each), self.address(each.server), self.address(each.client)
            at_server = Drop(
                connection=name,
                port=each.server_port,
                address=client,
                other_port=each.client_port,
            )
            drops[each.server].append(at_server)
            if each.client == CLIENTS and not self.clients_are_ours:
                drops[each.server].append(replace(at_server, hook=OUTPUT))
                continue
            at_client = Drop(
                connection=name,
                port=each.client_port,
                address=server,
                other_port=each.server_port,
            )
            drops[each.client].append(at_client)
        return drops

    def unblock(self, block_id: str) -> None:
        """Undo the block with this id. Idempotent: a call after a failure retries every node."""
        with self._blocking:
            nodes = self._drops(self._named(block_id).values())
            self._run_nft_on_each(nodes, unblock_rules(block_id, table=self.table))
            self._blocks.pop(block_id, None)

    def blocked(self, block_id: str) -> Mapping[Connection, int]:
        """Return the number of dropped packets for each connection of a block."""
        named, ours = self._named(block_id), {chain(way) for way in block_chains(block_id)}
        counts: Counter[Connection] = Counter()
        for node in self._drops(named.values()):
            for name, packets in dropped_packets(self._rules(node), ours):
                if name in named:  # Another thread may have added a connection.
                    counts[named[name]] += packets
        return counts

    def _named(self, block_id: str) -> Mapping[str, Connection]:
        """Return a block's connections by name, as a copy of the present state."""
        return dict(self._blocks.get(block_id, {}))

    def block_ids(self) -> list[str]:
        """Return the ids of the blocks in force, oldest first."""
        return list(self._blocks)

    def is_blocked(self, block_id: str) -> bool:
        """Return whether any machine of the run still has nft rules of a block."""
        ours = {chain(way) for way in block_chains(block_id)}
        nodes = [node for node in self.machines if node != CLIENTS or self.clients_are_ours]
        return any(ours & chains(self._rules(node)) for node in nodes)

    def _rules(self, node: str) -> str:
        return self.machine(node).run([*self.nft(node), "-j", "list", "table", "ip", self.table])

    def connects(self, openings: Collection[Opening]) -> Mapping[Opening, bool]:
        """Open new connections, and close each at once. Return whether each connection opened."""
        return connections.connects(openings, machine=self.machine, address=self.address)

    def _probe_once(self, nonces: Mapping[str, Link]) -> set[Link]:
        """Send one datagram over each link. Return the links whose datagram arrived."""
        outgoing: dict[str, list[tuple[str, int, str]]] = defaultdict(list)
        for nonce, (source, receiver) in nonces.items():
            port = self.machine(receiver).probe_port
            outgoing[source].append((self.address(receiver), port, nonce))
        for source, datagrams in outgoing.items():
            self.machine(source).send(datagrams)
        expected: dict[str, list[str]] = defaultdict(list)
        for nonce, (_, receiver) in nonces.items():
            expected[receiver].append(nonce)
        return {
            nonces[nonce]
            for receiver, those in expected.items()
            for nonce in self.machine(receiver).seen(those)
        }


def _sources_by_receiver(links: Iterable[Link]) -> dict[str, set[str]]:
    by_receiver: dict[str, set[str]] = defaultdict(set)
    for source, receiver in links:
        by_receiver[receiver].add(source)
    return by_receiver
