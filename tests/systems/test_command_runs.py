"""Whole runs of kfake, which nobody here wrote, on each kind of hosts."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from tests.docker_lab import daemon
from tests.images.java_image import java_image
from tests.machine import needs
from tests.ssh_lab import Lab

LOGQUAKE = str(Path(sys.executable).parent / "logquake")
RUN_LIMIT_S = 400
PLAN = """
rate = 60
concurrency = 4
workers = 1
topics = 1
partitions = 2
warmup_s = 1
time_limit_s = 8
seed = 3
[minimums]
ok_sends = 50
ok_polls = 20
[[faults]]
at_s = 1
kind = "pause"
target = "n1"
hold_s = 1
"""
CLIENT_CUT = """
[[faults]]
at_s = 5
kind = "client-cut"
target = "n2"
hold_s = 1
"""
ALL = ["n0", "n1", "n2"]
pytestmark = [needs("go"), pytest.mark.timeout(RUN_LIMIT_S + 60)]


def played(folder: Path, kfake: Path, *words: str, plan: str) -> Mapping[str, list[str]]:
    """Play a run that is valid; return the nodes that each kind of fault hit."""
    (folder / "plan.toml").write_text(plan, encoding="utf-8")
    argv = [LOGQUAKE, "run", str(folder / "plan.toml"), "--engine", "local"]
    argv += ["--store", str(folder / "store"), "--system", f"command:{kfake}", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "Valid, as far as clients can see: this system's replica logs," in done.stdout
    paths = RunPaths((folder / "store" / "latest").resolve())
    (audited,) = [each for each in load_milestones(paths.milestones) if each.name == "audited"]
    assert audited.detail == {}
    brokers = json.loads(paths.environment.read_text())["brokers"]
    assert brokers["version"].startswith("kfake")
    assert len(brokers["programs"]["kfake"]) == 64
    faults = pq.read_table(paths.table("faults")).to_pylist()
    assert all(fault["healed_ns"] >= 0 for fault in faults)
    return {fault["kind"]: sorted(fault["targets"]) for fault in faults}


@pytest.mark.night
@pytest.mark.namespaces
def test_of_one_process_all_brokers_are_cut_off(tmp_path: Path, kfake: Path) -> None:
    hit = played(tmp_path, kfake, "--hosts", "namespace", plan=PLAN + CLIENT_CUT)
    assert hit == {"pause": ALL, "client-cut": ALL}


@pytest.mark.night
@pytest.mark.docker
def test_in_containers(tmp_path: Path, kfake: Path) -> None:
    with daemon():
        words = ("--hosts", "docker", "--image", java_image())
        hit = played(tmp_path, kfake, *words, plan=PLAN + CLIENT_CUT)
    assert hit == {"pause": ALL, "client-cut": ALL}


@pytest.mark.night
@pytest.mark.ssh
def test_on_machines_with_sshd(tmp_path: Path, kfake: Path) -> None:
    with Lab(tmp_path / "lab") as lab, lab.inside():
        hit = played(tmp_path, kfake, f"--hosts=ssh:{lab.hosts_file()}", plan=PLAN)
    assert hit == {"pause": ALL}
