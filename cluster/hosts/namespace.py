"""Hosts with a network namespace each, joined by a bridge: real partitions, without root.

The harness itself lives in the hub, a namespace of its own, with the bridge; it enters it by
executing itself through `enter_prefix`. A bridge in the machine's own namespace would be at the
mercy of what else runs there: Docker's FORWARD policy DROP and br_netfilter stop bridged traffic
silently.

    hub:  harness, clients, bridge 10.81.0.254 --- veth --- n1: agent, broker, eth0 10.81.0.1
                                               --- veth --- n2: agent, broker, eth0 10.81.0.2

Namespaces have no names: each lives as long as a process in it. So neither a file in /run nor a
bridge is left when the harness is killed, and an ordinary user needs nothing but user namespaces.
"""

import os
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cluster.hosts.cuts import DROP_MARKED, TABLE, chain, cut_rules, dropped_packets, join_rules
from cluster.hosts.ledger import ProcessLedger
from cluster.hosts.links import NETWORK, make_bridge, make_links, node_commands, remove_links
from cluster.hosts.machine import Machine
from cluster.protocol import ClusterError, Command, Link, ProcessId, UserError
from results.record.clock import pause_until, stopwatch_s

OUTSIDE = "LOGQUAKE_OUTSIDE"
"""Environment variable: the network namespace that the harness left when it entered the hub."""
NODE_PREFIX = ("unshare", "--net", "--mount", "--")
MAX_NODES = 253
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - of a namespace of our own
PROBE_INTERVAL_S = 0.1


def enter_prefix(*, root: bool | None = None) -> list[str]:
    """Return the start of a command line that runs its rest inside a new hub.

    Args:
        root: Whether the user who will run it is root; None: the one who asks.
    """
    as_root = os.geteuid() == 0 if root is None else root
    own_user = [] if as_root else ["--user", "--map-root-user"]
    inside = ["unshare", *own_user, "--net", "--mount", "--"]
    # Inside an ordinary user is root, whose home folder is not his.
    home = [] if "HOME" in os.environ else [f"HOME={Path.home()}"]
    return ["env", f"{OUTSIDE}={network_namespace()}", f"PATH={search_path()}", *home, *inside]


def search_path() -> str:
    """Return where programs are looked for: nft's place is not in every ordinary user's PATH."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def network_namespace() -> str:
    """Return the name of this process's network namespace, `net:[NUMBER]`."""
    try:
        return str(Path("/proc/self/ns/net").readlink())
    except OSError as error:
        raise UserError("network namespaces need Linux; use --hosts process") from error


class NamespaceHosts:
    """The nodes of a run as network namespaces. `up` works inside a hub only (`enter_prefix`).

    Args:
        nodes: Their names.
        processes_file: `RunPaths.processes`.
    """

    kind = "namespace"

    def __init__(self, nodes: Sequence[str], processes_file: Path) -> None:
        if len(nodes) > MAX_NODES:
            raise UserError(f"{len(nodes)} nodes asked for, at most {MAX_NODES} are possible")
        self._numbers = {node: number for number, node in enumerate(nodes, start=1)}
        self._processes_file = processes_file
        self._machines: dict[str, Machine] = {}
        self._cuts: dict[str, frozenset[Link]] = {}

    def up(self) -> None:
        """Make the bridge, and for each node an agent in a namespace with an address."""
        if self._machines:
            return
        if os.environ.get(OUTSIDE) in {None, network_namespace()}:
            raise ClusterError("namespace hosts must be made inside a hub (see enter_prefix)")
        ledger = ProcessLedger(self._processes_file)
        try:
            make_bridge()
            for node in self._numbers:
                self._machines[node] = Machine(
                    node, ledger, prefix=NODE_PREFIX, listen=EVERY_ADDRESS
                )
            for machine in self._machines.values():
                machine.wait_ready()
            make_links(machine.process.pid for machine in self._machines.values())
            for node, machine in self._machines.items():
                machine.run(["ip", "-batch", "-"], stdin=node_commands(self.address(node)))
                self._nft(node, DROP_MARKED)
        except BaseException:
            self.down()
            raise

    def address(self, node: str) -> str:
        """Return the address of a node on the bridge."""
        if node not in self._numbers:
            raise ClusterError(f"there is no node {node}, only {', '.join(self._numbers)}")
        return f"{NETWORK}.{self._numbers[node]}"

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process in the node's namespace; it dies with the hosts, and with the harness."""
        return self._machine(node).spawn(node, command)

    def down(self) -> None:
        """End every process and remove the bridge. Idempotent."""
        machines, self._machines = self._machines, {}
        for machine in machines.values():
            machine.close()
        for machine in machines.values():
            machine.wait_closed()
        self._cuts.clear()
        if os.environ.get(OUTSIDE) not in {None, network_namespace()}:
            remove_links()

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        """Drop what travels over the links, by a chain in each receiver's namespace."""
        directed = frozenset(links)
        self.join(cut_id)
        self._cuts[cut_id] = directed
        for receiver, sources in _sources_by_receiver(directed).items():
            addresses = {source: self.address(source) for source in sorted(sources)}
            self._nft(receiver, cut_rules(cut_id, addresses))

    def join(self, cut_id: str) -> None:
        """Undo one cut, and no other. Idempotent."""
        for receiver in sorted(_sources_by_receiver(self._cuts.pop(cut_id, frozenset()))):
            # Made once more before it is deleted, so that a cut that failed half-way is undone too.
            self._nft(receiver, join_rules(cut_id))

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        """Return how many packets each link of a cut has dropped so far (nft counters)."""
        links = self._cuts.get(cut_id, frozenset())
        counts: dict[Link, int] = {}
        for receiver in sorted(_sources_by_receiver(links)):
            argv = ["nft", "-j", "list", "chain", "ip", TABLE, chain(cut_id)]
            for source, packets in dropped_packets(self._machine(receiver).run(argv)):
                counts[source, receiver] = packets
        return counts

    def probe(self, links: Iterable[Link], timeout_s: float = 0.5) -> Mapping[Link, bool]:
        """Send datagrams of our own over each directed link; tell for each if one arrived."""
        nonces = {f"{uuid.uuid4()}": link for link in links}
        deadline_s = stopwatch_s() + timeout_s
        arrived: set[Link] = set()
        while True:
            last = stopwatch_s() + PROBE_INTERVAL_S >= deadline_s
            arrived |= self._probe_once({n: at for n, at in nonces.items() if at not in arrived})
            if last or len(arrived) == len(nonces):
                return {link: link in arrived for link in nonces.values()}
            pause_until(stopwatch_s() + PROBE_INTERVAL_S)

    def _probe_once(self, nonces: Mapping[str, Link]) -> set[Link]:
        """Send one datagram a link; a veth delivers at once, however busy the processors are."""
        outgoing: dict[str, list[tuple[str, int, str]]] = defaultdict(list)
        for nonce, (source, receiver) in nonces.items():
            port = self._machine(receiver).probe_port
            outgoing[source].append((self.address(receiver), port, nonce))
        for source, datagrams in outgoing.items():
            self._machine(source).send(datagrams)
        expected: dict[str, list[str]] = defaultdict(list)
        for nonce, (_, receiver) in nonces.items():
            expected[receiver].append(nonce)
        return {
            nonces[nonce]
            for receiver, those in expected.items()
            for nonce in self._machine(receiver).seen(those)
        }

    def _nft(self, node: str, script: str) -> None:
        """Run a script of nft commands on a node: all of it takes effect, or nothing."""
        self._machine(node).run(["nft", "-f", "-"], stdin=script)

    def _machine(self, node: str) -> Machine:
        self.address(node)
        if node not in self._machines:
            raise ClusterError("the hosts are down")
        return self._machines[node]


def _sources_by_receiver(links: Iterable[Link]) -> dict[str, set[str]]:
    by_receiver: dict[str, set[str]] = defaultdict(set)
    for source, receiver in links:
        by_receiver[receiver].add(source)
    return by_receiver
