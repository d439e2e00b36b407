"""What every kind of hosts must do, in every room."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.hosts.choose import HostKind
from cluster.hosts.ledger import read_ledger
from cluster.hosts.leftovers import kill_leftovers, leftovers
from cluster.hosts.namespace import enter_prefix
from cluster.hosts.signals import is_running, process_id, send_signal, wait_gone
from cluster.protocol import ClusterError, Command, Hosts, ProcessId
from results.record.clock import wait_until

if TYPE_CHECKING:
    from tests.cluster_hosts.conftest import Room

HARNESS = """
import os, sys, signal
from pathlib import Path
from cluster.hosts.choose import make_hosts
from cluster.protocol import Command
folder = Path(sys.argv[2])
hosts = make_hosts(sys.argv[1], ["n1", "n2"], folder / "processes.jsonl")
hosts.up()
for node in ("n1", "n2"):
    hosts.spawn(node, Command(argv=["sleep", "1000"], log=folder / "log", cwd=folder))
worker = os.fork()  # Holds the line to the agents open, as a forked worker of the harness does.
if worker:
    (folder / "ready").write_text(f"{worker}\\n")
signal.pause()
"""


def shell(script: str, folder: Path, **env: str) -> Command:
    return Command(argv=["sh", "-c", script], log=folder / "node" / "log", cwd=folder, env=env)


def sleeping(hosts: Hosts, folder: Path, node: str = "n1") -> ProcessId:
    return hosts.spawn(node, Command(argv=["sleep", "1000"], log=folder / "log", cwd=folder))


def text_of(path: Path, expected: str) -> str:
    """Wait until a file holds a text, and return all of it."""
    wait_until(
        lambda: path.exists() and expected in path.read_text(),
        timeout_s=20,
        what=f"{expected} in {path}",
        interval_s=0.02,
    )
    return path.read_text()


def network_namespaces_in_use() -> set[str]:
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(str(link.readlink()))
        except OSError:  # It ended meanwhile, or is another user's.
            continue
    return found


def processes_of(folder: Path) -> list[ProcessId]:
    entries = read_ledger(folder / "processes.jsonl")
    return [entry.process for entry in entries if entry.process is not None]


class OtherHarness:
    """A harness in a process of its own, which holds hosts and can be killed."""

    def __init__(self, kind: HostKind, folder: Path) -> None:
        hub = enter_prefix() if kind == HostKind.NAMESPACE else []
        self._process = subprocess.Popen([*hub, sys.executable, "-c", HARNESS, kind, str(folder)])
        self._worker = process_id(int(text_of(folder / "ready", "\n")))
        self.processes = processes_of(folder)
        self.namespaces = {
            str(Path(f"/proc/{process.pid}/ns/net").readlink())
            for process in [*self.processes, process_id(self._process.pid)]
        }

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end_worker(self) -> None:
        os.kill(self._worker.pid, signal.SIGKILL)
        wait_gone([self._worker], timeout_s=20)


def test_a_spawned_process_has_its_environment_folder_and_log(room: "Room", tmp_path: Path) -> None:
    with room.hosts(tmp_path) as hosts:
        log = tmp_path / "node" / "log"
        hosts.spawn(
            "n1", shell("pwd; echo $COLOUR; echo bad >&2; cat; echo end", tmp_path, COLOUR="red")
        )
        assert text_of(log, "end") == f"{tmp_path}\nred\nbad\nend\n"
        hosts.spawn("n1", shell("echo again", tmp_path))
        assert text_of(log, "again").startswith(f"{tmp_path}\nred\n"), "logs are appended to"


def test_a_spawned_process_leads_a_group_and_is_written_down(room: "Room", tmp_path: Path) -> None:
    with room.hosts(tmp_path) as hosts:
        process = sleeping(hosts, tmp_path)
        assert process == process_id(process.pid)
        assert os.getpgid(process.pid) == process.pid
        assert is_running(process)
        lines = [e for e in read_ledger(tmp_path / "processes.jsonl") if e.what == "sleep"]
        assert [(line.node, line.process) for line in lines] == [("n1", None), ("n1", process)]


def test_down_ends_paused_processes_and_those_that_went_their_own_way(
    room: "Room", tmp_path: Path
) -> None:
    with room.hosts(tmp_path) as hosts:
        paused = sleeping(hosts, tmp_path)
        send_signal(paused, signal.SIGSTOP)
        hosts.spawn("n2", shell("setsid sh -c 'echo $$ > own; exec sleep 1000' & wait", tmp_path))
        text_of(tmp_path / "own", "\n")
        stray = process_id(int((tmp_path / "own").read_text()))
        assert is_running(stray)
        hosts.down()
        assert not [p for p in [*processes_of(tmp_path), stray] if is_running(p)]
        hosts.down()
        with pytest.raises(ClusterError, match="down"):
            sleeping(hosts, tmp_path)


def test_hosts_come_up_again_after_down(room: "Room", tmp_path: Path) -> None:
    with room.hosts(tmp_path) as hosts:
        hosts.down()
        hosts.up()
        assert is_running(sleeping(hosts, tmp_path))


def test_a_wrong_node_and_a_wrong_program_are_named(room: "Room", tmp_path: Path) -> None:
    with room.hosts(tmp_path) as hosts:
        with pytest.raises(ClusterError, match="n9"):
            hosts.address("n9")
        with pytest.raises(ClusterError, match="no-such-program"):
            hosts.spawn("n1", Command(argv=["no-such-program"], log=tmp_path / "l", cwd=tmp_path))
        assert is_running(sleeping(hosts, tmp_path)), "the agent goes on after a refusal"


def test_ctrl_c_is_for_the_harness_and_not_for_agents_or_children(
    room: "Room", tmp_path: Path
) -> None:
    with room.hosts(tmp_path) as hosts:
        sleeper = sleeping(hosts, tmp_path)
        for agent in [e for e in read_ledger(tmp_path / "processes.jsonl") if e.what == "agent"]:
            if agent.process is not None:
                send_signal(agent.process, signal.SIGINT)
                assert os.getsid(agent.process.pid) != os.getsid(0), "no terminal reaches it"
        assert is_running(sleeping(hosts, tmp_path)), "agents still answer"
        assert is_running(sleeper)
        send_signal(sleeper, signal.SIGINT)  # A child itself does not ignore it.
        wait_gone([sleeper], timeout_s=20)


def test_children_die_with_their_agent(room: "Room", tmp_path: Path) -> None:
    with room.hosts(tmp_path) as hosts:
        sleeper = sleeping(hosts, tmp_path)
        for entry in read_ledger(tmp_path / "processes.jsonl"):
            if entry.what == "agent" and entry.process is not None:
                send_signal(entry.process, signal.SIGKILL)
        wait_gone([sleeper], timeout_s=20)
        with pytest.raises(ClusterError, match=r"agent of .* does not answer"):
            sleeping(hosts, tmp_path)


def test_nothing_outlives_a_killed_harness(room: "Room", tmp_path: Path) -> None:
    harness = OtherHarness(room.kind, tmp_path)
    assert len([p for p in harness.processes if is_running(p)]) >= 3
    assert harness.namespaces <= network_namespaces_in_use()
    harness.kill()
    wait_gone(harness.processes, timeout_s=20)
    assert leftovers(tmp_path / "processes.jsonl") == []
    harness.end_worker()
    if room.kind == HostKind.NAMESPACE:
        assert not harness.namespaces & network_namespaces_in_use(), "and so no link and no table"


def test_leftovers_of_a_dead_run_are_killed(room: "Room", tmp_path: Path) -> None:
    harness = OtherHarness(room.kind, tmp_path)
    for process in harness.processes:
        send_signal(process, signal.SIGSTOP)  # A stopped agent notices nothing.
    harness.kill()
    assert [p for p in harness.processes if is_running(p)] == harness.processes
    said = kill_leftovers(tmp_path / "processes.jsonl")
    assert "sleep of n1" in " ".join(said)
    assert "agent of" in " ".join(said)
    assert not [p for p in harness.processes if is_running(p)]
    assert kill_leftovers(tmp_path / "processes.jsonl") == []
    harness.end_worker()
    if room.kind == HostKind.NAMESPACE:
        assert not harness.namespaces & network_namespaces_in_use()
