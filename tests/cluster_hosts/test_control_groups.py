"""Control groups of servers: where they are made, and what is refused. Faults test what they do.

This kernel has one version of cgroup; of the other one the files are laid out as its manual says.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.hosts import groups
from cluster.hosts.audit import local_traces
from cluster.hosts.groups import CPU, MEMORY, Group, groups_of, name_of, remove_groups, tree
from cluster.hosts.process import ProcessHosts
from cluster.protocol import CanLimitResources, ClusterError, Command, Memory, UserError
from results.record.paths import RunPaths
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
    found = tree(laid_out(tmp_path, FIRST, "1:cpu:/a\n2:memory:/box/b\n"))
    assert not found.unified
    assert found.parents == {
        CPU: tmp_path / "cgroup/cpu",
        MEMORY: tmp_path / "cgroup/memory",
    }
    assert found.mounts[CPU].group("/a/b") == tmp_path / "cgroup/cpu/a/b"
    assert found.mounts[MEMORY].group("/box/b") == tmp_path / "cgroup/memory/b"


def test_of_the_second_version_the_uppermost_that_is_ours_and_hands_on_both(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    handing_on(top, "memory pids")
    user = handing_on(top / "user", "cpu memory")
    handing_on(user / "app", "cpu memory")
    found = tree(laid_out(tmp_path, SECOND, "0::/user/app/run.scope\n"))
    assert found.unified
    assert found.parents == {CPU: user, MEMORY: user}


@pytest.mark.parametrize(
    ("mounts", "own"), [(SECOND, "0::/user\n"), ("", ""), (FIRST.replace(",cpu\n", ",io\n"), "")]
)
def test_where_no_group_hands_on_both_nothing_can_be_limited(
    tmp_path: Path, mounts: str, own: str
) -> None:
    handing_on(tmp_path / "cgroup", "pids")
    with pytest.raises(UserError, match="no control group here hands on both cpu and memory"):
        tree(laid_out(tmp_path, mounts, own))


def test_a_system_without_proc_has_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="control groups need Linux"):
        tree(tmp_path / "proc")


def test_of_the_second_version_limits_and_counts_are_in_its_files(tmp_path: Path) -> None:
    files = {
        "cpu.max": "max 100000\n", "cpu.stat": "nr_throttled 7\nthrottled_usec 2500000\n",
        "memory.max": "max\n", "memory.current": "900\n", "memory.stat": "anon 100\nfile 800\n",
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


def limited(node: str, folder: Path, *, limits: bool = True) -> Command:
    return Command(argv=["sleep", "60"], log=folder / node, cwd=folder, limited=limits)


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
        with pytest.raises(ClusterError, match="n1 was not started so that it can be limited"):
            hosts.limit_memory("n1", 1 << 30)
        hosts.limit_handles(free, 100)
        assert hosts.handles(free).soft == 100
        assert hosts.handles(process).soft != 100
    finally:
        hosts.down()
    assert groups_of(file) == []
    with pytest.raises(ClusterError, match="cannot be looked at"):
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
    group = Group(tree().parents[MEMORY] / name_of(file, "n1"), unified=False)
    monkeypatch.setattr(groups, "EMPTY_LIMIT_S", 0.1)
    group.path.mkdir()
    try:
        with subprocess.Popen(["sleep", "60"]) as strange:
            group.take(strange.pid)
            with pytest.raises(ClusterError, match="cannot be removed: processes are in it"):
                remove_groups(file)
            strange.kill()
        assert remove_groups(file) == [f"removed the control group {group.path}"]
        assert remove_groups(file) == []
    finally:
        group.remove()


@needs("cgroup")
def test_a_trial_leaves_nothing_and_removes_what_a_dead_one_left() -> None:
    parent = tree().parents[MEMORY]
    dead = parent / f"{groups.PREFIX}-{groups.TRIAL}-{(1 << 22) + 1}"
    dead.mkdir()
    groups.why_not.cache_clear()
    assert groups.why_not() == ""
    assert not dead.exists()
    assert not (parent / f"{groups.PREFIX}-{groups.TRIAL}-{os.getpid()}").exists()


@needs("cgroup")
def test_who_may_not_make_groups_is_told_so_with_the_remedy() -> None:
    code = "from cluster.hosts.groups import why_not; print(why_not())"
    as_nobody = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    done = subprocess.run(
        [*as_nobody, sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "control groups cannot be made here" in done.stdout, done.stderr
    assert "systemd-run --user --scope" in done.stdout
