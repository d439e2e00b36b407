"""Healing hosts: by kind, as far as can be known, and never what is not the run's."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.hosts import leavings as leavings_module
from cluster.hosts.agent import Message
from cluster.hosts.docker.objects import labels_of, prefix_of
from cluster.hosts.heal import Healed, heal_hosts, hosts_of
from cluster.hosts.leavings import leavings, remove_leavings
from cluster.hosts.ledger import ProcessLedger, mark
from cluster.hosts.leftovers import leftovers
from cluster.hosts.signals import is_running, process_id
from cluster.hosts.ssh.connection import SshConnection
from cluster.hosts.ssh.file import SshHost, load_hosts
from cluster.hosts.ssh.heal import heal_ssh
from cluster.hosts.ssh.run import FILE, SshRun, id_of
from cluster.protocol import ClusterError, Command, ProcessId
from results.record.clock import unix_s, wait_until
from results.record.paths import RunPaths

if TYPE_CHECKING:
    from tests.cluster_hosts.conftest import Room


def ended_process(paths: RunPaths) -> ProcessId:
    """Return a process of the run that has been and gone."""
    with subprocess.Popen(["sleep", "600"]) as child:
        process = process_id(child.pid)
        ProcessLedger(paths.processes).started("java", "n1", process)
        child.kill()
    return process


def clock_file(process: ProcessId) -> Path:
    return Path(f"/dev/shm/faketime_shm_{process.pid}")  # noqa: S108 - where libfaketime puts it


def test_what_an_ended_process_left_outside_of_the_store_is_removed(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    file = clock_file(ended_process(paths))
    file.write_bytes(b"")
    assert leavings(paths.processes) == [file]
    assert heal_hosts(paths) == Healed(done=(f"removed {file}",))
    assert not file.exists()
    assert heal_hosts(paths) == Healed()


def test_a_clock_that_was_set_meanwhile_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's start is told as now minus the time since: it jumps with the clock."""
    paths = RunPaths(tmp_path)
    ledger = ProcessLedger(paths.processes)
    ledger.intend("java", "n1")
    with subprocess.Popen(["sleep", "600"]) as child:
        process = process_id(child.pid)
        ledger.started("java", "n1", process)
        child.kill()
    file = clock_file(process)
    file.write_bytes(b"")
    monkeypatch.setattr(leavings_module, "_boot_s", lambda: unix_s() + 3600)
    assert remove_leavings(paths.processes) == [f"removed {file}"]


def test_what_a_zombie_left_is_removed_and_what_a_process_uses_is_not(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    with subprocess.Popen(["sleep", "600"]) as child:
        process = process_id(child.pid)
        ProcessLedger(paths.processes).started("java", "n1", process)
        file = clock_file(process)
        file.write_bytes(b"")
        assert leavings(paths.processes) == []
        child.kill()
        wait_until(lambda: not is_running(process), timeout_s=20, what="its end")
        assert leavings(paths.processes) == [file], "though nobody has taken note of its end"
        file.unlink()


def test_files_of_other_processes_are_left_alone(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    earlier = clock_file(ended_process(paths))
    earlier.write_bytes(b"of an earlier process with the number")
    os.utime(earlier, (0, 0))
    with subprocess.Popen(["sleep", "600"]) as other:
        living = process_id(other.pid)
        before = ProcessId(pid=living.pid, start_ticks=living.start_ticks - 1)
        ProcessLedger(paths.processes).started("java", "n2", before)
        later = clock_file(living)
        later.write_bytes(b"of a later process with the number")
        try:
            assert remove_leavings(paths.processes) == []
            assert earlier.exists()
            assert later.exists()
        finally:
            earlier.unlink()
            later.unlink()
            other.kill()


def test_a_run_whose_plan_cannot_be_read_is_healed_as_far_as_its_ledger_tells(
    tmp_path: Path,
) -> None:
    paths = RunPaths(tmp_path)
    for damaged in (b"hosts = ", b"\xff", b"hosts = 3"):
        paths.plan.write_bytes(damaged)
        assert hosts_of(paths) is None
        with subprocess.Popen(["sleep", "600"], env=os.environ | mark(paths.processes)) as left:
            process = process_id(left.pid)
            # Just after its exec a process has no environment for a moment.
            wait_until(lambda: leftovers(paths.processes), timeout_s=20, what="it to be seen")
            assert heal_hosts(paths).done == (f"killed sleep (process {left.pid})",)
            assert not is_running(process)
    paths.plan.write_text('version_to_come = [1]\nhosts = "ssh:/h.toml"\n')
    assert hosts_of(paths) == "ssh:/h.toml"


def test_a_host_that_cannot_be_reached_keeps_nothing_else_from_being_healed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> list[str]:
        raise ClusterError("n1 does not answer")

    monkeypatch.setattr(
        "cluster.hosts.ssh.heal.ssh_ways", lambda *_: (away, lambda: ["removed a table from n2"])
    )
    paths = RunPaths(tmp_path)
    paths.plan.write_text('hosts = "ssh:/hosts.toml"\n')
    healed = heal_hosts(paths)
    assert healed.done == ("removed a table from n2",)
    assert healed.failed == ("n1 does not answer",)


def test_a_file_of_hosts_tells_how_they_are_reached_today_and_not_what_was_made_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "HOSTS.toml"
    text = 'user = "kafka"\nfolder = "~/then"\n[[hosts]]\naddress = "10.0.0.1"\n'
    file.write_text(text)
    paths = run_at(tmp_path)
    run = SshRun(run=id_of(paths.root), hosts={"n1": load_hosts(file)[0]})
    run.note(paths.processes.with_name(FILE))
    asked: list[tuple[SshHost, str]] = []

    def call(self: SshConnection, do: str, order: Mapping[str, object]) -> Message:
        asked.append((self.host, f"{do} {order['folder']}"))
        return {"done": [], "failed": []}

    monkeypatch.setattr(SshConnection, "call", call)
    file.write_text("port = 2222\n" + text)
    heal_ssh(file, paths)
    ((host, what),) = asked
    assert what == f"undo ~/then/{id_of(paths.root)}"
    assert (host.port, host.user, host.sudo) == (2222, "kafka", True)
    run.note(paths.processes.with_name(FILE))
    for otherwise in (text.replace("kafka", "root"), text.replace("then", "now")):
        file.write_text(otherwise)
        with pytest.raises(ClusterError, match="restore these two values"):
            heal_ssh(file, paths)
    file.write_text(text.replace("10.0.0.1", "10.0.0.2"))
    with pytest.raises(ClusterError, match="does not have this host; add it"):
        heal_ssh(file, paths)
    assert len(asked) == 1


def run_at(folder: Path) -> RunPaths:
    paths = RunPaths(folder / "runs" / "log" / "20261121T220000Z-7")
    paths.root.mkdir(parents=True)
    return paths


def test_no_host_is_asked_but_by_a_file_of_the_user_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(*_: object) -> Message:
        raise AssertionError("it logged in")

    monkeypatch.setattr(SshConnection, "call", call)
    paths, own = run_at(tmp_path), tmp_path / "HOSTS.toml"
    own.write_text(f'[[hosts]]\naddress = "10.0.0.1"\nuser = "{getuser()}"\n')
    noted = SshRun(run=id_of(paths.root), hosts={"n1": load_hosts(own)[0]})
    noted.note(paths.processes.with_name(FILE))
    inside = paths.root / "HOSTS.toml"
    inside.write_text(own.read_text())
    for file in (inside, tmp_path / "none.toml"):
        with pytest.raises(ClusterError, match="outside of the store"):
            heal_ssh(file, paths)
    own.chmod(0o666)
    with pytest.raises(ClusterError, match="be writable only by you"):
        heal_ssh(own, paths)
    own.chmod(0o600)
    replace(noted, run="0123456789abcdef").note(paths.processes.with_name(FILE))
    with pytest.raises(ClusterError, match="in another folder or on another machine"):
        heal_ssh(own, paths)


def test_a_link_or_a_file_of_another_user_is_not_what_a_process_left(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    process = ended_process(paths)
    (tmp_path / "dear").touch()
    link = clock_file(process)
    link.symlink_to(tmp_path / "dear")
    try:
        assert remove_leavings(paths.processes) == []
        assert link.is_symlink()
    finally:
        link.unlink()


def test_containers_are_found_by_whatever_way_leads_to_their_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "store" / "log" / "20261121T220000Z-7"
    run.mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / "store")
    monkeypatch.chdir(tmp_path / "store")
    ways = [tmp_path / "linked" / "log" / run.name, Path("../store/log", run.name)]
    for way in ways:
        assert labels_of(way) == labels_of(run)
        assert prefix_of(way) == prefix_of(run)


def test_shared_memory_of_a_namespace_is_its_own(namespace_room: "Room", tmp_path: Path) -> None:
    name = f"left-by-{os.getpid()}"
    with namespace_room.hosts(tmp_path) as hosts:
        left = ["sh", "-c", f"touch /dev/shm/{name} && ls /dev/shm > {tmp_path}/seen"]
        hosts.spawn("n1", Command(argv=left, log=tmp_path / "log", cwd=tmp_path))
        seen = tmp_path / "seen"
        wait_until(
            lambda: seen.exists() and seen.read_text() == f"{name}\n", timeout_s=20, what="the file"
        )
        assert not Path("/dev/shm", name).exists()  # noqa: S108 - where it would be
