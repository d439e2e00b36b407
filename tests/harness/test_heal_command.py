"""`logquake heal` on the command line: what it says, and how it ends."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from cluster.hosts.ledger import mark
from cluster.hosts.leftovers import leftovers
from cluster.hosts.signals import is_running, process_id
from cluster.hosts.ssh.file import SshHost
from cluster.hosts.ssh.run import FILE, SshRun, id_of, noted_run
from harness.cli import exit_code
from harness.exit_codes import NOT_HEALED, VALID
from nemesis.ledger import Ledger, open_entries
from nemesis.undo import Join
from results.record.clock import wait_until
from results.record.paths import RunPaths
from results.store import Store


def dead_run(store: Path, seed: int) -> RunPaths:
    with Store(store).create("dead", seed) as paths:
        return paths


def host_without_sshd(folder: Path) -> SshHost:
    """Return a host at a port of the loopback where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
    (folder / "known_hosts").touch()
    return SshHost(
        name="lab9", address="127.0.0.1", ssh_address="127.0.0.1", port=port, user="root",
        key=None, known_hosts=str(folder / "known_hosts"), folder="/var/lib/lq", java="java",
        sudo=False, ttl_s=5,
    )  # fmt: skip


def test_a_store_without_dead_runs_has_nothing_to_heal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["heal", "--store", str(tmp_path / "none")]) == VALID
    dead_run(tmp_path / "runs", 1)
    assert exit_code(["heal", "--store", str(tmp_path / "runs")]) == VALID
    assert capsys.readouterr().out == "nothing to heal\n" * 2


def test_a_host_that_does_not_answer_is_told_and_the_rest_is_healed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs"
    far, near = dead_run(store, 1), dead_run(store, 2)
    lab = host_without_sshd(tmp_path)
    hosts_file = tmp_path / "HOSTS.toml"
    hosts_file.write_text(
        f'ttl_s = {lab.ttl_s}\nuser = "root"\nfolder = "{lab.folder}"\nport = {lab.port}\n'
        f'known_hosts = "{lab.known_hosts}"\n[[hosts]]\nname = "lab9"\naddress = "127.0.0.1"\n'
    )
    far.plan.write_text(f'hosts = "ssh:{hosts_file}"\n')
    run = SshRun(run=id_of(far.root), hosts={"n1": lab})
    run.note(far.root / FILE)
    Ledger(far.ledger).write(1, [Join(cut_id="fault-1", links=(("n1", "n2"),))])
    with subprocess.Popen(["sleep", "600"], env=os.environ | mark(near.processes)) as left:
        wait_until(lambda: leftovers(near.processes), timeout_s=20, what="it to be seen")
        assert exit_code(["heal", "--store", str(store)]) == NOT_HEALED
        assert not is_running(process_id(left.pid))
    said = capsys.readouterr()
    assert said.out == f"{near.run_id}: killed sleep (process {left.pid})\n"
    assert said.err.startswith(f"logquake: {far.run_id}: lab9 (127.0.0.1 port ")
    assert "cannot be reached" in said.err
    assert len(said.err.splitlines()) == 1
    assert noted_run(far.root / FILE) == run, "the next heal knows where to go"
    assert len(open_entries(far.ledger)) == 1, "nothing is struck that may be in force"
    assert exit_code(["heal", "--store", str(store)]) == NOT_HEALED
    assert capsys.readouterr().out == "nothing was healed\n"
