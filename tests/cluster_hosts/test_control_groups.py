"""Control groups of servers: where they are made, and what is refused. Faults test what they do.

This kernel has one version of cgroup; of the other one the files are laid out as its manual says.
"""

import errno
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster.hosts import groups, resources
from cluster.hosts.audit import local_traces
from cluster.hosts.groups import (
    CPU,
    MEMORY,
    Group,
    Tree,
    groups_of,
    name_of,
    remove,
    remove_groups,
    take,
    tree,
)
from cluster.hosts.heal import heal_trials
from cluster.hosts.process import ProcessHosts
from cluster.hosts.resources import LocalResources
from cluster.hosts.signals import process_id
from cluster.protocol import (
    CanLimitResources,
    ClusterError,
    Command,
    Memory,
    ProcessId,
    UserError,
)
from results.record.clock import wait_until
from results.record.paths import RunPaths
from tests.cluster_hosts.hubs import REPOSITORY, as_ordinary_user
from tests.machine import needs

FIRST = """\
25 20 0:22 / {at}/cpu rw - cgroup cgroup rw,cpu
26 20 0:23 / {at}/cpuset rw - cgroup cgroup rw,cpuset
27 20 0:24 /box {at}/memory rw - cgroup cgroup rw,memory
28 20 0:25 / {at}/unified rw - cgroup2 cgroup2 rw
"""
SECOND = "25 20 0:22 / {at} rw - cgroup2 cgroup2 rw\n"


def laid_out(folder: Path, mounts: str, own: str) -> Path:
    proc = folder / "proc"
    proc.mkdir()
    (proc / "mountinfo").write_text(mounts.format(at=folder / "cgroup"))
    (proc / "cgroup").write_text(own)
    return proc


def handing_on(group: Path, controls: str) -> Path:
    group.mkdir(parents=True)
    (group / "cgroup.subtree_control").write_text(controls)
    (group / "cgroup.procs").write_text("")
    return group


def test_of_the_first_version_each_hierarchy_has_its_own(tmp_path: Path) -> None:
    ours = {CPU: tmp_path / "cgroup/cpu/a", MEMORY: tmp_path / "cgroup/memory/b"}
    for group in ours.values():
        group.mkdir(parents=True)
    found = tree(laid_out(tmp_path, FIRST, "1:cpu:/a\n2:memory:/box/b\n0::/\n"))
    assert not found.unified
    assert found.parents == ours
    assert found.mounts[CPU].group("/a/c") == tmp_path / "cgroup/cpu/a/c"
    assert found.mounts[MEMORY].group("/box/c") == tmp_path / "cgroup/memory/c"


def test_of_several_places_of_a_hierarchy_the_first_that_can_be_written_counts(
    tmp_path: Path,
) -> None:
    other = "25 20 0:22 / {at}/%s/cpu rw - cgroup cgroup rw,cpu\n"
    for path in ("cpu/a", "memory/b", "late/cpu/a"):
        (tmp_path / "cgroup" / path).mkdir(parents=True)
    mounts = f"{other % 'gone'}{FIRST}{other % 'late'}"
    found = tree(laid_out(tmp_path, mounts, "1:cpu:/a\n2:memory:/box/b\n"))
    assert found.parents[CPU] == tmp_path / "cgroup/cpu/a"


def test_of_the_second_version_the_uppermost_that_is_ours_and_hands_on_both(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    handing_on(top, "memory pids")
    user = handing_on(top / "user", "cpu memory")
    handing_on(user / "app", "cpu memory")
    found = tree(laid_out(tmp_path, SECOND, "0::/user/app/run.scope\n"))
    assert found.unified
    assert found.parents == {CPU: user, MEMORY: user}


@pytest.mark.parametrize(
    ("mounts", "own"),
    [
        (SECOND, "0::/user\n"),
        ("", ""),
        (FIRST.replace(",cpu\n", ",io\n"), "2:memory:/box\n0::/\n"),
        (FIRST, "1:cpu:/gone\n2:memory:/box\n0::/\n"),
    ],
)
def test_where_no_group_hands_on_both_nothing_can_be_limited(
    tmp_path: Path, mounts: str, own: str
) -> None:
    handing_on(tmp_path / "cgroup", "pids")
    with pytest.raises(
        UserError, match="this user cannot create control groups with both cpu and memory"
    ):
        tree(laid_out(tmp_path, mounts, own))


def test_a_system_without_proc_has_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="control groups need Linux"):
        tree(tmp_path / "proc")


def test_of_the_second_version_limits_and_counts_are_in_its_files(tmp_path: Path) -> None:
    files = {
        "cpu.max": "max 100000\n", "cpu.stat": "nr_throttled 7\nthrottled_usec 2500000\n",
        "memory.max": "max\n", "memory.high": "max\n", "memory.current": "900\n",
        "memory.stat": "anon 100\nfile 800\n",
        "memory.events": "low 0\nmax 5\noom_kill 2\n", "cgroup.procs": "",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    group = Group(tmp_path, unified=True)
    assert (group.share(), group.throttled()) == (None, (7, 2.5))
    assert group.memory() == Memory(
        limit_bytes=None, used_bytes=900, cached_bytes=800, hits=5, kills=2
    )
    group.limit_processor(0.25)
    group.limit_memory(4096)
    assert group.share() == 0.25
    assert group.memory().limit_bytes == 4096
    (tmp_path / "cpu.max").write_text(" " * 40)  # What is written over it leaves no end.
    group.limit_processor(0.001)
    assert group.share() == groups.LEAST_QUOTA_US / groups.PERIOD_US


def test_of_the_second_version_a_limit_that_would_kill_is_refused_as_the_first_does(
    tmp_path: Path,
) -> None:
    files = {"memory.max": "max" + " " * 9, "memory.high": "max" + " " * 9}
    for name, text in {**files, "memory.current": "4097"}.items():
        (tmp_path / name).write_text(text)
    group = Group(tmp_path, unified=True)
    with pytest.raises(OSError, match=os.strerror(errno.EBUSY)):
        group.limit_memory(4096)
    assert (tmp_path / "memory.max").read_text().strip() == "max"
    assert (tmp_path / "memory.high").read_text().split()[0][:3] == "max"
    (tmp_path / "memory.current").write_text("4096")
    group.limit_memory(4096)
    assert (tmp_path / "memory.max").read_text().split() == ["4096"]
    assert (tmp_path / "memory.high").read_text().split()[0][:3] == "max"
    group.limit_memory(None)
    assert (tmp_path / "memory.max").read_text()[:3] == "max"


def limited(node: str, folder: Path, *, limits: bool = True) -> Command:
    return Command(argv=["sleep", "60"], log=folder / node, cwd=folder, limited=limits)


def test_groups_of_a_run_are_found_by_who_may_make_none(tmp_path: Path) -> None:
    file = RunPaths(tmp_path).processes
    proc = laid_out(tmp_path, SECOND, "0::/user/other.scope\n")
    theirs = tmp_path / "cgroup/user/run.scope" / name_of(file, "n1")
    theirs.mkdir(parents=True)
    (theirs.parent / name_of(tmp_path / "another", "n1")).mkdir()
    with pytest.raises(UserError, match="cannot create control groups"):
        tree(proc)
    assert groups_of(file, proc) == [theirs]
    assert groups_of(file, tmp_path) == []


def test_groups_of_others_that_come_and_go_hide_none_of_ours(tmp_path: Path) -> None:
    file, over = RunPaths(tmp_path).processes, threading.Event()
    proc = laid_out(tmp_path, SECOND, "0::/\n")
    ours = tmp_path / "cgroup/zz" / name_of(file, "n1")
    ours.mkdir(parents=True)

    def churn() -> None:
        while not over.is_set():
            deep = tmp_path / "cgroup/a/b/c"
            deep.mkdir(parents=True)
            for each in (deep, *deep.parents[:2]):
                each.rmdir()

    with ThreadPoolExecutor() as pool:
        churning = pool.submit(churn)
        try:
            found = [groups_of(file, proc) for _ in range(2000)]
        finally:
            over.set()
        churning.result()
    assert found == [[ours]] * 2000


def test_a_kernel_that_counts_no_kills_is_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "memory.stat": "cache 1\n", "memory.limit_in_bytes": "5\n", "memory.failcnt": "0\n",
        "memory.usage_in_bytes": "3\n", "memory.oom_control": "under_oom 0\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    group = Group(tmp_path, unified=False)
    found = Tree(parents={}, mounts={}, unified=False)
    monkeypatch.setattr(groups, "tree", lambda: found)
    monkeypatch.setattr(groups, "_try", lambda _: group.memory())
    groups.why_not.cache_clear()
    try:
        assert groups.why_not() == (
            "control groups on this machine do not report 'oom_kill'; use Linux 4.13 or newer"
        )
    finally:
        groups.why_not.cache_clear()


@needs("cgroup")
def test_only_a_server_that_may_be_limited_is_in_a_group_and_it_goes_with_the_hosts(
    tmp_path: Path,
) -> None:
    file = RunPaths(tmp_path).processes
    hosts = ProcessHosts(("n1", "n2"), file)
    hosts.up()
    try:
        assert isinstance(hosts, CanLimitResources)
        free = hosts.spawn("n1", limited("n1", tmp_path, limits=False))
        assert groups_of(file) == []
        process = hosts.spawn("n2", limited("n2", tmp_path))
        (path,) = groups_of(file)
        assert (path.name, path.parent) == (name_of(file, "n2"), tree().parents[MEMORY])
        assert (path / "cgroup.procs").read_text().split() == [f"{process.pid}"]
        assert local_traces(file)[f"the control group {path}"] == "of a server"
        with pytest.raises(ClusterError, match="n1 was started without control groups"):
            hosts.limit_memory("n1", 1 << 30)
        hosts.limit_handles(free, 100)
        assert hosts.handles(free).soft == 100
        assert hosts.handles(process).soft != 100
    finally:
        hosts.down()
    assert groups_of(file) == []
    with pytest.raises(ClusterError, match="cannot be inspected"):
        hosts.handles(free)


@needs("cgroup")
def test_a_server_that_is_started_again_is_in_the_same_group(tmp_path: Path) -> None:
    hosts = ProcessHosts(("n1",), RunPaths(tmp_path).processes)
    hosts.up()
    try:
        hosts.spawn("n1", limited("n1", tmp_path))
        hosts.limit_processor("n1", 0.5)
        hosts.limit_processor("n1", None)
        hosts.limit_processor("n1", None)
        again = hosts.spawn("n1", limited("n1", tmp_path))
        (path,) = groups_of(hosts.processes_file)
        assert f"{again.pid}" in (path / "cgroup.procs").read_text().split()
    finally:
        hosts.down()


@needs("cgroup")
def test_a_group_with_a_process_in_it_is_not_removed_and_a_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RunPaths(tmp_path).processes
    group = tree().parents[MEMORY] / name_of(file, "n1")
    monkeypatch.setattr(groups, "EMPTY_LIMIT_S", 0.1)
    group.mkdir()
    try:
        with subprocess.Popen(["sleep", "60"]) as strange:
            take(group, strange.pid)
            with pytest.raises(
                ClusterError, match="cannot be removed, because it still has processes"
            ):
                remove_groups(file)
            strange.kill()
        assert remove_groups(file) == [f"removed the control group {group}"]
        assert remove_groups(file) == []
    finally:
        remove(group)


@needs("cgroup")
def test_hosts_whose_groups_cannot_be_removed_remove_all_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = ProcessHosts(("n1",), RunPaths(tmp_path).processes)
    hosts.up()
    process = hosts.spawn("n1", limited("n1", tmp_path))
    left = Path(f"/dev/shm/faketime_shm_{process.pid}")  # noqa: S108 - as libfaketime does
    left.touch()
    monkeypatch.setattr(groups, "EMPTY_LIMIT_S", 0.1)
    (group,) = groups_of(hosts.processes_file)
    with subprocess.Popen(["sleep", "60"]) as strange:
        take(group, strange.pid)
        with pytest.raises(ClusterError, match="cannot be removed, because it still has processes"):
            hosts.down()
        strange.kill()
    assert not left.exists()
    hosts.down()
    assert groups_of(hosts.processes_file) == []


@needs("cgroup")
def test_a_group_that_its_server_cannot_be_put_into_goes_with_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    hosts = ProcessHosts(("n1",), RunPaths(tmp_path).processes)
    hosts.up()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(resources, "take", refuse)
            with pytest.raises(ClusterError, match="cannot be used: Permission denied"):
                hosts.spawn("n1", limited("n1", tmp_path))
        assert groups_of(hosts.processes_file)
    finally:
        hosts.down()
    assert groups_of(hosts.processes_file) == []


@needs("cgroup")
def test_who_was_given_the_number_of_a_server_stays_in_its_own_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = LocalResources(RunPaths(tmp_path).processes)
    with subprocess.Popen(["sleep", "60"]) as strange:

        def home() -> str:
            return Path(f"/proc/{strange.pid}/cgroup").read_text()

        before = home()
        try:
            limits.enclose("n1", ProcessId(pid=strange.pid, start_ticks=1))
            assert home() == before
            for deed in (limits.processor, lambda node: limits.limit_processor(node, 0.5)):
                with pytest.raises(ClusterError, match="the server of n1 has ended"):
                    deed("n1")
                assert home() == before
            looks = iter((True, False))  # It ends between the two, and the number is given anew.
            monkeypatch.setattr(resources, "is_running", lambda _: next(looks))
            limits.enclose("n1", process_id(strange.pid))
            assert next(looks, None) is None
            assert home() == before
        finally:
            strange.kill()
            strange.wait()
            limits.remove()


@needs("cgroup")
def test_a_quota_of_a_server_that_ended_is_none_of_the_next(tmp_path: Path) -> None:
    limits = LocalResources(RunPaths(tmp_path).processes)
    try:
        with subprocess.Popen(["sleep", "60"]) as first:
            limits.enclose("n1", process_id(first.pid))
            first.kill()
        with pytest.raises(ClusterError, match="the server of n1 has ended"):
            limits.limit_processor("n1", 0.05)
        with subprocess.Popen(["sleep", "60"]) as second:
            try:
                limits.enclose("n1", process_id(second.pid))
                assert limits.processor("n1").share is None
            finally:
                second.kill()
    finally:
        limits.remove()


@needs("cgroup")
def test_a_trial_leaves_nothing_and_removes_what_a_dead_one_left() -> None:
    parent = tree().parents[MEMORY]
    dead, elsewhere = (
        parent / f"{name}{(1 << 22) + 1}"
        for name in (groups._trials(), f"{groups.PREFIX}-{groups.TRIAL}-otherworld-")
    )
    for each in (dead, elsewhere):
        each.mkdir()
    groups.why_not.cache_clear()
    try:
        assert groups.why_not() == ""
        assert not dead.exists()
        assert elsewhere.exists(), "its numbers of processes mean others"
        assert not [*parent.glob(f"*{groups.TRIAL}*-{os.getpid()}")]
    finally:
        elsewhere.rmdir()


DIES_IN_A_TRIAL = """
import os
from cluster.hosts import groups
groups.Group.throttled = lambda _: os.kill(os.getpid(), 9)
print(groups.why_not())
"""


@needs("cgroup")
def test_a_trial_that_is_killed_leaves_no_process_and_heal_removes_its_groups() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DIES_IN_A_TRIAL], cwd=REPOSITORY, stdout=subprocess.PIPE
    ) as died:
        assert died.wait(60) == -signal.SIGKILL
    name = f"{groups._trials()}{died.pid}"
    left = {parent / name for parent in tree().parents.values()}
    wait_until(
        lambda: not any((path / "cgroup.procs").read_text() for path in left),
        timeout_s=10,
        what="the end of what the trial had started",
    )
    healed = heal_trials()
    assert {f"removed the control group {path} of a killed trial" for path in left} <= {
        *healed.done
    }
    assert not any(path.exists() for path in left)
    assert not [each for each in heal_trials().done if name in each]


@needs("cgroup", "root")
def test_who_may_not_make_groups_is_told_so_with_the_remedy(tmp_path: Path) -> None:
    code = "from cluster.hosts.groups import why_not; print(why_not())"
    done = subprocess.run(
        as_ordinary_user([sys.executable, "-c", code], tmp_path),
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    refusals = (
        "control groups cannot be created on this|this user cannot create control groups with both"
    )
    assert re.match(refusals, done.stdout), done.stderr
    assert "systemd-run --user --scope" in done.stdout
