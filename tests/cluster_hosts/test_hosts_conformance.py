"""What every kind of hosts must do, in every room."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.hosts.choose import HostKind
from cluster.hosts.ledger import read_ledger
from cluster.hosts.leftovers import leftovers
from cluster.hosts.signals import process_id, wait_gone
from cluster.protocol import ClusterError, Command, Hosts, ProcessId
from results.record.clock import wait_until
from results.record.paths import RunPaths
from tests.cluster_hosts.crashes import namespaces_in_use, namespaces_left

if TYPE_CHECKING:
    from tests.cluster_hosts.conftest import Room

GONE = frozenset({None, "Z", "X"})
HARNESS = """
import os, sys, signal
from pathlib import Path
from cluster.hosts.choose import make_hosts
from cluster.protocol import Command
folder = Path(sys.argv[2])
hosts = make_hosts(
    sys.argv[1], ["n1", "n2"], folder / "processes.jsonl", image=sys.argv[3] or None
)
hosts.up()
for node in ("n1", "n2"):
    hosts.spawn(node, Command(argv=["sleep", "1000"], log=folder / "log", cwd=folder))
worker = os.fork()  # Holds the line to the agents open, as a forked worker of the harness does.
if worker:
    (folder / "ready").write_text(f"{worker}\\n")
signal.pause()
"""


def shell(script: str, folder: Path, *, node: str = "n1", **env: str) -> Command:
    """A script whose log and files lie in the node's folder."""
    return Command(
        argv=["sh", "-ec", f"cd nodes/{node}\n{script}"],
        log=RunPaths(folder).node(node) / "log",
        cwd=folder,
        env=env,
    )


def sleeping(hosts: Hosts, folder: Path, node: str = "n1") -> ProcessId:
    return hosts.spawn(node, Command(argv=["sleep", "1000"], log=folder / "log", cwd=folder))


def text_in(hosts: Hosts, name: str, expected: str, *, node: str = "n1") -> str:
    """Wait until a file of a node holds a text, and return all of it."""

    def text() -> str | None:
        try:
            found = hosts.disk(node).read(name).decode()
        except OSError:
            return None
        return found if expected in found else None

    return wait_until(text, timeout_s=20, what=f"{expected} in {name}", interval_s=0.02)


def text_of(path: Path, expected: str) -> str:
    """Wait until a file holds a text, and return all of it."""
    wait_until(
        lambda: path.exists() and expected in path.read_text(),
        timeout_s=20,
        what=f"{expected} in {path}",
        interval_s=0.02,
    )
    return path.read_text()


def processes_of(folder: Path) -> list[ProcessId]:
    entries = read_ledger(folder / "processes.jsonl")
    return [entry.process for entry in entries if entry.process is not None]


def agents_of(folder: Path) -> list[ProcessId]:
    entries = read_ledger(folder / "processes.jsonl")
    return [e.process for e in entries if e.what == "agent" and e.process is not None]


class OtherHarness:
    """A harness in a process of its own, which holds hosts and can be killed."""

    def __init__(self, room: "Room", folder: Path, *, where: str) -> None:
        argv = [*room.prefix, sys.executable, "-c", HARNESS, where, str(folder), room.image or ""]
        self._process = subprocess.Popen(argv)
        self._worker = process_id(int(text_of(folder / "ready", "\n")))
        self.processes = processes_of(folder)
        self.namespaces = set()
        if room.kind == HostKind.NAMESPACE:
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
        script = "touch made; echo $COLOUR; echo bad >&2; cat; echo end"
        hosts.spawn("n1", shell(script, tmp_path, COLOUR="red"))
        assert text_in(hosts, "log", "end") == "red\nbad\nend\n"
        assert "made" in map(str, hosts.disk("n1").files()), "it runs in its folder"
        hosts.spawn("n1", shell("echo again", tmp_path))
        assert text_in(hosts, "log", "again").startswith("red\n"), "logs are appended to"


def test_a_spawned_process_leads_a_group_and_is_written_down(room: "Room", tmp_path: Path) -> None:
    with room.hosts(tmp_path) as hosts:
        process = sleeping(hosts, tmp_path)
        assert room.runs(process)
        lines = [e for e in read_ledger(tmp_path / "processes.jsonl") if e.what == "sleep"]
        assert [(line.node, line.process) for line in lines] == [("n1", None), ("n1", process)]
        child = hosts.spawn("n1", shell("sleep 1000 & echo $! > child; wait", tmp_path))
        text_in(hosts, "child", "\n")
        assert hosts.send_signal(child, signal.SIGKILL)
        wait_until(lambda: hosts.state_of(child) is None, timeout_s=20, what="its being reaped")
        assert not room.runs(child)
        assert hosts.state_of(process) in {"S", "D", "R"}


def test_signals_and_states_are_those_of_the_process_that_was_meant(
    room: "Room", tmp_path: Path
) -> None:
    with room.hosts(tmp_path) as hosts:
        process = sleeping(hosts, tmp_path, "n2")
        assert hosts.send_signal(process, signal.SIGSTOP)
        wait_until(lambda: hosts.state_of(process) == "T", timeout_s=20, what="the stop")
        assert room.state_of(process) == "T"
        assert hosts.send_signal(process, signal.SIGCONT)
        wait_until(lambda: hosts.state_of(process) == "S", timeout_s=20, what="its going on")
        earlier = replace(process, start_ticks=process.start_ticks - 1)
        assert not hosts.send_signal(earlier, signal.SIGKILL), "its number is another one's now"
        assert hosts.state_of(earlier) is None
        assert room.runs(process)
        assert hosts.send_signal(process, signal.SIGKILL)
        wait_until(lambda: hosts.state_of(process) in GONE, timeout_s=20, what="its end")
        assert not hosts.send_signal(process, signal.SIGTERM)


def test_a_node_s_files_are_read_changed_and_removed(room: "Room", tmp_path: Path) -> None:
    with room.hosts(tmp_path) as hosts:
        make = "mkdir -p data/t-0 && printf 0123456789 > data/t-0/0.log && touch data/t-0/0.index"
        hosts.spawn("n1", shell(f"{make} && echo made", tmp_path))
        text_in(hosts, "log", "made")
        disk = hosts.disk("n1")
        assert [str(path) for path in disk.files("data/**/*.log")] == ["data/t-0/0.log"]
        assert disk.size("data/t-0/0.log") == 10
        assert disk.read("data/t-0/0.log", at=2, size=3) == b"234"
        disk.write("data/t-0/0.log", b"ab", at=4)
        disk.truncate("data/t-0/0.log", 8)
        assert disk.read("data/t-0/0.log") == b"0123ab67"
        disk.write("data/new", b"x")
        disk.remove("data/t-0")
        disk.remove("data/t-0")
        assert [str(path) for path in disk.files("data/**/*")] == ["data/new"]
        disk.remove("data/new")
        with pytest.raises(OSError, match="new"):
            disk.read("data/new")
        with pytest.raises(OSError, match="new"):
            disk.size("data/new")


def test_down_ends_paused_processes_and_those_that_went_their_own_way(
    room: "Room", tmp_path: Path
) -> None:
    with room.hosts(tmp_path) as hosts:
        paused = sleeping(hosts, tmp_path)
        hosts.send_signal(paused, signal.SIGSTOP)
        script = "setsid sh -c 'cat /proc/self/stat > own; exec sleep 1000' & wait"
        leader = hosts.spawn("n2", shell(script, tmp_path, node="n2"))
        # The number is that of `cat`; what sleeps is its parent.
        parent = int(text_in(hosts, "own", "\n", node="n2").split()[3])
        assert parent != leader.pid
        stray = room.stray(leader, parent)
        assert room.runs(stray)
        hosts.down()
        assert not [p for p in [*processes_of(tmp_path), stray] if room.runs(p)]
        hosts.down()
        with pytest.raises(ClusterError, match="down"):
            sleeping(hosts, tmp_path)


def test_hosts_come_up_again_after_down(room: "Room", tmp_path: Path) -> None:
    with room.hosts(tmp_path) as hosts:
        hosts.down()
        hosts.up()
        assert room.runs(sleeping(hosts, tmp_path))


def test_a_wrong_node_and_a_wrong_program_are_named(room: "Room", tmp_path: Path) -> None:
    with room.hosts(tmp_path) as hosts:
        with pytest.raises(ClusterError, match="n9"):
            hosts.address("n9")
        with pytest.raises(ClusterError, match="no-such-program"):
            hosts.spawn("n1", Command(argv=["no-such-program"], log=tmp_path / "l", cwd=tmp_path))
        assert room.runs(sleeping(hosts, tmp_path)), "the agent goes on after a refusal"


def test_ctrl_c_is_for_the_harness_and_not_for_agents_or_children(
    room: "Room", tmp_path: Path
) -> None:
    with room.hosts(tmp_path) as hosts:
        sleeper = sleeping(hosts, tmp_path)
        for agent in agents_of(tmp_path):
            hosts.send_signal(agent, signal.SIGINT)
            if not agent.machine:
                assert os.getsid(agent.pid) != os.getsid(0), "no terminal reaches it"
        assert room.runs(sleeping(hosts, tmp_path)), "agents still answer"
        assert room.runs(sleeper)
        hosts.send_signal(sleeper, signal.SIGINT)  # A child itself does not ignore it.
        room.wait_gone([sleeper])


def test_children_die_with_their_agent(room: "Room", tmp_path: Path) -> None:
    with room.hosts(tmp_path) as hosts:
        sleeper = sleeping(hosts, tmp_path)
        for agent in agents_of(tmp_path):
            room.hit(agent, signal.SIGKILL)
        room.wait_gone([sleeper])
        with pytest.raises(ClusterError, match=r"agent of .* does not answer"):
            sleeping(hosts, tmp_path)


def test_nothing_outlives_a_killed_harness(room: "Room", tmp_path: Path) -> None:
    harness = OtherHarness(room, tmp_path, where=room.where_soon)
    assert len([p for p in harness.processes if room.runs(p)]) >= 3
    assert harness.namespaces <= {name for _, name in namespaces_in_use()}
    harness.kill()
    room.wait_gone(harness.processes)
    assert leftovers(tmp_path / "processes.jsonl") == []
    harness.end_worker()
    if room.kind == HostKind.NAMESPACE:
        assert not namespaces_left(harness.namespaces), "and so no link and no table"


def test_leftovers_of_a_dead_run_are_killed(room: "Room", tmp_path: Path) -> None:
    run = tmp_path / "log" / "20261121T220000Z-7"  # In a store; an ssh room's file is not in it.
    run.mkdir(parents=True)
    harness = OtherHarness(room, run, where=room.where)
    for process in harness.processes:
        room.hit(process, signal.SIGSTOP)  # A stopped agent notices nothing.
    harness.kill()
    assert [p for p in harness.processes if room.runs(p)] == harness.processes
    said = " ".join(room.heal(run))
    assert re.search("sleep of n1|n1: killed|container .*-n1-1", said)
    assert re.search("agent of|n1: killed python3", said)
    assert not [p for p in harness.processes if room.runs(p)]
    assert room.heal(run) == []
    harness.end_worker()
    if room.kind == HostKind.NAMESPACE:
        assert not namespaces_left(harness.namespaces)


def test_how_a_process_ended_is_known(room: "Room", tmp_path: Path) -> None:
    with room.hosts(tmp_path) as hosts:
        exits = hosts.spawn("n1", shell("exit 3", tmp_path))
        other = sleeping(hosts, tmp_path, "n2")
        wait_until(lambda: hosts.state_of(exits) in GONE, timeout_s=20, what="its end")
        assert hosts.exit_of("n1", exits) == 3
        assert hosts.exit_of("n2", other) is None, "it still runs"
        room.hit(other, signal.SIGKILL)
        wait_until(lambda: hosts.state_of(other) in GONE, timeout_s=20, what="its death")
        assert hosts.exit_of("n2", other) in {-signal.SIGKILL, 128 + signal.SIGKILL}
