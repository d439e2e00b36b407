"""Control groups (cgroups) that limit the processor share and the memory of a run's servers.

With cgroup version 1 a server has two groups. One group is in the `memory` hierarchy and exists
from the server's start. The other group is in the `cpu` hierarchy and exists only during a fault.
The kernel gives a `cpu` group as much processor time as one ungrouped process. That is too little
for a server without a fault. With version 2 a server has one group for both limits. The kernel
charges memory to the group in which a process was when it allocated the memory. The charge stays in
that group. So a server that may be limited enters its group as it starts.

A group's name is a digest of the run's mark. So `heal` and `audit` find the groups of one run
without a list in a file. With version 1 the groups are made inside Logquake's own group of each
hierarchy, so a limit on Logquake also applies to these groups. With version 2 the groups are made
in the topmost group that delegates both controllers and that this user may write to. Version 2 was
tested only on files that follow the kernel's manual. It was not tested on a kernel.

https://docs.kernel.org/admin-guide/cgroup-v1/memory.html, .../cgroup-v2.html
"""

import contextlib
import errno
import functools
import hashlib
import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cluster.hosts.leftovers import run_mark
from cluster.protocol import ClusterError, Memory, UserError
from results.record.clock import WaitTimeoutError, wait_until
from results.record.world import world

CPU, MEMORY = "cpu", "memory"
PREFIX = "logquake"
TRIAL = "trial"
PERIOD_US = 100_000
LEAST_QUOTA_US = 1_000
"""The smallest CPU quota that the kernel accepts, in microseconds."""
EMPTY_LIMIT_S = 10.0
"""The seconds to wait until a group is empty. A killed process stays in its group until it is
reaped."""
_OCTETS = 1 << 62
"""With version 1, a limit above this number of bytes means that there is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mounted hierarchy of control groups (man 5 proc, `/proc/PID/mountinfo`).

    Attributes:
        at: The folder of the mount.
        root: The group of the hierarchy that is mounted at that folder.
        controls: The controllers of the hierarchy. Empty for version 2, which lists the controllers
            in a file.
    """

    at: Path
    root: str
    controls: frozenset[str]

    def group(self, path: str) -> Path:
        """Return the folder of a group, given its path in the hierarchy."""
        inside = path.removeprefix(self.root) if self.root != "/" else path
        return self.at / inside.strip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The places where groups are made, by controller.

    Attributes:
        parents: For each controller, the group in which the groups of servers are made.
        mounts: The hierarchy of each controller.
        unified: Whether there is one hierarchy: cgroup version 2.
    """

    parents: dict[str, Path]
    mounts: dict[str, Mount]
    unified: bool


class Group:
    """One control group.

    Args:
        path: The group's folder.
        unified: Whether the group is one of cgroup version 2.
    """

    def __init__(self, path: Path, *, unified: bool) -> None:
        self.path, self._unified = path, unified

    def limit_processor(self, share: float | None) -> None:
        """Limit processor time to a share of one core; None removes the limit."""
        quota = None if share is None else max(LEAST_QUOTA_US, round(share * PERIOD_US))
        if self._unified:
            _write(self.path / "cpu.max", f"{'max' if quota is None else quota} {PERIOD_US}")
            return
        _write(self.path / "cpu.cfs_period_us", PERIOD_US)
        _write(self.path / "cpu.cfs_quota_us", -1 if quota is None else quota)

    def share(self) -> float | None:
        """Return the limit as a share of one core; None without a limit."""
        if self._unified:
            quota, period = self._read("cpu.max").split()
        else:
            quota, period = self._read("cpu.cfs_quota_us"), self._read("cpu.cfs_period_us")
        return None if quota.strip() in {"max", "-1"} else int(quota) / int(period)

    def throttled(self) -> tuple[int, float]:
        """Return in how many periods the group was throttled, and for how many seconds in all."""
        told = self._numbers("cpu.stat")
        if self._unified:
            return told["nr_throttled"], told["throttled_usec"] / 1e6
        return told["nr_throttled"], told["throttled_time"] / 1e9

    def limit_memory(self, limit_bytes: int | None) -> None:
        """Limit the group's memory; None removes the limit.

        If the group uses more than the limit, version 1 first reclaims memory. If that is not
        enough, version 1 refuses the limit. Version 2 accepts the limit and kills processes until
        the group is below the limit. So with version 2, this function first sets `memory.high`,
        which reclaims memory without killing a process.

        Raises:
            OSError: EBUSY: the group uses more memory, and the kernel cannot reclaim enough.
        """
        if not self._unified:
            _write(self.path / "memory.limit_in_bytes", -1 if limit_bytes is None else limit_bytes)
        elif limit_bytes is None:
            _write(self.path / "memory.max", "max")
        else:
            _write(self.path / "memory.high", limit_bytes)
            try:
                if int(self._read("memory.current")) > limit_bytes:
                    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
                _write(self.path / "memory.max", limit_bytes)
            finally:
                _write(self.path / "memory.high", "max")

    def memory(self) -> Memory:
        """Return the group's memory use and memory limit, and how often it hit the limit."""
        cache = self._numbers("memory.stat")
        if self._unified:
            limit, events = self._read("memory.max").strip(), self._numbers("memory.events")
            used, hits = int(self._read("memory.current")), events["max"]
            return Memory(
                limit_bytes=None if limit == "max" else int(limit), used_bytes=used,
                cached_bytes=cache["file"], hits=hits, kills=events["oom_kill"],
            )  # fmt: skip
        most = int(self._read("memory.limit_in_bytes"))
        return Memory(
            limit_bytes=None if most > _OCTETS else most,
            used_bytes=int(self._read("memory.usage_in_bytes")),
            cached_bytes=cache["cache"],
            hits=int(self._read("memory.failcnt")),
            kills=self._numbers("memory.oom_control")["oom_kill"],
        )

    def _read(self, name: str) -> str:
        return (self.path / name).read_text()

    def _numbers(self, name: str) -> dict[str, int]:
        pairs = (line.split() for line in self._read(name).splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == len(("name", "number"))}


def take(group: Path, pid: int) -> None:
    """Move a process with all threads into a group. Ignore a process that has ended."""
    with contextlib.suppress(ProcessLookupError):
        _write(group / "cgroup.procs", pid)


def remove(group: Path) -> None:
    """Remove a group as soon as it has no process. Idempotent.

    Raises:
        ClusterError: A process is still in the control group.
    """

    def is_gone() -> bool:
        try:
            group.rmdir()
        except FileNotFoundError:
            return True
        except OSError as refused:
            if refused.errno != errno.EBUSY:
                raise
            return False
        return True

    try:
        wait_until(is_gone, timeout_s=EMPTY_LIMIT_S, what="it to be empty", interval_s=0.02)
    except WaitTimeoutError as late:
        raise ClusterError(
            f"the control group {group} cannot be removed, because it still has processes"
        ) from late


def tree(proc: Path = Path("/proc/self")) -> Tree:
    """Return the places where control groups can be made on this machine.

    This function only reads files. `why_not` also makes a group.

    Args:
        proc: The folder of the calling process in `/proc`.

    Raises:
        UserError: No place allows new groups.
    """
    mounts = _mounts(proc)
    first = {name: _own(mounts, name, proc) for name in (CPU, MEMORY)}
    ours = {name: found for name, found in first.items() if found}
    if len(ours) == len(first):
        parents = {name: group for name, (_, group) in ours.items()}
        return Tree(
            parents=parents, mounts={name: at for name, (at, _) in ours.items()}, unified=False
        )
    for mount in mounts:
        if not mount.controls and (parent := _delegated(mount, proc)):
            both = (CPU, MEMORY)
            return Tree(
                parents=dict.fromkeys(both, parent), mounts=dict.fromkeys(both, mount), unified=True
            )
    raise UserError(
        "this user cannot create control groups with both cpu and memory on this machine; run as"
        " root, or with: systemd-run --user --scope -p Delegate=yes"
    )


def _own(mounts: Iterable[Mount], control: str, proc: Path) -> tuple[Mount, Path] | None:
    """Return the first hierarchy of a controller in which this process may add groups.

    The result also contains this process's own group in that hierarchy. The result is None if there
    is no such hierarchy.
    """
    for mount in mounts:
        if control in mount.controls:
            group = group_of(proc, mount, control)
            if os.access(group, os.W_OK):
                return mount, group
    return None


def group_of(proc: Path, mount: Mount, control: str) -> Path:
    """Return the folder of the group that contains a process.

    Args:
        proc: The folder of the process, `/proc/PID`.
        mount: The hierarchy.
        control: A controller of that hierarchy. Only version 1 uses this argument.

    Raises:
        ClusterError: The process is not in a group of the hierarchy.
        OSError: The process has ended.
    """
    for line in (proc / "cgroup").read_text().splitlines():
        _, controls, path = line.split(":", 2)
        if control in controls.split(",") if mount.controls else not controls:
            return mount.group(path)
    raise ClusterError(f"{proc} is not in a control group of {control}")


def name_of(processes_file: Path, node: str) -> str:
    """Return the name of the control group of a node's server.

    The name contains a digest of the run's mark.
    """
    digest = hashlib.sha256(run_mark(processes_file)).hexdigest()[:12]
    return f"{PREFIX}-{digest}-{node}"


def groups_of(processes_file: Path, proc: Path = Path("/proc/self")) -> list[Path]:
    """Return the folders of a run's groups, even if this user may not make groups.

    Args:
        processes_file: `RunPaths.processes`.
        proc: The folder of the calling process in `/proc`.
    """
    try:
        mounts = _mounts(proc)
    except UserError:
        return []
    return _named(name_of(processes_file, ""), mounts)


def _named(begin: str, mounts: Iterable[Mount]) -> list[Path]:
    """Return the folders of all groups with a name prefix, for all users and in all hierarchies."""
    # The walk continues when a group vanishes during it, as groups of other programs often do.
    below = {
        Path(folder, name)
        for mount in mounts
        for folder, names, _ in os.walk(mount.at)
        for name in names
        if name.startswith(begin)
    }
    return sorted(below)


def remove_groups(processes_file: Path) -> list[str]:
    """Remove a run's groups after its processes have ended. Return a sentence for each group."""
    groups = groups_of(processes_file)
    for path in groups:
        remove(path)
    return [f"removed the control group {path}" for path in groups]


@functools.cache
def why_not() -> str:
    """Test whether control groups can limit servers here; if not, return the reason.

    The result is an empty string if control groups can limit servers.
    """
    try:
        found = tree()
        remove_dead_trials()
        _try(found)
    except UserError as refused:
        return str(refused)
    except KeyError as missing:
        return f"control groups on this machine do not report {missing}; use Linux 4.13 or newer"
    except (OSError, ClusterError, ValueError) as refused:
        where = getattr(refused, "filename", None)
        return (
            "control groups cannot be created on this machine"
            f" ({f'{where}: ' if where else ''}{getattr(refused, 'strerror', None) or refused});"
            " run as root, or with: systemd-run --user --scope -p Delegate=yes"
        )
    return ""


def _try(found: Tree) -> None:
    groups = {
        control: Group(parent / f"{_trials()}{os.getpid()}", unified=found.unified)
        for control, parent in found.parents.items()
    }
    # The child ends when its pipe closes, so it ends with us in every case.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as idle:  # noqa: S607 - by PATH
        try:
            for group in groups.values():
                group.path.mkdir(exist_ok=True)
            groups[CPU].limit_processor(0.5)
            groups[MEMORY].limit_memory(1 << 26)
            for group in groups.values():
                _write(group.path / "cgroup.procs", idle.pid)
            groups[CPU].throttled()
            if groups[MEMORY].memory().limit_bytes != 1 << 26:
                raise UserError("control groups on this machine cannot limit memory; run as root")
        finally:
            idle.kill()
            idle.wait()
            for group in groups.values():
                remove(group.path)


def _trials() -> str:
    """Return the name prefix of this machine's test groups.

    In a group's name, the pid of the testing process follows this prefix.
    """
    return f"{PREFIX}-{TRIAL}-{hashlib.sha256(world().encode()).hexdigest()[:12]}-"


def remove_dead_trials() -> list[str]:
    """Remove groups of trials that have ended; return a sentence for each group. Idempotent.

    Raises:
        UserError: This system has no control groups.
    """
    begin, done = _trials(), []
    for path in _named(begin, _mounts(Path("/proc/self"))):
        if not Path(f"/proc/{path.name.removeprefix(begin)}").exists():
            with contextlib.suppress(OSError):  # The group may be another user's.
                path.rmdir()
                done.append(f"removed the control group {path} of a killed trial")
    return done


def _mounts(proc: Path) -> list[Mount]:
    try:
        lines = (proc / "mountinfo").read_text().splitlines()
    except OSError as error:
        raise UserError("control groups need Linux") from error
    return list(_control_mounts(lines))


def _control_mounts(lines: Iterable[str]) -> Iterator[Mount]:
    for line in lines:
        own, _, of_kind = line.partition(" - ")
        fields, kind = own.split(), of_kind.split()
        if kind[0] == "cgroup2":
            yield Mount(at=Path(fields[4]), root=fields[3], controls=frozenset())
        elif kind[0] == "cgroup":
            named = frozenset(kind[2].split(",")) & {CPU, MEMORY}
            if named:
                yield Mount(at=Path(fields[4]), root=fields[3], controls=named)


def _delegated(mount: Mount, proc: Path) -> Path | None:
    """Return the topmost group that delegates both controllers and that this user may write to."""
    mine = group_of(proc, mount, "")
    for path in (*reversed(mine.parents), mine):
        if not path.is_relative_to(mount.at):
            continue
        handed_on = path / "cgroup.subtree_control"
        ours = os.access(path, os.W_OK) and os.access(path / "cgroup.procs", os.W_OK)
        if ours and handed_on.exists() and {CPU, MEMORY} <= {*handed_on.read_text().split()}:
            return path
    return None


def _write(path: Path, value: object) -> None:
    """Write a value to an existing file of the kernel."""
    with open(path, "r+b", buffering=0) as file:  # noqa: PTH123 - unbuffered, and never made
        file.write(str(value).encode())
