"""A whole run on three machines with sshd: real Kafka, faults, a verdict, and nothing left."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from tests.ssh_lab import Lab

pytestmark = pytest.mark.everything


@pytest.mark.night
@pytest.mark.ssh
@pytest.mark.kafka
def test_a_run_on_ssh_hosts_is_valid_and_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    before = [machine.run("find", "/root", "/tmp") for machine in lab.machines]  # noqa: S108 - of a lab's machine
    program = str(Path(sys.executable).with_name("logquake"))
    argv = [program, "run", f"--hosts=ssh:{lab.hosts_file()}"]
    options = ["--time-limit=25", "--nemesis-interval=4", "--seed=3", "--engine=local"]
    options += ["--nemesis=partition,kill"]
    done = subprocess.run(
        [*argv, *options, f"--store={tmp_path}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (root,) = (tmp_path / "log").iterdir()
    paths = RunPaths(root)
    assert json.loads(paths.verdict.read_text())["valid"] == "valid"
    faults = pq.read_table(paths.table("faults")).to_pylist()
    confirmed = {fault["kind"] for fault in faults if fault["healed_ns"] is not None}
    assert confirmed >= {"kill", "isolate"}
    (audited,) = [each for each in load_milestones(paths.milestones) if each.name == "audited"]
    assert audited.detail == {}
    for node in ("n1", "n2", "n3"):
        logs = list((paths.node(node) / "data").glob("log-*/*.log"))
        assert sum(log.stat().st_size for log in logs) > 0, "its segments were brought here"
    for machine, files in zip(lab.machines, before, strict=True):
        assert machine.run("find", "/root", "/tmp") == files  # noqa: S108 - as above
        assert machine.run("nft", "list", "ruleset") == ""
        assert "java" not in machine.run("ps", "-eo", "args", "--no-headers")
