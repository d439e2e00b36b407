"""Hosts whose nodes keep their data below a file system of ours, which breaks requests by order.

`faulty_disk.py` is that file system, a process for each node. It is mounted over the node's data
folder in a mount namespace of its own, so that this side sees the real files where they always are,
and nothing is left mounted whatever was killed: the mount goes with the namespace, and that with
its last process, the agent's child. What writes a probe from this side goes to the mount through
`/proc/<agent>/root`, as a broker does.
"""

import contextlib
import errno
import functools
import json
import os
import secrets
import socket
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from cluster.hosts.audit import mount_points
from cluster.hosts.disk import LocalDisk
from cluster.hosts.faulty_disk import BROKEN, LINE_BYTES, OLDEST, reason
from cluster.hosts.local import LocalHosts
from cluster.hosts.namespace import SHARED_MEMORY, NamespaceHosts
from cluster.hosts.node_disks import DATA, PAGE, NamespaceDisks, probe_name
from cluster.hosts.process import ProcessHosts
from cluster.hosts.signals import state_of
from cluster.hosts.through import FLUSH, LATE, READ, WRITE, Answer
from cluster.protocol import (
    DISK_REQUESTS,
    ClusterError,
    Command,
    Disk,
    DiskAnswers,
    ProcessId,
)
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until
from results.record.paths import RunPaths

PROGRAM = Path(__file__).with_name("faulty_disk.py")
START_LIMIT_S = 20.0
ANSWER_S = 10.0
"""Longer than a flush of all segments takes."""
HANGS_S = 30.0
"""No request takes so long, late ones included, unless the file system hangs."""
FLUSHERS = 32
"""Files that are flushed at a time: with a disk that is late one after the other takes minutes."""


class _Disks(LocalHosts):
    """Implements `CanSlowDisk`, `CanFaultDisk` and `HasFiles`: what such hosts have in common.

    Those that mix it in have a machine for each node, in a mount namespace of its own.
    """

    @functools.cached_property
    def served(self) -> dict[str, tuple[ProcessId, Path, bytes]]:
        """By node: the process of its file system, where its socket is, and the device mounted."""
        return {}

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Have a node see its data through its file system; the software is this machine's own."""
        del software
        data = self._data(node)
        data.mkdir(parents=True, exist_ok=True)
        self.serve_disk(node, data, data)

    def down(self) -> None:
        """End every process, and with them what is mounted. Idempotent."""
        super().down()
        self.served.clear()

    def fetch(self, node: str) -> None:
        """Bring nothing: all that was written through the file system lies here already."""

    def disk_trouble(self, node: str) -> str:
        """Return what is wrong with a node's file system itself: `has ended`; empty: nothing."""
        if node not in self.served:
            return ""
        if not self._runs(node):
            return "has ended"
        try:
            if self._device(node) != self.served[node][2]:
                return "is not mounted any more"
            told = self._order(node, {"do": "tell"})
        except (ClusterError, OSError):  # Its machine may have ended just now.
            return "does not answer"
        age_s, oldest = told[OLDEST]
        if age_s > HANGS_S:
            return f"hangs ({oldest} for {age_s:.0f} s)"
        mistakes = ", ".join(f"{count} times {what}" for what, count in told[BROKEN].items())
        return f"made mistakes of its own ({mistakes})" if mistakes else ""

    def slow_disk(self, node: str, flush_s: float) -> None:
        """Have each read, write and flush of a node's disk take so many seconds longer."""
        self._order(
            node, {"do": "set", "kind": LATE, "requests": DISK_REQUESTS, "seconds": flush_s}
        )

    def quicken_disk(self, node: str) -> None:
        """Have it be as quick as it was. Idempotent."""
        self._order(node, {"do": "clear", "late": True})

    def time_flush_s(self, node: str) -> float:
        """Write a page to a node's disk and flush it; return how long that took."""
        return self.try_requests(node).took_s

    def fault_disk(
        self, node: str, kind: str, requests: Collection[str], *, folders: Collection[str] = ()
    ) -> None:
        """Have requests of a sort be broken on a node's disk, and no others but late ones."""
        of = {"requests": sorted(requests), "folders": sorted(folders)}
        self._order(node, {"do": "set", "kind": kind, **of})

    def mend_disk(self, node: str) -> int:
        """Have none be broken; return how many files could be flushed then. Idempotent.

        The kernel keeps an error of a mapped page that it could not write back, until somebody who
        opens the file is told (man 2 fsync): here that is us, and not the broker that starts next.

        Raises:
            ClusterError: A file cannot be flushed though nothing is broken.
        """
        self._order(node, {"do": "clear", "late": False})
        folders = os.walk(self._mounted(node))
        files = [Path(folder, name) for folder, _, names in folders for name in names]
        with ThreadPoolExecutor(FLUSHERS) as pool:
            flushed = list(pool.map(_is_flushed, files))
        return sum(flushed)

    def disk_counts(self, node: str) -> Mapping[str, int]:
        """Return how often each fault met each sort of request: `{"refused write": 3}`."""
        return {str(what): int(count) for what, count in self._told(node, "counts").items()}

    def flushed(self, node: str) -> Mapping[PurePosixPath, int]:
        """Return how much of each segment has been on disk since flushes began to be lost."""
        told = self._told(node, "flushed")
        return {PurePosixPath(DATA, path): int(size) for path, size in told.items()}

    def try_requests(self, node: str) -> DiskAnswers:
        """Write a page to a node's disk, flush it and read it again; see what is below."""
        name = probe_name()
        probe = self._mounted(node) / name
        said = dict.fromkeys(DISK_REQUESTS, "")
        stored, asked, started_s = -1, 2, stopwatch_s()
        try:
            said[WRITE], said[FLUSH] = _written(probe)
            below = self._below(node) / name
            stored = below.stat().st_size if below.exists() else 0
            if stored > 0:
                said[READ], asked = _error(probe.read_bytes), asked + 1
            took_s = stopwatch_s() - started_s
        finally:
            with contextlib.suppress(OSError):
                probe.unlink(missing_ok=True)
        return DiskAnswers(errors=said, written=PAGE, stored=stored, asked=asked, took_s=took_s)

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
        log = self.processes_file.with_name(f"disk-{node}.log")
        root = Path(f"/proc/{machine.process.pid}/root")
        there = root / mount.relative_to("/")
        outside = there.stat().st_dev
        process = machine.spawn(node, Command(argv=argv, log=log, cwd=self.processes_file.parent))
        socket_file = root / SHARED_MEMORY[1:] / name
        self.served[node] = (process, socket_file, b"")

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
            why = reason(log.read_text(errors="replace"))
            raise ClusterError(f"the file system below the data of {node} did not start: {why}")
        self.served[node] = (process, socket_file, self._device(node))

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

    def _device(self, node: str) -> bytes:
        """Return the device that is mounted over a node's data; nobody waits for it to answer."""
        mounted = Path(f"/proc/{self.machine(node).process.pid}/mountinfo").read_bytes()
        at = os.fspath(self._data(node))
        lines = zip(mounted.splitlines(), mount_points(mounted), strict=True)
        return next((line.split()[2] for line, point in reversed([*lines]) if point == at), b"")

    def _runs(self, node: str) -> bool:
        return state_of(self.served[node][0]) not in {None, "Z", "X"}

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
                answer: Answer = json.loads(line.makefile("rb").readline(LINE_BYTES) or b"{}")
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


def _is_flushed(path: Path) -> bool:
    """Flush a file for who opens it next; False: it is no regular file, or gone meanwhile.

    Raises:
        ClusterError: It cannot be flushed.
    """
    errors = [_error(lambda: _flush(path)) for _ in range(2)]
    if errors[1] in {"ENOENT", "ELOOP", "ENXIO", "ENODEV"}:
        return False
    if errors[1]:
        raise ClusterError(f"{path.name} cannot be flushed on a mended disk: {errors[1]}")
    return True


def _flush(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


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


class FaultyNamespaceDisks(_Disks, NamespaceDisks):
    """Namespace hosts with such disks, each of limited size below; see `NamespaceDisks`."""

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


class FaultyProcesses(_Disks, ProcessHosts):
    """Hosts that are one, in a mount namespace of their own, with such disks."""

    def __init__(self, nodes: Sequence[str], processes_file: Path) -> None:
        ProcessHosts.__init__(self, nodes, processes_file, prefix=own_mounts())

    def up(self) -> None:
        """Start the agent; what it has for sockets goes with it."""
        ProcessHosts.up(self)
        try:
            if self.nodes and Path(SHARED_MEMORY).is_dir():
                mount = ["mount", "-t", "tmpfs", "tmpfs", SHARED_MEMORY]
                self.machine(self.nodes[0]).run(mount)
        except ClusterError:
            self.down()
            raise


def own_mounts() -> tuple[str, ...]:
    """Return the start of a command line that runs its rest in a mount namespace of its own."""
    own_user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ("unshare", *own_user, "--mount", "--")
