"""Namespace hosts whose nodes keep their data on a file system of their own, of limited size.

It is a tmpfs, mounted over `nodes/<node>/data` in the node's own mount namespace. So it has its own
end, its own ENOSPC and its own EROFS, and an ordinary user can have it. This side sees it through
`/proc/<agent>/root`. It lasts as long as the agent: `fetch` brings the files back before the hosts
go down, and what a harness that was killed did not fetch is gone. Such a run has no final logs, so
that its verdict is unknown, never a loss.
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
"""What of a node's folder lies on its own disk."""
BALLAST = ".logquake-ballast"
PAGE = 4096
_OURS = (BALLAST, f"{PROBE}*")
_CHUNKS = (1 << 20, PAGE, 1)


class NamespaceDisks(NamespaceHosts):
    """Implements `CanLimitDisk` and `HasFiles` beside what namespace hosts do.

    Args:
        nodes: Their names.
        processes_file: `RunPaths.processes`.
        disk_mb: The size of each node's disk in MiB; those have one that `provide` was called for.
    """

    def __init__(self, nodes: Sequence[str], processes_file: Path, *, disk_mb: int) -> None:
        super().__init__(nodes, processes_file)
        self._disk_mb = disk_mb
        self._with_disk: set[str] = set()

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Give a node its disk, and bring the data there that were prepared here."""
        del software  # This machine's own, and the nodes see it.
        here, at = self._here(node), str(self.mount_point(node))
        here.mkdir(parents=True, exist_ok=True)
        if node not in self._with_disk:
            size = f"size={self._disk_mb}m,mode=755"
            self.machine(node).run(["mkdir", "-p", at])
            self.machine(node).run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", at])
            self._with_disk.add(node)
        shutil.copytree(here, self._there(node), dirs_exist_ok=True)

    def fetch(self, node: str) -> None:
        """Bring a node's data back here, in place of what lies here. Idempotent.

        The folder here stays: with the place that it is mounted on, the disk itself would go.

        Raises:
            ClusterError: The machine is gone, and its disk with it.
        """
        if node not in self._with_disk or node not in self.machines:
            return
        there, here = self._there(node), self._here(node)
        if not there.is_dir():
            raise ClusterError(f"the machine of {node} has ended, and with it went its disk")
        for path in here.iterdir():
            LocalDisk(here).remove(path.name)
        ours = shutil.ignore_patterns(*_OURS)
        shutil.copytree(there, here, ignore=ours, dirs_exist_ok=True)

    def disk(self, node: str) -> Disk:
        """Return the files of a node's folder, those on its own disk included."""
        if node not in self._with_disk or node not in self.machines:
            return super().disk(node)
        return LocalDisk(self._there(node).parent)

    def fill_disk(self, node: str) -> int:
        """Write a file until there is no room for another byte; return its size.

        Raises:
            ClusterError: The disk is gone with its machine: what is there is not the node's own.
        """
        there = self._there(node)
        if there.stat().st_dev == self._here(node).stat().st_dev:
            raise ClusterError(f"the machine of {node} has ended, and with it went its disk")
        ballast = there / BALLAST
        with ballast.open("ab", buffering=0) as file:
            for size in _CHUNKS:
                _write_until_full(file.fileno(), bytes(size))
        return ballast.stat().st_size

    def empty_disk(self, node: str) -> None:
        """Remove that file. Idempotent."""
        (self._there(node) / BALLAST).unlink(missing_ok=True)

    def lock_disk(self, node: str) -> None:
        """Make a node's disk read-only; refused while somebody has a file of it open to write."""
        self._remount(node, "ro")

    def unlock_disk(self, node: str) -> None:
        """Make it writable again. Idempotent."""
        self._remount(node, "rw")

    def try_disk(self, node: str) -> str:
        """Write a page to a node's disk; return the name of the error, `ENOSPC`; empty: none."""
        probe = self._there(node) / probe_name()
        try:
            probe.write_bytes(bytes(PAGE))
        except OSError as failed:
            return errno.errorcode.get(failed.errno or 0, str(failed))
        finally:
            with contextlib.suppress(OSError):  # A disk that cannot be written to has no probe.
                probe.unlink(missing_ok=True)
        return ""

    def down(self) -> None:
        """End every process; the disks go with the last process of their namespaces. Idempotent."""
        super().down()
        self._with_disk.clear()

    def _remount(self, node: str, mode: str) -> None:
        self._there(node)
        # With both operands mount adds no options of its own (mount(8)), such as the uid of an
        # ordinary user, which means nothing in his own namespace.
        at = str(self.mount_point(node))
        self.machine(node).run(["mount", "-t", "tmpfs", "-o", f"remount,{mode}", "tmpfs", at])

    def mount_point(self, node: str) -> Path:
        """Return where a node's disk is, in its own mount namespace."""
        return self._here(node)

    def _here(self, node: str) -> Path:
        return RunPaths(self.processes_file.parent).node(node).absolute() / DATA

    def _there(self, node: str) -> Path:
        """Return a node's data folder, as its own mount namespace has it.

        Raises:
            ClusterError: It has no disk of its own.
        """
        if node not in self._with_disk:
            raise ClusterError(f"{node} has no disk of its own")
        root = Path(f"/proc/{self.machine(node).process.pid}/root")
        return root / self.mount_point(node).relative_to("/")


def _write_until_full(file: int, data: bytes) -> None:
    """Write to a file again and again, until the disk has no room for as much."""
    while True:
        try:
            os.write(file, data)
        except OSError as failed:
            if failed.errno != errno.ENOSPC:
                raise
            return


def probe_name() -> str:
    """Return the name of a file to be tried: two faults may try one disk at a time."""
    return f"{PROBE}-{secrets.token_hex(4)}"
