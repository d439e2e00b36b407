"""Namespace hosts with a separate file system of limited size for each node's data.

The file system is a tmpfs, mounted over `nodes/<node>/data` in the node's own mount namespace. So
this file system has its own size limit, and its own errors ENOSPC and EROFS. An ordinary user can
mount it. The harness accesses the file system through `/proc/<agent>/root`. The file system exists
as long as the agent exists. `fetch` copies the files back before the hosts go down. If a harness is
killed before `fetch`, the files are lost. Such a run has no final logs, so the verdict of the run
is unknown.
"""

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from cluster.hosts.disk import LocalDisk
from cluster.hosts.namespace import NamespaceHosts
from cluster.hosts.through import PROBE
from cluster.protocol import ClusterError, Disk
from results.record.paths import RunPaths

DATA = "data"
"""The part of a node's folder that is on the node's separate disk."""
BALLAST = ".logquake-ballast"
PAGE = 4096
_OURS = (BALLAST, f"{PROBE}*")
_CHUNKS = (1 << 20, PAGE, 1)


class NamespaceDisks(NamespaceHosts):
    """Namespace hosts that also implement `CanLimitDisk` and `HasFiles`.

    Args:
        nodes: The names of the nodes.
        processes_file: `RunPaths.processes`.
        disk_mb: The size of each node's disk in MiB. A node gets its disk when `provide` is called.
    """

    def __init__(self, nodes: Sequence[str], processes_file: Path, *, disk_mb: int) -> None:
        super().__init__(nodes, processes_file)
        self._disk_mb = disk_mb
        self._with_disk: set[str] = set()

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Mount a node's separate disk, and copy the node's data from this machine to that disk."""
        del software  # Nodes see this machine's software.
        here, at = self._here(node), str(self.mount_point(node))
        here.mkdir(parents=True, exist_ok=True)
        if node not in self._with_disk:
            size = f"size={self._disk_mb}m,mode=755"
            self.machine(node).run(["mkdir", "-p", at])
            self.machine(node).run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", at])
            self._with_disk.add(node)
        shutil.copytree(here, self._there(node), dirs_exist_ok=True)

    def fetch(self, node: str) -> None:
        """Copy a node's data from the node's own disk to this machine, and replace the files here.

        The call is idempotent. The folder here is kept, because removing the mount point would
        remove the disk.

        Raises:
            ClusterError: The machine has ended, so its disk no longer exists.
        """
        if node not in self._with_disk or node not in self.machines:
            return
        there, here = self._there(node), self._here(node)
        if not there.is_dir():
            raise ClusterError(f"the machine of {node} has ended, so its disk no longer exists")
        for path in here.iterdir():
            LocalDisk(here).remove(path.name)
        ours = shutil.ignore_patterns(*_OURS)
        shutil.copytree(there, here, ignore=ours, dirs_exist_ok=True)

    def disk(self, node: str) -> Disk:
        """Return access to the files in a node's folder, including files on the node's own disk."""
        if node not in self._with_disk or node not in self.machines:
            return super().disk(node)
        return LocalDisk(self._there(node).parent)

    def fill_disk(self, node: str) -> int:
        """Write a file until the disk has no room for another byte; return the file's size.

        Raises:
            ClusterError: The machine and its disk no longer exist, so the folder is not on the
                node's disk.
        """
        there = self._there(node)
        if there.stat().st_dev == self._here(node).stat().st_dev:
            raise ClusterError(f"the machine of {node} has ended, so its disk no longer exists")
        ballast = there / BALLAST
        with ballast.open("ab", buffering=0) as file:
            for size in _CHUNKS:
                _write_until_full(file.fileno(), bytes(size))
        return ballast.stat().st_size

    def empty_disk(self, node: str) -> None:
        """Remove the file that `fill_disk` wrote. Idempotent."""
        (self._there(node) / BALLAST).unlink(missing_ok=True)

    def lock_disk(self, node: str) -> None:
        """Make a node's disk read-only.

        The kernel refuses this while a process has opened a file on the disk for writing.
        """
        self._remount(node, "ro")

    def unlock_disk(self, node: str) -> None:
        """Make a node's disk writable again. Idempotent."""
        self._remount(node, "rw")

    def try_disk(self, node: str) -> str:
        """Write a page to a node's disk; return the error name (`ENOSPC`), or an empty string."""
        probe = self._there(node) / probe_name()
        try:
            probe.write_bytes(bytes(PAGE))
        except OSError as failed:
            return errno.errorcode.get(failed.errno or 0, str(failed))
        finally:
            with contextlib.suppress(OSError):  # A full or read-only disk may have no probe.
                probe.unlink(missing_ok=True)
        return ""

    def down(self) -> None:
        """End every process.

        Each disk vanishes with the last process of the node's namespace. Idempotent.
        """
        super().down()
        self._with_disk.clear()

    def _remount(self, node: str, mode: str) -> None:
        self._there(node)
        # With both operands, mount adds no options of its own (mount(8)). Otherwise it would add an
        # ordinary user's uid, which is not valid in the user's own namespace.
        at = str(self.mount_point(node))
        self.machine(node).run(["mount", "-t", "tmpfs", "-o", f"remount,{mode}", "tmpfs", at])

    def mount_point(self, node: str) -> Path:
        """Return the path at which a node's disk is mounted in the node's own mount namespace."""
        return self._here(node)

    def _here(self, node: str) -> Path:
        return RunPaths(self.processes_file.parent).node(node).absolute() / DATA

    def _there(self, node: str) -> Path:
        """Return the path with which this process can access a node's data folder.

        The folder is inside the node's own mount namespace.

        Raises:
            ClusterError: The node has no separate disk.
        """
        if node not in self._with_disk:
            raise ClusterError(f"{node} has no disk of its own")
        root = Path(f"/proc/{self.machine(node).process.pid}/root")
        return root / self.mount_point(node).relative_to("/")


def _write_until_full(file: int, data: bytes) -> None:
    """Write blocks to a file until the disk has no room for another block."""
    while True:
        try:
            os.write(file, data)
        except OSError as failed:
            if failed.errno != errno.ENOSPC:
                raise
            return


def probe_name() -> str:
    """Return a new name for a probe file, because two faults may probe one disk at once."""
    return f"{PROBE}-{secrets.token_hex(4)}"
