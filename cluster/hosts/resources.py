"""Implement `CanLimitResources` for processes of this machine, with prlimit and control groups."""

import errno
import os
import resource
from functools import cached_property
from pathlib import Path

from cluster.hosts.groups import (
    CPU,
    MEMORY,
    Group,
    Mount,
    Tree,
    group_of,
    name_of,
    remove,
    remove_groups,
    take,
    tree,
)
from cluster.hosts.signals import is_running
from cluster.protocol import ClusterError, Handles, Memory, ProcessId, Processor

TICKS = os.sysconf("SC_CLK_TCK")


class LocalResources:
    """The limits of servers on this machine: processor share, memory and file handles.

    Args:
        processes_file: `RunPaths.processes`. The names of control groups contain the run's mark.
    """

    def __init__(self, processes_file: Path) -> None:
        self._processes_file = processes_file
        self._servers: dict[str, ProcessId] = {}
        self._homes: dict[str, Path] = {}
        """For each node, the `cpu` group to which the server returns when the limit ends."""

    def enclose(self, node: str, process: ProcessId) -> None:
        """Put a new server into a memory group, which counts the server's later allocations.

        A server that has already ended is not moved; the watch for ended processes reports that
        server.

        Raises:
            ClusterError: The group cannot be made or entered.
        """
        self._servers[node] = process
        group = self._group(node, MEMORY)
        try:
            group.path.mkdir(exist_ok=True)
            _move(process, group.path, self._tree.mounts[MEMORY], MEMORY)
        except OSError as refused:
            raise ClusterError(_refused(group, refused)) from refused

    def remove(self) -> None:
        """Remove all groups of the run after all servers have ended. Idempotent.

        Raises:
            ClusterError: A process is still in one of the groups.
        """
        if self._servers:
            remove_groups(self._processes_file)
            self._servers.clear()
            self._homes.clear()

    def handles(self, process: ProcessId) -> Handles:
        """Return the file descriptors of a process, and their limits."""
        try:
            numbers = frozenset(
                int(each.name) for each in Path(f"/proc/{process.pid}/fd").iterdir()
            )
            soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        except OSError as gone:
            raise ClusterError(f"process {process.pid} cannot be inspected: {gone}") from gone
        if not is_running(process):
            raise ClusterError(f"process {process.pid} has ended")
        return Handles(numbers=numbers, soft=soft, hard=hard)

    def limit_handles(self, process: ProcessId, soft: int) -> None:
        """Let a process open only file descriptors with numbers below `soft`."""
        hard = self.handles(process).hard
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))

    def processor(self, node: str) -> Processor:
        """Return how much processor time a node's server may use, and how much it has used."""
        process, group = self._server(node), self._group(node, CPU)
        try:
            told = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            limited = group.path.exists()
            throttled, throttled_s = group.throttled() if limited else (0, 0.0)
            share = group.share() if limited else None
        except OSError as gone:
            raise ClusterError(f"the server of {node} has ended") from gone
        if not is_running(process):
            raise ClusterError(f"the server of {node} has ended")
        used_s = (int(told[11]) + int(told[12])) / TICKS
        return Processor(
            process=process, share=share, throttled=throttled, throttled_s=throttled_s,
            used_s=used_s,
        )  # fmt: skip

    def limit_processor(self, node: str, share: float | None) -> None:
        """Limit a node's server to a share of one core; None removes the limit."""
        process, group = self._server(node), self._group(node, CPU)
        apart = group.path != self._group(node, MEMORY).path
        try:
            if share is None:
                self._set_free(node, process, group, apart=apart)
                return
            group.path.mkdir(exist_ok=True)
            group.limit_processor(share)
            if apart and (home := _move(process, group.path, self._tree.mounts[CPU], CPU)):
                self._homes.setdefault(node, home)
            if is_running(process):
                return
            # Otherwise the node's next server would seem limited. In a group for both processor and
            # memory it would be limited.
            self._set_free(node, process, group, apart=apart)
        except OSError as refused:
            raise ClusterError(_refused(group, refused)) from refused
        raise ClusterError(f"the server of {node} has ended")

    def _set_free(self, node: str, process: ProcessId, group: Group, *, apart: bool) -> None:
        if not group.path.exists():
            return
        group.limit_processor(None)
        if apart:
            if home := self._homes.pop(node, None):
                _move(process, home, self._tree.mounts[CPU], CPU)
            remove(group.path)

    def memory(self, node: str) -> Memory:
        """Return the memory use of a node's server."""
        self._server(node)
        return self._group(node, MEMORY).memory()

    def limit_memory(self, node: str, limit_bytes: int | None) -> None:
        """Limit the memory of a node's server; None removes the limit."""
        self._server(node)
        group = self._group(node, MEMORY)
        try:
            group.limit_memory(limit_bytes)
        except OSError as refused:
            if refused.errno == errno.EBUSY:
                raise ClusterError(
                    f"the server of {node} uses more than {limit_bytes} bytes of memory, and the"
                    " kernel cannot reclaim enough"
                ) from refused
            raise ClusterError(_refused(group, refused)) from refused

    def _server(self, node: str) -> ProcessId:
        if node not in self._servers:
            raise ClusterError(
                f"the server of {node} was started without control groups; name the fault family"
                " `resources` in the plan"
            )
        return self._servers[node]

    def _group(self, node: str, control: str) -> Group:
        name = name_of(self._processes_file, node)
        return Group(self._tree.parents[control] / name, unified=self._tree.unified)

    @cached_property
    def _tree(self) -> Tree:
        """The places where groups are made. These stay the same, even if our own group changes."""
        return tree()


def _move(process: ProcessId, group: Path, mount: Mount, control: str) -> Path | None:
    """Move a process into a group. A later process with the same pid is not moved.

    Returns:
        The group that the process left; None if the process has ended.
    """
    try:
        home = group_of(Path(f"/proc/{process.pid}"), mount, control)
    except (FileNotFoundError, ProcessLookupError):
        return None
    if not is_running(process):
        return None
    take(group, process.pid)
    if is_running(process):
        return home
    take(home, process.pid)  # The pid now belongs to a later process, or to none.
    return None


def _refused(group: Group, refused: OSError) -> str:
    return f"the control group {group.path} cannot be used: {refused.strerror}"
