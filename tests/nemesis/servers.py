"""Small servers on real hosts, for faults of what the kernel gives a process.

Each holds 8 MiB, so that the kernel charges it something: it counts small change later.
"""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from cluster.hosts.process import ProcessHosts, free_ports
from cluster.protocol import Command, ProcessId
from nemesis.protocol import Aim, FaultMaker, Site
from nemesis.protocol import Fault as AnyFault
from results.record.clock import WaitTimeoutError, wait_until
from results.record.paths import RunPaths
from tests.nemesis.play_in_namespaces import Sleepers

SERVER = """
import socket, sys, threading, time
port, does = int(sys.argv[1]), sys.argv[2]
server = socket.create_server(("127.0.0.1", port))
kept = [b"x" * (8 << 20)]
def accept():
    while True:
        try:
            client = server.accept()
            kept.append(client)
            client[0].send(b"!")
        except OSError as refused:
            print(refused, flush=True)
            if does == "halt":
                time.sleep(0.2)
                import os; os._exit(1)
            time.sleep(0.05)
threading.Thread(target=accept, daemon=True).start()
if does == "keep":
    import os, tempfile
    file = tempfile.TemporaryFile(dir="/var/tmp")
    file.write(bytes(6 << 20))
    file.flush()
    os.fsync(file.fileno())
while does == "spin":
    pass
while does == "grow":
    kept.append(b"x" * (1 << 20))
    time.sleep(0.02)
while True:
    time.sleep(1)
"""


class Servers(Sleepers):
    """A cluster of such servers; one that runs is registered, and its last words are kept.

    Args:
        hosts: Theirs.
        folder: For their output.
        does: `wait` for clients, `halt` if it cannot accept one, `spin`, `grow`, or
            `keep` 6 MiB of a file in the kernel's memory.
        limited: Whether they are started so that they can be limited.
    """

    def __init__(self, hosts: ProcessHosts, folder: Path, does: str, *, limited: bool) -> None:
        super().__init__(("n1", "n2"), hosts, folder)
        self.does, self._limited = does, limited
        self._ports = dict(zip(self.nodes, free_ports(2), strict=True))
        self._starts = dict.fromkeys(self.nodes, 0)
        self.asked_of: list[tuple[str, int]] = []
        """Whose last words were asked for: nodes, and which start of each."""

    def start_node(self, node: str) -> ProcessId:
        argv = [sys.executable, "-c", SERVER, f"{self._ports[node]}", self.does]
        log = self._folder / f"{node}.log"
        command = Command(argv=argv, log=log, cwd=self._folder, limited=self._limited)
        self._processes[node] = self._hosts.spawn(node, command)
        self._starts[node] += 1
        wait_until(lambda: self._accepts(node), timeout_s=20, what=f"{node} to accept")
        return self._processes[node]

    def incarnation(self, node: str) -> int:
        return self._starts[node]

    def _accepts(self, node: str) -> bool:
        """Tell whether a server has accepted a connection, which takes a descriptor."""
        with suppress(OSError), self._connected(node) as connection:
            return connection.recv(1) == b"!"
        return False

    def is_listening(self, node: str) -> bool:
        """Tell whether the kernel takes connections for a server."""
        with suppress(OSError), self._connected(node):
            return True
        return False

    def _connected(self, node: str) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._ports[node]), timeout=5)

    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def complaints(self, node: str, *, life: int = 0) -> list[str]:
        self.asked_of.append((node, life))
        return (self._folder / f"{node}.log").read_text().splitlines()[-3:]


@contextmanager
def serving(
    folder: Path, does: str, *, limited: bool = True
) -> Iterator[tuple[Servers, ProcessHosts]]:
    """Run servers on processes of this machine."""
    hosts = ProcessHosts(("n1", "n2"), RunPaths(folder).processes)
    hosts.up()
    try:
        cluster = Servers(hosts, folder, does, limited=limited)
        cluster.start()
        yield cluster, hosts
    finally:
        hosts.down()


def aimed(make: FaultMaker, cluster: Servers, hosts: ProcessHosts, *, seed: int = 0) -> AnyFault:
    """Return a fault of n2."""
    aim = Aim(fault_id=1, targets=("n2",), rng=Random(seed))
    return make(aim, Site.of(cluster, hosts))


def is_gone(cluster: Servers, hosts: ProcessHosts) -> bool:
    """Wait for n2 to end; tell whether it did within ten seconds."""
    process = cluster.process("n2")
    assert process is not None
    try:
        return wait_until(
            lambda: hosts.state_of(process) in {None, "Z", "X"}, timeout_s=10, what="its end"
        )
    except WaitTimeoutError:
        return False
