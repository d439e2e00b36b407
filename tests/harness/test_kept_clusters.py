"""Clusters that go on after the verdict, and commands on their nodes."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.hosts.ledger import mark
from cluster.hosts.signals import environment_of, process_id
from cluster.protocol import ClusterError
from harness.cli import exit_code
from harness.entering import run_on
from harness.keep import Kept, Machine, copy_files
from results.record.atomic import StoreError
from results.record.clock import wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.world import world
from tests.harness.commands import LOGQUAKE, newest, running

pytestmark = pytest.mark.everything

PLAN = """
nodes = 1
replication = 1
min_insync = 1
nemesis = []
warmup_s = 1
time_limit_s = 3
topics = 1
partitions = 1
hosts = "namespace"
"""
LIMIT_S = 200


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = RunPaths(tmp_path / "log" / "20261121T104500Z-7")
    made.root.mkdir(parents=True)
    made.plan.write_text("seed = 7\n", encoding="utf-8")
    return made


def kept_here(folder: Path, *, boot: str | None = None, pid: int | None = None) -> Kept:
    own = process_id(pid or os.getpid())
    machine = Machine(
        pid=own.pid, start_ticks=own.start_ticks, folder=str(folder), address="127.0.0.1:9092"
    )
    return Kept(
        world=world() if boot is None else boot,
        hosts="process",
        bootstrap="127.0.0.1:9092",
        zookeeper="",
        machines={"n1": machine},
    )


def test_copies_are_made_of_the_files_and_not_of_the_logs(paths: RunPaths) -> None:
    data = paths.node("n1") / "data" / "log-0-0"
    data.mkdir(parents=True)
    (data / f"{0:020}.log").write_bytes(b"records")
    (paths.node("n1") / "logs").mkdir()
    (paths.root / "zookeeper" / "data").mkdir(parents=True)
    (paths.root / "zookeeper" / "data" / "myid").write_text("1")
    copy_files(Plan(system="kafka:2.8.2", nodes=1, replication=1, min_insync=1), paths)
    copied = paths.kept / "nodes" / "n1"
    assert (copied / "data" / "log-0-0" / f"{0:020}.log").read_bytes() == b"records"
    assert not (copied / "logs").exists()
    assert (paths.kept / "zookeeper" / "data" / "myid").exists()


def test_copies_that_cannot_be_made_whole_are_removed_and_the_reason_is_told(
    paths: RunPaths,
) -> None:
    data = paths.node("n1") / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1")
    (data / "gone").symlink_to("nowhere")
    with pytest.raises(ClusterError, match=r"could not be kept: .*No such file"):
        copy_files(Plan(nodes=1, replication=1, min_insync=1), paths)
    assert not paths.kept.exists()


def test_ctrl_c_is_the_command_s_own_affair(tmp_path: Path) -> None:
    handled = "trap 'exit 7' INT; kill -INT $PPID; kill -INT $$"
    before = signal.getsignal(signal.SIGINT)
    assert run_on(kept_here(tmp_path), "n1", ["sh", "-c", handled], programs={}) == 7
    assert signal.getsignal(signal.SIGINT) is before


def test_a_command_runs_in_the_nodes_folder_and_its_code_is_passed_on(tmp_path: Path) -> None:
    kept = kept_here(tmp_path)
    assert run_on(
        kept, "n1", ["sh", "-c", 'pwd > here; echo "$NODE $BOOTSTRAP" >> here; exit 7'], programs={}
    )
    assert (tmp_path / "here").read_text().splitlines() == [str(tmp_path), "n1 127.0.0.1:9092"]
    assert run_on(kept, "n1", ["sh", "-c", "exit 7"], programs={}) == 7
    assert run_on(kept, "n1", ["sh", "-c", "kill -9 $$"], programs={}) == 137
    assert run_on(kept, "n1", ["true"], programs={}) == 0
    told = {"KAFKA_CLASSPATH": "a.jar"}
    assert run_on(kept, "n1", ["sh", "-c", '[ "$KAFKA_CLASSPATH" = a.jar ]'], programs=told) == 0


def test_a_node_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no node n4; the nodes are n1"):
        run_on(kept_here(tmp_path), "n4", ["true"], programs={})


def test_processes_of_another_boot_are_not_ours(tmp_path: Path) -> None:
    assert kept_here(tmp_path).alive
    assert not kept_here(tmp_path, boot="another").alive


def test_what_is_not_there_is_told_in_a_sentence(
    paths: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str) -> str:
        assert exit_code(["node", "--store", str(paths.root.parent.parent), *words]) == 254
        return capsys.readouterr().err

    assert "log/20261121T104500Z-7 was not kept" in said("latest", "n1", "--", "ls")
    ended = kept_here(paths.root, boot="another")
    paths.keeper.write_text(ended.model_dump_json(), encoding="utf-8")
    assert "the kept cluster of log/20261121T104500Z-7 has ended" in said("latest", "n1")
    with subprocess.Popen(["sleep", "600"], env=os.environ | mark(paths.processes)) as agent:
        kept = kept_here(paths.kept, pid=agent.pid)
        paths.keeper.write_text(kept.model_dump_json(), encoding="utf-8")
        wait_until(lambda: environment_of(agent.pid), timeout_s=20, what="its environment")
        assert "name a command" in said("latest", "n1")
        assert "do not name a node" in said("latest", "n1", "--end")
        assert "there is no node n7" in said("latest", "n7", "--", "ls")
        agent.kill()
    paths.keeper.write_text("{", encoding="utf-8")
    assert "kept.json cannot be read" in said("latest", "n1")


def test_many_clusters_are_not_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store = ["--store", str(tmp_path)]
    assert exit_code(["scenario", "run", "--all", "--keep", *store]) == 254
    assert "--keep keeps one cluster" in capsys.readouterr().err


@pytest.mark.night
@pytest.mark.kafka
@pytest.mark.namespaces
@pytest.mark.timeout(LIMIT_S + 20)
def test_a_kept_cluster_answers_until_it_is_healed(tmp_path: Path) -> None:
    def logquake(*words: str) -> "subprocess.CompletedProcess[str]":
        name, *rest = words
        argv = [LOGQUAKE, name, "--store", str(tmp_path), *rest]
        return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN, encoding="utf-8")
    try:
        ran = logquake("run", str(plan), "--keep", "--engine", "local")
        assert "the cluster is kept" in ran.stdout, ran.stdout[-2000:] + ran.stderr[-2000:]
        paths = newest(tmp_path)
        evidence = snapshot_of(paths.nodes)
        cat = logquake("node", "latest", "n1", "--", "cat", "data/log-0-0/leader-epoch-checkpoint")
        assert cat.returncode == 0, cat.stderr
        assert cat.stdout.splitlines()[0] == "0"
        assert "0 0" in cat.stdout.splitlines()
        asked = logquake("node", "latest", "n1", "--", sys.executable, "-c", KNOCK)
        assert asked.stdout.strip() == "10.81.0.1 answers", asked.stderr
        assert logquake("node", "latest", "n1", "--", "false").returncode == 1
        assert snapshot_of(paths.nodes) == evidence
        listed = logquake("node", "latest").stdout
        assert re.fullmatch(rf"n1  10\.81\.0\.1:\d+  {paths.kept}/nodes/n1\n", listed)
    finally:
        healed = logquake("heal")
    assert "killed java of n1" in healed.stdout
    assert not running(paths.root)
    assert "has ended" in logquake("node", "latest", "n1", "--", "ls").stderr


KNOCK = (
    'import os, socket; host, port = os.environ["BROKER"].split(":");'
    ' socket.create_connection((host, int(port)), 5); print(host, "answers")'
)


def snapshot_of(folder: Path) -> dict[str, int]:
    """Return the sizes of all files below a folder."""
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
