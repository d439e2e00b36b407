"""Hosts whose nodes keep their data below a file system of ours, which breaks requests by order.

`faulty_disk.py` is that file system, a process for each node. It is mounted over the node's data
folder in a mount namespace of its own, so that this side sees the real files where they always are,
and nothing is left mounted whatever was killed: the mount goes with the namespace, and that with
its last process, the agent's child. What writes a probe from this side goes to the mount through
`/proc/<agent>/root`, as a broker does.
"""

import contextlib
import errno
import json
import os
import secrets
import socket
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath

from cluster.hosts.disk import LocalDisk
from cluster.hosts.faulty_disk import (
    FLUSH,
    LATE,
    LINE_BYTES,
    LOST,
    READ,
    SHARED_MEMORY,
    WRITE,
    Answer,
)
from cluster.hosts.machine import Machine
from cluster.hosts.namespace import NamespaceHosts
from cluster.hosts.node_disks import DATA, PAGE, PROBE, NamespaceDisks
from cluster.hosts.process import ProcessHosts
from cluster.hosts.signals import state_of
from cluster.protocol import ClusterError, Command, Disk, DiskAnswers, ProcessId
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until
from results.record.paths import RunPaths

PROGRAM = Path(__file__).with_name("faulty_disk.py")
START_LIMIT_S = 20.0
ANSWER_S = 10.0
"""Longer than a flush of all segments takes."""
ALL_REQUESTS = (READ, WRITE, FLUSH)


class _Disks:
    """Implements `CanSlowDisk`, `CanFaultDisk` and `HasFiles`: what such hosts have in common.

    Those that mix it in have a machine for each node, in a mount namespace of its own.

    Attributes:
        processes_file: `RunPaths.processes`.
        served: By node: the process of its file system, and where this side finds its socket.
    """

    processes_file: Path
    served: dict[str, tuple[ProcessId, Path]]

    def machine(self, node: str) -> Machine:
        """Return the machine of a node."""
        raise NotImplementedError

    def fetch(self, node: str) -> None:
        """Bring nothing: all that was written through the file system lies here already."""

    def disk_is_gone(self, node: str) -> bool:
        """Tell whether a node's file system has ended, though nobody told it to."""
        return node in self.served and not self._serves(node)

    def slow_disk(self, node: str, flush_s: float) -> None:
        """Have each read, write and flush of a node's disk take so many seconds longer."""
        self._order(node, {"do": "set", "kind": LATE, "requests": ALL_REQUESTS, "seconds": flush_s})

    def quicken_disk(self, node: str) -> None:
        """Have it be as quick as it was. Idempotent."""
        self._order(node, {"do": "clear", "kind": LATE})

    def time_flush_s(self, node: str) -> float:
        """Write a page to a node's disk and flush it; return how long that took."""
        started_s = stopwatch_s()
        self.try_requests(node)
        return stopwatch_s() - started_s

    def fault_disk(
        self, node: str, kind: str, requests: Collection[str], *, folders: Collection[str] = ()
    ) -> None:
        """Have requests of a sort be broken on a node's disk, and no others but late ones."""
        of = {"requests": sorted(requests), "folders": sorted(folders)}
        self._order(node, {"do": "set", "kind": kind, **of})

    def mend_disk(self, node: str) -> None:
        """Have none be broken. Idempotent."""
        self._order(node, {"do": "clear", "kind": LOST})

    def disk_counts(self, node: str) -> Mapping[str, int]:
        """Return how often each fault met each sort of request: `{"refused write": 3}`."""
        return {str(what): int(count) for what, count in self._told(node, "counts").items()}

    def flushed(self, node: str) -> Mapping[PurePosixPath, int]:
        """Return how much of each segment was on disk when flushes began to be lost."""
        told = self._told(node, "flushed")
        return {PurePosixPath(DATA, path): int(size) for path, size in told.items()}

    def try_requests(self, node: str) -> DiskAnswers:
        """Write a page to a node's disk, flush it and read it again; see what is below."""
        probe = self._mounted(node) / PROBE
        said = dict.fromkeys(ALL_REQUESTS, "")
        stored = -1
        try:
            said[WRITE], said[FLUSH] = _written(probe)
            below = self._below(node) / PROBE
            stored = below.stat().st_size if below.exists() else 0
            said[READ] = _read(probe) if stored > 0 else ""
        finally:
            with contextlib.suppress(OSError):
                probe.unlink(missing_ok=True)
        return DiskAnswers(errors=said, written=PAGE, stored=stored)

    def serve_disk(self, node: str, source: Path, mount: Path) -> None:
        """Start the file system of a node, unless it has one; wait until it is there.

        Raises:
            ClusterError: It does not come up.
        """
        if node in self.served:
            return
        machine = self.machine(node)
        name = f"logquake-{secrets.token_hex(4)}"
        program = [sys.executable, "-P", os.fspath(PROGRAM)]
        argv = [*program, *map(os.fspath, (source, mount)), f"{SHARED_MEMORY}/{name}"]
        log = self.processes_file.with_name("disks.log")
        root = Path(f"/proc/{machine.process.pid}/root")
        there = root / mount.relative_to("/")
        outside = there.stat().st_dev
        process = machine.spawn(node, Command(argv=argv, log=log, cwd=self.processes_file.parent))
        self.served[node] = (process, root / SHARED_MEMORY[1:] / name)

        def is_there() -> bool:
            with contextlib.suppress(OSError):  # It ended just now.
                return self._runs(node) and there.stat().st_dev != outside
            return False

        with contextlib.suppress(WaitTimeoutError):
            wait_until(
                lambda: is_there() or not self._runs(node),
                timeout_s=START_LIMIT_S,
                what=f"the file system of {node}",
            )
        if not is_there():
            said = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
            raise ClusterError(
                f"the file system below the data of {node} did not start: {said[-1]}"
            )

    def _below(self, node: str) -> Path:
        """Return the folder below the file system, as seen from here."""
        return self._data(node)

    def _mounted(self, node: str) -> Path:
        """Return a node's data folder as its broker sees it.

        Raises:
            ClusterError: The file system is gone, and what is there is not its.
        """
        if not self._serves(node):
            raise ClusterError(f"{node} has no file system of its own below its data, or no more")
        root = Path(f"/proc/{self.machine(node).process.pid}/root")
        return root / self._data(node).relative_to("/")

    def _data(self, node: str) -> Path:
        return RunPaths(self.processes_file.parent).node(node).absolute() / DATA

    def _runs(self, node: str) -> bool:
        process, _ = self.served[node]
        return state_of(process) not in {None, "Z", "X"}

    def _serves(self, node: str) -> bool:
        return node in self.served and self._runs(node)

    def _told(self, node: str, what: str) -> Answer:
        told: Answer = self._order(node, {"do": "tell"})[what]
        return told

    def _order(self, node: str, order: Answer) -> Answer:
        if node not in self.served:
            raise ClusterError(f"{node} has no file system of its own below its data")
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(ANSWER_S)
                line.connect(os.fspath(self.served[node][1]))
                line.sendall(json.dumps(order).encode() + b"\n")
                answer: Answer = json.loads(line.makefile("rb").readline(LINE_BYTES << 8) or b"{}")
        except (OSError, ValueError) as refused:
            raise ClusterError(
                f"the file system below the data of {node} does not answer ({refused})"
            ) from refused
        if "ready" not in answer:
            raise ClusterError(f"the disk of {node}: {answer.get('error', 'no answer')}")
        return answer


def _written(probe: Path) -> tuple[str, str]:
    """Write a page and flush it; return the names of the errors of both."""
    try:
        opened = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError as refused:
        return _named(refused), ""
    try:
        wrote = _error(lambda: os.pwrite(opened, bytes(PAGE), 0))
        return wrote, _error(lambda: os.fsync(opened))
    finally:
        with contextlib.suppress(OSError):
            os.close(opened)


def _read(probe: Path) -> str:
    return _error(probe.read_bytes)


def _error(deed: Callable[[], object]) -> str:
    """Return the name of the error that something ends with; empty: none."""
    try:
        deed()
    except OSError as refused:
        return _named(refused)
    return ""


def _named(refused: OSError) -> str:
    return errno.errorcode.get(refused.errno or 0, str(refused))


class FaultyNamespaces(_Disks, NamespaceHosts):
    """Namespace hosts with such disks; see `NamespaceHosts`."""

    def __init__(self, nodes: Sequence[str], processes_file: Path) -> None:
        NamespaceHosts.__init__(self, nodes, processes_file)
        self.served = {}

    def machine(self, node: str) -> Machine:
        """Return the machine of a node."""
        return NamespaceHosts.machine(self, node)

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Have a node see its data through its file system; the software is this machine's own."""
        del software
        data = self._data(node)
        data.mkdir(parents=True, exist_ok=True)
        self.serve_disk(node, data, data)

    def down(self) -> None:
        """End every process, and with them what is mounted. Idempotent."""
        NamespaceHosts.down(self)
        self.served.clear()


class FaultyNamespaceDisks(_Disks, NamespaceDisks):
    """Namespace hosts with such disks, each of limited size below; see `NamespaceDisks`."""

    def __init__(self, nodes: Sequence[str], processes_file: Path, *, disk_mb: int) -> None:
        NamespaceDisks.__init__(self, nodes, processes_file, disk_mb=disk_mb)
        self.served = {}

    def machine(self, node: str) -> Machine:
        """Return the machine of a node."""
        return NamespaceDisks.machine(self, node)

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Give a node its disk, with its data, and have it seen through its file system."""
        NamespaceDisks.provide(self, node, software)
        self.serve_disk(node, self.mount_point(node), self._data(node))

    def fetch(self, node: str) -> None:
        """Bring a node's data back here, from below its file system."""
        NamespaceDisks.fetch(self, node)

    def mount_point(self, node: str) -> Path:
        """Return where a node's disk is, in its own mount namespace: not where its data are."""
        del node
        return Path(SHARED_MEMORY, "disk")

    def disk(self, node: str) -> Disk:
        """Return the files of a node's folder, as its broker sees them."""
        root = Path(f"/proc/{self.machine(node).process.pid}/root")
        return LocalDisk(root / self._data(node).parent.relative_to("/"))

    def _below(self, node: str) -> Path:
        root = Path(f"/proc/{self.machine(node).process.pid}/root")
        return root / self.mount_point(node).relative_to("/")

    def down(self) -> None:
        """End every process, and with them what is mounted. Idempotent."""
        NamespaceDisks.down(self)
        self.served.clear()


class FaultyProcesses(_Disks, ProcessHosts):
    """Hosts that are one, in a mount namespace of their own, with such disks."""

    def __init__(self, nodes: Sequence[str], processes_file: Path) -> None:
        ProcessHosts.__init__(self, nodes, processes_file, prefix=own_mounts())
        self.served = {}

    def machine(self, node: str) -> Machine:
        """Return the one machine that there is."""
        return ProcessHosts.machine(self, node)

    def up(self) -> None:
        """Start the agent; what it has for sockets goes with it."""
        ProcessHosts.up(self)
        for node in self.nodes[:1]:
            self.machine(node).run(["mount", "-t", "tmpfs", "tmpfs", SHARED_MEMORY])

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Have a node see its data through its file system; the software is this machine's own."""
        del software
        data = self._data(node)
        data.mkdir(parents=True, exist_ok=True)
        self.serve_disk(node, data, data)

    def down(self) -> None:
        """End every process, and with them what is mounted. Idempotent."""
        ProcessHosts.down(self)
        self.served.clear()


def own_mounts() -> tuple[str, ...]:
    """Return the start of a command line that runs its rest in a mount namespace of its own."""
    own_user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ("unshare", *own_user, "--mount", "--")
