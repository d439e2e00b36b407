"""Hosts that mount Logquake's own file system over each node's data, to break disk requests."""

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
"""The seconds to wait for the answer to an order. A flush of all segments takes less time."""
HANGS_S = 30.0
"""The seconds after which a request counts as hanging. Delayed requests end earlier."""
FLUSHERS = 32
"""The number of files that are flushed in parallel. On a delayed disk, it takes minutes to flush
one file after another."""


class _Disks(LocalHosts):
    """The common code of hosts with faulty disks: `CanSlowDisk`, `CanFaultDisk` and `HasFiles`.

    A subclass has a machine for each node. That machine has its own mount namespace.
    """

    @functools.cached_property
    def served(self) -> dict[str, tuple[ProcessId, Path, bytes]]:
        """For each node: the file system's process, the socket's path, and the mounted device."""
        return {}

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Mount a node's file system over its data folder. Nodes use this machine's software."""
        del software
        data = self._data(node)
        data.mkdir(parents=True, exist_ok=True)
        self.serve_disk(node, data, data)

    def down(self) -> None:
        """End all processes, and thereby all mounts. Idempotent."""
        super().down()
        self.served.clear()

    def fetch(self, node: str) -> None:
        """Do nothing, because the files below the file system are already on this machine."""

    def disk_trouble(self, node: str) -> str:
        """Return the defect of a node's file system program, such as `has ended`.

        The result is empty if the file system works.
        """
        if node not in self.served:
            return ""
        if not self._runs(node):
            return "has ended"
        try:
            if self._device(node) != self.served[node][2]:
                return "is no longer mounted"
            told = self._order(node, {"do": "tell"})
        except (ClusterError, OSError):  # The node's machine may have ended just now.
            return "does not answer"
        age_s, oldest = told[OLDEST]
        if age_s > HANGS_S:
            return f"hangs ({oldest} for {age_s:.0f} s)"
        mistakes = ", ".join(f"{count} times {what}" for what, count in told[BROKEN].items())
        return f"had errors of its own ({mistakes})" if mistakes else ""

    def slow_disk(self, node: str, flush_s: float) -> None:
        """Delay each read, write and flush on a node's disk by `flush_s` seconds."""
        self._order(
            node, {"do": "set", "kind": LATE, "requests": DISK_REQUESTS, "seconds": flush_s}
        )

    def quicken_disk(self, node: str) -> None:
        """End the delays on a node's disk. Idempotent."""
        self._order(node, {"do": "clear", "late": True})

    def time_flush_s(self, node: str) -> float:
        """Write and flush a page on a node's disk, and return how many seconds this took."""
        return self.try_requests(node).took_s

    def fault_disk(
        self, node: str, kind: str, requests: Collection[str], *, folders: Collection[str] = ()
    ) -> None:
        """Break the given kinds of requests (`read`, `write`, `fsync`) on a node's disk.

        Other requests work. A fault that delays requests stays in force.
        """
        of = {"requests": sorted(requests), "folders": sorted(folders)}
        self._order(node, {"do": "set", "kind": kind, **of})

    def mend_disk(self, node: str) -> int:
        """Clear the fault that breaks requests, and flush files; return how many were flushed."""
        self._order(node, {"do": "clear", "late": False})
        folders = os.walk(self._mounted(node))
        files = [Path(folder, name) for folder, _, names in folders for name in names]
        with ThreadPoolExecutor(FLUSHERS) as pool:
            flushed = list(pool.map(_is_flushed, files))
        return sum(flushed)

    def disk_counts(self, node: str) -> Mapping[str, int]:
        """Return the number of affected requests by fault and request: `{"refused write": 3}`."""
        return {str(what): int(count) for what, count in self._told(node, "counts").items()}

    def flushed(self, node: str) -> Mapping[PurePosixPath, int]:
        """Return, for each segment, how many bytes were on disk when the loss of flushes began."""
        told = self._told(node, "flushed")
        return {PurePosixPath(DATA, path): int(size) for path, size in told.items()}

    def try_requests(self, node: str) -> DiskAnswers:
        """Write, flush and read a test page on a node's disk.

        Count the bytes that really reached the disk.
        """
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
        """If a node's file system does not run yet, start it and wait until it is mounted.

        Raises:
            ClusterError: The file system does not start.
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
            with contextlib.suppress(OSError):  # The file system's process ended just now.
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
        """Return the folder below a node's file system, as the harness sees it."""
        return self._data(node)

    def _mounted(self, node: str) -> Path:
        """Return the path of a node's data folder as the node's broker sees the folder.

        Raises:
            ClusterError: The node's file system is not mounted at this folder.
        """
        if not self._serves(node):
            raise ClusterError(
                f"Logquake's file system is not, or no longer, mounted below the data of {node}"
            )
        root = Path(f"/proc/{self.machine(node).process.pid}/root")
        return root / self._data(node).relative_to("/")

    def _data(self, node: str) -> Path:
        return RunPaths(self.processes_file.parent).node(node).absolute() / DATA

    def _device(self, node: str) -> bytes:
        """Return the device that is mounted over a node's data; do not wait for the file system."""
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
            raise ClusterError(f"Logquake's file system is not mounted below the data of {node}")
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
            raise ClusterError(f"the disk of {node} reported: {answer.get('error', 'no answer')}")
        return answer


def _written(probe: Path) -> tuple[str, str]:
    """Write a page and flush it; return the error names of the write and of the flush."""
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
    """Flush a file. Then the kernel reports an old write error here, not to the next broker.

    Return False if the file is not a regular file, or was deleted meanwhile.

    Raises:
        ClusterError: The file cannot be flushed.
    """
    errors = [_error(lambda: _flush(path)) for _ in range(2)]
    if errors[1] in {"ENOENT", "ELOOP", "ENXIO", "ENODEV"}:
        return False
    if errors[1]:
        raise ClusterError(
            f"after the heal of its disk, {path.name} cannot be flushed: {errors[1]}"
        )
    return True


def _flush(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _error(deed: Callable[[], object]) -> str:
    """Call a function; return the name of the `OSError` that it raises, or an empty string."""
    try:
        deed()
    except OSError as refused:
        return _named(refused)
    return ""


def _named(refused: OSError) -> str:
    return errno.errorcode.get(refused.errno or 0, str(refused))


class FaultyNamespaces(_Disks, NamespaceHosts):
    """Namespace hosts with faulty disks; see `NamespaceHosts`."""


class FaultyNamespaceDisks(_Disks, NamespaceDisks):
    """Namespace hosts with faulty disks of limited size; see `NamespaceDisks`."""

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Mount a node's separate disk with the node's data, and over it the faulty file system."""
        NamespaceDisks.provide(self, node, software)
        self.serve_disk(node, self.mount_point(node), self._data(node))

    def fetch(self, node: str) -> None:
        """Copy a node's data from the node's separate disk back to this machine."""
        NamespaceDisks.fetch(self, node)

    def mount_point(self, node: str) -> Path:
        """Return the path at which a node's disk is mounted in the node's namespace.

        The node's data folder has another path.
        """
        del node
        return Path(SHARED_MEMORY, "disk")

    def disk(self, node: str) -> Disk:
        """Return access to the files in a node's folder as the node's broker sees these files."""
        root = Path(f"/proc/{self.machine(node).process.pid}/root")
        return LocalDisk(root / self._data(node).parent.relative_to("/"))

    def _below(self, node: str) -> Path:
        root = Path(f"/proc/{self.machine(node).process.pid}/root")
        return root / self.mount_point(node).relative_to("/")


class FaultyProcesses(_Disks, ProcessHosts):
    """Process hosts with faulty disks. All nodes are in one mount namespace of this machine."""

    def __init__(self, nodes: Sequence[str], processes_file: Path) -> None:
        ProcessHosts.__init__(self, nodes, processes_file, prefix=own_mounts())

    def up(self) -> None:
        """Start the agent with a private folder for sockets. The folder vanishes with the agent."""
        ProcessHosts.up(self)
        try:
            if self.nodes and Path(SHARED_MEMORY).is_dir():
                mount = ["mount", "-t", "tmpfs", "tmpfs", SHARED_MEMORY]
                self.machine(self.nodes[0]).run(mount)
        except ClusterError:
            self.down()
            raise


def own_mounts() -> tuple[str, ...]:
    """Return a prefix for a command line, which runs the command in a new mount namespace."""
    own_user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ("unshare", *own_user, "--mount", "--")
