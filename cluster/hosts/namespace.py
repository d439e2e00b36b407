"""Hosts with a network namespace each, joined by a bridge: real partitions, without root.

The harness itself lives in the hub, a namespace of its own, with the bridge; it enters it by
executing itself through `enter_prefix`. A bridge in the machine's own namespace would be at the
mercy of what else runs there: Docker's FORWARD policy DROP and br_netfilter stop bridged traffic
silently.

    hub:  harness, clients, bridge 10.81.0.254 --- veth --- n1: agent, broker, eth0 10.81.0.1
                                               --- veth --- n2: agent, broker, eth0 10.81.0.2

The hub has an agent too, the machine `CLIENTS`: links between clients and a node can be cut, probed
and shaped like those between nodes. The harness and its observer live at the same address, and lose
sight of that node as well.

Namespaces have no names: each lives as long as a process in it. So neither a file in /run nor a
bridge is left when the harness is killed, and an ordinary user needs nothing but user namespaces.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from cluster.hosts.leavings import remove_leavings
from cluster.hosts.ledger import ProcessLedger
from cluster.hosts.linked import LinkedHosts
from cluster.hosts.links import (
    HUB_ADDRESS,
    NETWORK,
    make_bridge,
    make_links,
    node_commands,
    remove_links,
)
from cluster.hosts.local import LocalHosts
from cluster.hosts.machine import Machine
from cluster.protocol import CLIENTS, ClusterError, Command, ProcessId, UserError

OUTSIDE = "LOGQUAKE_OUTSIDE"
"""Environment variable: the network namespace that the harness left when it entered the hub."""
NODE_PREFIX = ("unshare", "--net", "--mount", "--")
LOOSEN = ("sh", "-c", "echo 2 > /proc/sys/net/ipv4/conf/all/rp_filter || true")
"""Some machines drop what comes from where they would not send to, and new namespaces inherit it.

A shaped link is such a case: `shaper` refuses to begin where that is so. Our namespaces are ours.
"""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where the C library has it (man 3 shm_open)
MAX_NODES = 253
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - of a namespace of our own


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


class NamespaceHosts(LinkedHosts, LocalHosts):
    """The nodes of a run as network namespaces. `up` works inside a hub only (`enter_prefix`).

    Args:
        nodes: Their names.
        processes_file: `RunPaths.processes`.
    """

    kind = "namespace"

    def __init__(self, nodes: Sequence[str], processes_file: Path) -> None:
        LinkedHosts.__init__(self)
        LocalHosts.__init__(self, processes_file)
        if len(nodes) > MAX_NODES:
            raise UserError(f"{len(nodes)} nodes asked for, at most {MAX_NODES} are possible")
        self._numbers = {node: number for number, node in enumerate(nodes, start=1)}

    def up(self) -> None:
        """Make the bridge, and for each node an agent in a namespace with an address."""
        if self.machines:
            return
        if os.environ.get(OUTSIDE) in {None, network_namespace()}:
            raise ClusterError("namespace hosts must be made inside a hub (see enter_prefix)")
        ledger = ProcessLedger(self.processes_file)
        try:
            make_bridge()
            for node in self._numbers:
                self.machines[node] = Machine(
                    node, ledger, prefix=NODE_PREFIX, listen=EVERY_ADDRESS
                )
            self.machines[CLIENTS] = Machine(CLIENTS, ledger, listen=EVERY_ADDRESS)
            for machine in self.machines.values():
                machine.wait_ready()
            make_links(self.machines[node].process.pid for node in self._numbers)
            for node in self._numbers:
                commands = node_commands(self.address(node))
                self.machines[node].run(["ip", "-batch", "-"], stdin=commands)
                if Path(SHARED_MEMORY).is_dir():
                    # What a killed process leaves there (libfaketime's) goes with the namespace.
                    self.machines[node].run(["mount", "-t", "tmpfs", "tmpfs", SHARED_MEMORY])
            for node, machine in self.machines.items():
                machine.run(LOOSEN)
                self.drop_what_cuts_mark(node)
        except BaseException:
            self.down()
            raise

    def address(self, node: str) -> str:
        """Return the address of a node on the bridge, or of the hub: harness and clients."""
        if node == CLIENTS:
            return HUB_ADDRESS
        if node not in self._numbers:
            raise ClusterError(f"there is no node {node}, only {', '.join(self._numbers)}")
        return f"{NETWORK}.{self._numbers[node]}"

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process in the node's namespace; it dies with the hosts, and with the harness."""
        return self.enclosed(node, command, self.machine(node).spawn(node, command))

    def down(self) -> None:
        """End every process and remove the bridge. Idempotent."""
        if CLIENTS in self.machines:
            # The hub may live on; the nodes' tables go with their namespaces.
            with contextlib.suppress(ClusterError):
                self.run_nft(CLIENTS, f"delete table ip {self.table}")
        self.clocks.close()
        machines, self.machines = self.machines, {}
        for machine in machines.values():
            machine.close()
        for machine in machines.values():
            machine.wait_closed()
        try:
            self.resources.remove()
        finally:
            remove_leavings(self.processes_file)
            for book in (self._cuts, self._shapes, self._blocks):
                book.clear()
            if os.environ.get(OUTSIDE) not in {None, network_namespace()}:
                remove_links()
