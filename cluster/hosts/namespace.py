"""Hosts with one network namespace for each node, connected by a bridge.

These hosts can make real network partitions without root. The harness runs in the hub, a separate
namespace that has the bridge. To enter the hub, the harness executes itself again through
`enter_prefix`. A bridge in the machine's own namespace would depend on other programs of the
machine: Docker's FORWARD policy DROP and br_netfilter silently stop bridged traffic.

    hub:  harness, clients, bridge 10.81.0.254 --- veth --- n1: agent, broker, eth0 10.81.0.1
                                               --- veth --- n2: agent, broker, eth0 10.81.0.2

The hub also has an agent, the machine `CLIENTS`. So a link between the clients and a node can be
cut, probed and shaped like a link between two nodes. The harness and its observer have the clients'
address. So if the clients are cut off from a node, the harness and the observer are cut off, too.

Namespaces have no names. A namespace exists as long as it has a process. So a killed harness leaves
no bridge, and no file in /run. An ordinary user needs only user namespaces.
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
"""The environment variable with the network namespace that the harness left for the hub."""
NODE_PREFIX = ("unshare", "--net", "--mount", "--")
LOOSEN = ("sh", "-c", "echo 2 > /proc/sys/net/ipv4/conf/all/rp_filter || true")
"""The shell command that sets rp_filter to loose in a new namespace.

With strict rp_filter the kernel drops a packet if the route to the packet's source uses another
device. Shaped links need such packets. New namespaces inherit the setting from the machine.
"""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where the C library has it (man 3 shm_open)
MAX_NODES = 253
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - of a namespace of our own


def enter_prefix(*, root: bool | None = None) -> list[str]:
    """Return a prefix for a command line, which runs the command inside a new hub.

    Args:
        root: Whether the user who will run the command is root; None means: check the current user.
    """
    as_root = os.geteuid() == 0 if root is None else root
    own_user = [] if as_root else ["--user", "--map-root-user"]
    inside = ["unshare", *own_user, "--net", "--mount", "--"]
    # Inside, an ordinary user is root. Root's home folder is not the user's.
    home = [] if "HOME" in os.environ else [f"HOME={Path.home()}"]
    return ["env", f"{OUTSIDE}={network_namespace()}", f"PATH={search_path()}", *home, *inside]


def search_path() -> str:
    """Return the PATH for programs. It includes nft's folders, which many users' PATH lacks."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def network_namespace() -> str:
    """Return the name of this process's network namespace, `net:[NUMBER]`."""
    try:
        return str(Path("/proc/self/ns/net").readlink())
    except OSError as error:
        raise UserError("network namespaces need Linux; use --hosts process") from error


class NamespaceHosts(LinkedHosts, LocalHosts):
    """The nodes of a run as network namespaces. `up` works only inside a hub (`enter_prefix`).

    Args:
        nodes: The names of the nodes.
        processes_file: `RunPaths.processes`.
    """

    kind = "namespace"

    def __init__(self, nodes: Sequence[str], processes_file: Path) -> None:
        LinkedHosts.__init__(self)
        LocalHosts.__init__(self, processes_file)
        if len(nodes) > MAX_NODES:
            raise UserError(f"the plan has {len(nodes)} nodes; use {MAX_NODES} or fewer")
        self._numbers = {node: number for number, node in enumerate(nodes, start=1)}

    def up(self) -> None:
        """Create the bridge, and for each node an agent in a namespace with an address."""
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
                    # libfaketime's files of killed processes vanish with the namespace.
                    self.machines[node].run(["mount", "-t", "tmpfs", "tmpfs", SHARED_MEMORY])
            for node, machine in self.machines.items():
                machine.run(LOOSEN)
                self.drop_what_cuts_mark(node)
        except BaseException:
            self.down()
            raise

    def address(self, node: str) -> str:
        """Return a node's address on the bridge; for `CLIENTS`, the hub's address."""
        if node == CLIENTS:
            return HUB_ADDRESS
        if node not in self._numbers:
            raise ClusterError(f"there is no node {node}; the nodes are {', '.join(self._numbers)}")
        return f"{NETWORK}.{self._numbers[node]}"

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process in the node's namespace; the process ends with the hosts or harness."""
        return self.enclosed(node, command, self.machine(node).spawn(node, command))

    def down(self) -> None:
        """End all processes and remove the bridge. Idempotent."""
        if CLIENTS in self.machines:
            # The hub may continue to exist. The nodes' tables vanish with their namespaces.
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
