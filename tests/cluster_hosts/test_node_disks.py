"""Disks of their own: they end, they can be made read-only, and what lies on them is brought back.

What a node sees is asked for inside of its namespace, by the shell's own tools.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.hosts import node_disks
from cluster.hosts.abilities import abilities_of
from cluster.hosts.choose import make_hosts
from cluster.hosts.disk import LocalDisk
from cluster.hosts.faulty_disks import FaultyNamespaceDisks
from cluster.hosts.node_disks import BALLAST, NamespaceDisks
from cluster.hosts.process import ProcessHosts
from cluster.protocol import Ability, CanLimitDisk, ClusterError, HasFiles, HasSoftware
from results.record.paths import RunPaths
from tests.machine import needs

if TYPE_CHECKING:
    from tests.cluster_hosts.conftest import Room

MIB = 1 << 20
SEGMENT = Path("t-0", "0.log")
PAGES = {"read": "", "write": "", "fsync": ""}


@contextmanager
def disks(folder: Path) -> Iterator[tuple[NamespaceDisks, RunPaths]]:
    """Hosts of which n1 has a disk of 8 MiB, with a file that was prepared here; n2 has none."""
    paths = RunPaths(folder)
    hosts = make_hosts("namespace", ["n1", "n2"], paths.processes, disk_mb=8)
    assert isinstance(hosts, NamespaceDisks)
    assert isinstance(hosts, CanLimitDisk)
    assert isinstance(hosts, HasFiles)
    assert not isinstance(hosts, HasSoftware)
    (paths.node("n1") / "data" / "t-0").mkdir(parents=True)
    (paths.node("n1") / "data" / "meta.properties").write_text("cluster.id=x\n")
    (paths.node("n1") / "data" / "t-0" / "0.log").write_bytes(b"before")
    try:
        hosts.up()
        hosts.provide("n1", [])
        yield hosts, paths
    finally:
        hosts.down()


def inside(hosts: NamespaceDisks, paths: RunPaths, script: str) -> str:
    """Run a script in the data folder, as the node sees it."""
    data = paths.node("n1").absolute() / "data"
    return hosts.machine("n1").run(["sh", "-ec", f"cd {data}\n{script}"]).strip()


def test_a_disk_is_the_nodes_own_and_has_an_end(namespace_room: "Room", tmp_path: Path) -> None:
    assert namespace_room.kind == "namespace"
    with disks(tmp_path) as (hosts, paths):
        assert inside(hosts, paths, "cat meta.properties t-0/0.log") == "cluster.id=x\nbefore"
        size = "df --output=size --block-size=1 . | tail -1"
        assert int(inside(hosts, paths, size)) == 8 * MIB
        assert hosts.try_disk("n1") == ""
        free = int(inside(hosts, paths, "df --output=avail --block-size=1 . | tail -1"))
        assert hosts.fill_disk("n1") == free
        assert inside(hosts, paths, "df --output=avail . | tail -1") == "0"
        with pytest.raises(ClusterError, match="No space left on device"):
            inside(hosts, paths, "dd if=/dev/zero of=more bs=4096 count=1")
        assert hosts.try_disk("n1") == "ENOSPC"
        assert hosts.fill_disk("n1") == free  # It cannot be fuller.
        for _ in range(2):
            hosts.empty_disk("n1")
        inside(hosts, paths, "dd if=/dev/zero of=more bs=4096 count=1")
        assert hosts.try_disk("n1") == ""
        assert BALLAST not in inside(hosts, paths, "ls -A")
        assert ".logquake-probe" not in inside(hosts, paths, "ls -A")


def test_a_disk_that_is_read_only_takes_nothing(namespace_room: "Room", tmp_path: Path) -> None:
    assert namespace_room.kind == "namespace"
    with disks(tmp_path) as (hosts, paths):
        disk = hosts.disk("n1")
        assert isinstance(disk, LocalDisk)
        with (disk.folder / "data" / "open").open("wb"), pytest.raises(ClusterError, match="ro"):
            hosts.lock_disk("n1")
        assert hosts.try_disk("n1") == ""
        hosts.lock_disk("n1")
        assert hosts.try_disk("n1") == "EROFS"
        with pytest.raises(ClusterError, match="Read-only file system"):
            inside(hosts, paths, "echo > more")
        assert inside(hosts, paths, "cat t-0/0.log") == "before"
        for _ in range(2):
            hosts.unlock_disk("n1")
        inside(hosts, paths, "echo > more")
        assert hosts.try_disk("n1") == ""


def test_its_files_are_seen_from_here_and_brought_back(
    namespace_room: "Room", tmp_path: Path
) -> None:
    assert namespace_room.kind == "namespace"
    with disks(tmp_path) as (hosts, paths):
        inside(
            hosts, paths, "rm meta.properties; printf after > t-0/0.log; mkdir u-0; echo > u-0/f"
        )
        assert [str(path) for path in hosts.disk("n1").files("data/**/*")] == [
            "data/t-0/0.log", "data/u-0/f",
        ]  # fmt: skip
        hosts.disk("n1").write("data/t-0/0.log", b"F", at=1)
        assert inside(hosts, paths, "cat t-0/0.log") == "aFter"
        local = paths.node("n1") / "data"
        assert (local / "t-0" / "0.log").read_bytes() == b"before"  # It is another disk.
        hosts.fill_disk("n1")
        for _ in range(2):
            hosts.fetch("n1")
        kept = sorted(str(path.relative_to(local)) for path in local.rglob("*") if path.is_file())
        assert kept == ["t-0/0.log", "u-0/f"]
        assert (local / "t-0" / "0.log").read_bytes() == b"aFter"
        assert inside(hosts, paths, "cat t-0/0.log") == "aFter"  # It is still there, too.
    assert hosts.disk("n1").read("data/t-0/0.log") == b"aFter"


def test_what_is_gone_with_its_machine_is_not_taken_for_fetched(
    namespace_room: "Room", tmp_path: Path
) -> None:
    assert namespace_room.kind == "namespace"
    with disks(tmp_path) as (hosts, _):
        machine = hosts.machine("n1")
        machine.close()
        machine.wait_closed()
        with pytest.raises(ClusterError, match="n1 has ended, so its disk no longer exists"):
            hosts.fetch("n1")


def test_a_disk_that_is_not_a_node_s_own_is_never_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts, paths = (
        NamespaceDisks(["n1"], tmp_path / "processes.jsonl", disk_mb=8),
        RunPaths(tmp_path),
    )
    data = paths.node("n1") / "data"
    data.mkdir(parents=True)
    # As where the number of a node's agent, which has ended, is another process's by now.
    monkeypatch.setattr(hosts, "_there", lambda _: Path("/proc/self/root") / data.relative_to("/"))
    monkeypatch.setattr(node_disks, "_CHUNKS", ())
    with pytest.raises(ClusterError, match="n1 has ended, so its disk no longer exists"):
        hosts.fill_disk("n1")
    assert list(data.iterdir()) == []


def test_a_node_without_a_disk_says_so(namespace_room: "Room", tmp_path: Path) -> None:
    assert namespace_room.kind == "namespace"
    with disks(tmp_path) as (hosts, _):
        for deed in (hosts.fill_disk, hosts.lock_disk, hosts.try_disk):
            with pytest.raises(ClusterError, match="n2 has no disk of its own"):
                deed("n2")
        hosts.fetch("n2")


def test_other_hosts_do_not_claim_to_limit_disks(tmp_path: Path) -> None:
    plain = make_hosts("namespace", ["n1"], tmp_path / "processes.jsonl")
    for hosts in (plain, ProcessHosts(["n1"], tmp_path / "processes.jsonl")):
        assert not isinstance(hosts, CanLimitDisk)
        assert not isinstance(hosts, HasFiles)


@needs("fuse")
def test_a_file_system_above_it_passes_its_end_through(
    namespace_room: "Room", tmp_path: Path
) -> None:
    assert namespace_room.kind == "namespace"
    paths = RunPaths(tmp_path)
    hosts = make_hosts("namespace", ["n1"], paths.processes, disk_mb=8, faulty_disks=True)
    assert isinstance(hosts, FaultyNamespaceDisks)
    assert isinstance(hosts, CanLimitDisk)
    if why_not := abilities_of("namespace")[Ability.FAULTY_DISK]:
        assert "/dev/fuse" in why_not  # Root's alone, and this is an ordinary user.
        return
    data = paths.node("n1") / "data"
    (data / SEGMENT).parent.mkdir(parents=True)
    (data / SEGMENT).write_bytes(b"before")
    try:
        hosts.up()
        hosts.provide("n1", [])
        assert hosts.fill_disk("n1") > 7 << 20
        assert hosts.try_disk("n1") == "ENOSPC"
        assert hosts.try_requests("n1").errors["write"] == "ENOSPC"
        hosts.empty_disk("n1")
        assert hosts.try_requests("n1").errors == PAGES
        hosts.fault_disk("n1", "refused", ["write"])
        assert hosts.try_requests("n1").errors["write"] == "EIO"
        assert hosts.try_disk("n1") == ""  # Which looks below.
        hosts.mend_disk("n1")
        hosts.lock_disk("n1")
        assert hosts.try_requests("n1").errors["write"] == "EROFS"
        hosts.unlock_disk("n1")
        hosts.disk("n1").write(f"data/{SEGMENT}", b"B")
        hosts.fetch("n1")
        assert (data / SEGMENT).read_bytes() == b"Before"
    finally:
        hosts.down()
