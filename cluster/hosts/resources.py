"""Implements `CanLimitResources` for processes of this machine: prlimit and control groups."""

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
    """Limits what servers get of this machine.

    Args:
        processes_file: `RunPaths.processes`: groups are called by the run's mark.
    """

    def __init__(self, processes_file: Path) -> None:
        self._processes_file = processes_file
        self._servers: dict[str, ProcessId] = {}
        self._homes: dict[str, Path] = {}
        """By node: the group of `cpu` that its server was taken from, while it is in its own."""

    def enclose(self, node: str, process: ProcessId) -> None:
        """Put a server that was just started into a group of its own, and its later memory.

        A server that has ended by now stays where it was; the watch for ends reports it.

        Raises:
            ClusterError: It cannot be.
        """
        self._servers[node] = process
        group = self._group(node, MEMORY)
        try:
            group.path.mkdir(exist_ok=True)
            _move(process, group.path, self._tree.mounts[MEMORY], MEMORY)
        except OSError as refused:
            raise ClusterError(_refused(group, refused)) from refused

    def remove(self) -> None:
        """Remove all groups of the run, whose servers have ended. Idempotent.

        Raises:
            ClusterError: A process is in one of them.
        """
        if self._servers:
            remove_groups(self._processes_file)
            self._servers.clear()
            self._homes.clear()

    def handles(self, process: ProcessId) -> Handles:
        """Return the file descriptors of a process."""
        try:
            numbers = frozenset(
                int(each.name) for each in Path(f"/proc/{process.pid}/fd").iterdir()
            )
            soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        except OSError as gone:
            raise ClusterError(f"process {process.pid} cannot be looked at: {gone}") from gone
        if not is_running(process):
            raise ClusterError(f"process {process.pid} has ended")
        return Handles(numbers=numbers, soft=soft, hard=hard)

    def limit_handles(self, process: ProcessId, soft: int) -> None:
        """Have a process open no descriptor whose number would be `soft` or more."""
        hard = self.handles(process).hard
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))

    def processor(self, node: str) -> Processor:
        """Return how much of the processors a node's server gets, and got."""
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
        """Give a node's server so much of one core; None: as before."""
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
            # The node's next server would count as limited; in a group for both it would be.
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
        """Return how much memory a node's server has."""
        self._server(node)
        return self._group(node, MEMORY).memory()

    def limit_memory(self, node: str, limit_bytes: int | None) -> None:
        """Give a node's server so much memory; None: as before."""
        self._server(node)
        group = self._group(node, MEMORY)
        try:
            group.limit_memory(limit_bytes)
        except OSError as refused:
            if refused.errno == errno.EBUSY:
                raise ClusterError(
                    f"the server of {node} has more memory than {limit_bytes} bytes, and the kernel"
                    " cannot take it back"
                ) from refused
            raise ClusterError(_refused(group, refused)) from refused

    def _server(self, node: str) -> ProcessId:
        if node not in self._servers:
            raise ClusterError(
                f"the server of {node} was not started so that it can be limited; name the family"
                " in the plan"
            )
        return self._servers[node]

    def _group(self, node: str, control: str) -> Group:
        name = name_of(self._processes_file, node)
        return Group(self._tree.parents[control] / name, unified=self._tree.unified)

    @cached_property
    def _tree(self) -> Tree:
        """Where groups are made. It stays the same, though we may be moved to another group."""
        return tree()


def _move(process: ProcessId, group: Path, mount: Mount, control: str) -> Path | None:
    """Put a process into a group, but not a later process with the same number.

    Returns:
        The group from which it came; None: it has ended, and nothing was moved.
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
    take(home, process.pid)  # A later process has the number, if any.
    return None


def _refused(group: Group, refused: OSError) -> str:
    return f"the control group {group.path} cannot be used: {refused.strerror}"
