"""Control groups of a run's servers: less of processors and memory than the machine has.

With cgroup's first version a server has two groups: one in the hierarchy of `memory`, from its
start on, and one in that of `cpu`, while a fault lasts. The kernel gives a group as much of the
processors as one process that has none, which is too little for a server in between. With the
second version a server has one group for both. The kernel charges memory to the group in which a
process was when it got it, and the charge stays there. So a server that may be limited is put into
its group as it starts.

A group's name is a digest of its run's mark: heal and audit find the groups of a run, and no
others, without a file that names them. With the first version groups are made in our own group of
each hierarchy: a limit of ours holds for them, too. With the second version they are made in the
uppermost group that hands on both controllers to groups of this user. The second version was tried
on files laid out as its manual says, not on a kernel.

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
"""The kernel takes no smaller one."""
EMPTY_LIMIT_S = 10.0
"""A process that was killed is in its group until it is reaped."""
_OCTETS = 1 << 62
"""Above it a limit of the first version is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """Where a hierarchy of control groups is (man 5 proc, `/proc/PID/mountinfo`).

    Attributes:
        at: The folder.
        root: Which group of the hierarchy that folder is.
        controls: The controllers there; empty: the second version lists them in a file.
    """

    at: Path
    root: str
    controls: frozenset[str]

    def group(self, path: str) -> Path:
        """Return the folder of a group, by its path in the hierarchy."""
        inside = path.removeprefix(self.root) if self.root != "/" else path
        return self.at / inside.strip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Where groups are made, by what they control.

    Attributes:
        parents: In which group those of servers are made.
        mounts: The hierarchies.
        unified: Whether both are one: cgroup's second version.
    """

    parents: dict[str, Path]
    mounts: dict[str, Mount]
    unified: bool


class Group:
    """One control group.

    Args:
        path: Its folder.
        unified: Whether it is of cgroup's second version.
    """

    def __init__(self, path: Path, *, unified: bool) -> None:
        self.path, self._unified = path, unified

    def limit_processor(self, share: float | None) -> None:
        """Set the quota of one core; None: none."""
        quota = None if share is None else max(LEAST_QUOTA_US, round(share * PERIOD_US))
        if self._unified:
            _write(self.path / "cpu.max", f"{'max' if quota is None else quota} {PERIOD_US}")
            return
        _write(self.path / "cpu.cfs_period_us", PERIOD_US)
        _write(self.path / "cpu.cfs_quota_us", -1 if quota is None else quota)

    def share(self) -> float | None:
        """Return the quota of one core; None: none."""
        if self._unified:
            quota, period = self._read("cpu.max").split()
        else:
            quota, period = self._read("cpu.cfs_quota_us"), self._read("cpu.cfs_period_us")
        return None if quota.strip() in {"max", "-1"} else int(quota) / int(period)

    def throttled(self) -> tuple[int, float]:
        """Return in how many periods it was throttled, and for how many seconds."""
        told = self._numbers("cpu.stat")
        if self._unified:
            return told["nr_throttled"], told["throttled_usec"] / 1e6
        return told["nr_throttled"], told["throttled_time"] / 1e9

    def limit_memory(self, limit_bytes: int | None) -> None:
        """Set the limit; None: none.

        A limit below what the group has is refused by the first version, if that cannot be taken
        back. The second one takes it, and kills in the group until it holds. So there
        `memory.high` comes first: it takes back what it can, and kills nobody.

        Raises:
            OSError: EBUSY: it has more, which cannot be taken back.
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
        """Return what it has, and how it fared with it."""
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
    """Put a process with all its threads into a group; one that has ended is no error."""
    with contextlib.suppress(ProcessLookupError):
        _write(group / "cgroup.procs", pid)


def remove(group: Path) -> None:
    """Remove a group, as soon as no process is in it. Idempotent.

    Raises:
        ClusterError: Some process stays.
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
            f"the control group {group} cannot be removed: processes are in it"
        ) from late


def tree(proc: Path = Path("/proc/self")) -> Tree:
    """Return where groups can be made here, as far as files tell; `why_not` tries it.

    Args:
        proc: The folder in `/proc` of the process that asks.

    Raises:
        UserError: Nowhere.
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
        "no control group here hands on both cpu and memory to groups that this user can make; run"
        " as root, or by: systemd-run --user --scope -p Delegate=yes"
    )


def _own(mounts: Iterable[Mount], control: str, proc: Path) -> tuple[Mount, Path] | None:
    """Return the first hierarchy of a controller in which our own group can have groups."""
    for mount in mounts:
        if control in mount.controls:
            group = group_of(proc, mount, control)
            if os.access(group, os.W_OK):
                return mount, group
    return None


def group_of(proc: Path, mount: Mount, control: str) -> Path:
    """Return the folder of the group in which a process is.

    Args:
        proc: The process, `/proc/PID`.
        mount: The hierarchy to look in.
        control: A controller of that hierarchy, if it is of the first version.

    Raises:
        ClusterError: It is in none.
        OSError: It has ended.
    """
    for line in (proc / "cgroup").read_text().splitlines():
        _, controls, path = line.split(":", 2)
        if control in controls.split(",") if mount.controls else not controls:
            return mount.group(path)
    raise ClusterError(f"{proc} is in no control group of {control}")


def name_of(processes_file: Path, node: str) -> str:
    """Return how the group of a node's server is called: by its run's mark."""
    digest = hashlib.sha256(run_mark(processes_file)).hexdigest()[:12]
    return f"{PREFIX}-{digest}-{node}"


def groups_of(processes_file: Path, proc: Path = Path("/proc/self")) -> list[Path]:
    """Return the folders of a run's groups, though this user may be able to make none.

    Args:
        processes_file: `RunPaths.processes`.
        proc: The folder in `/proc` of the process that asks.
    """
    try:
        mounts = _mounts(proc)
    except UserError:
        return []
    return _named(name_of(processes_file, ""), mounts)


def _named(begin: str, mounts: Iterable[Mount]) -> list[Path]:
    """Return the folders of all groups whose names begin so, whoever may make groups where."""
    # The walk goes on where a group vanishes under it, as others' do all the time.
    below = {
        Path(folder, name)
        for mount in mounts
        for folder, names, _ in os.walk(mount.at)
        for name in names
        if name.startswith(begin)
    }
    return sorted(below)


def remove_groups(processes_file: Path) -> list[str]:
    """Remove a run's groups; return a sentence for each. Its processes have ended. Idempotent.

    Raises:
        ClusterError: A process is in one of them.
    """
    groups = groups_of(processes_file)
    for path in groups:
        remove(path)
    return [f"removed the control group {path}" for path in groups]


@functools.cache
def why_not() -> str:
    """Return why servers cannot be limited here, tried with a process of ours; empty: they can."""
    try:
        found = tree()
        remove_dead_trials()
        _try(found)
    except UserError as refused:
        return str(refused)
    except KeyError as missing:
        return f"control groups here do not report {missing}; use Linux 4.13 or newer"
    except (OSError, ClusterError, ValueError) as refused:
        where = getattr(refused, "filename", None)
        return (
            f"control groups cannot be made here ({f'{where}: ' if where else ''}"
            f"{getattr(refused, 'strerror', None) or refused}); run as root, or by: systemd-run"
            " --user --scope -p Delegate=yes"
        )
    return ""


def _try(found: Tree) -> None:
    groups = {
        control: Group(parent / f"{_trials()}{os.getpid()}", unified=found.unified)
        for control, parent in found.parents.items()
    }
    # It ends with its pipe, and so with us, however we end.
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
                raise UserError("control groups here have no limit of memory; run as root")
        finally:
            idle.kill()
            idle.wait()
            for group in groups.values():
                remove(group.path)


def _trials() -> str:
    """Return the begin of the names of this world's trials; the number of a process follows."""
    return f"{PREFIX}-{TRIAL}-{hashlib.sha256(world().encode()).hexdigest()[:12]}-"


def remove_dead_trials() -> list[str]:
    """Remove groups of trials whose processes have ended; return a sentence for each. Idempotent.

    Raises:
        UserError: This system has no control groups.
    """
    begin, done = _trials(), []
    for path in _named(begin, _mounts(Path("/proc/self"))):
        if not Path(f"/proc/{path.name.removeprefix(begin)}").exists():
            with contextlib.suppress(OSError):  # It may be another user's.
                path.rmdir()
                done.append(f"removed the control group {path} of a trial that was killed")
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
    """Return the uppermost group of ours that hands on both controls, and that we may write to."""
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
    """Write to a file of the kernel's, which has to be there."""
    with open(path, "r+b", buffering=0) as file:  # noqa: PTH123 - unbuffered, and never made
        file.write(str(value).encode())
