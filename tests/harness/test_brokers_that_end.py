"""Brokers that end in a run though no fault does that: who is to blame decides the verdict."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from cluster.hosts.ledger import read_ledger
from cluster.protocol import ProcessId
from results.record.clock import wait_until
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from tests.harness.commands import LOGQUAKE, RUN_LIMIT_S

PLAN = """
system = "reference"
hosts = "process"
faults = []
rate = 100
concurrency = 4
topics = 1
partitions = 2
warmup_s = 1
time_limit_s = 6
seed = 4
[minimums]
ok_sends = 20
ok_polls = 10
around_faults = 0
[budgets]
isr_s = 6
unavailable_s = 6
election_s = 6
"""


def broker_of(run: Path, node: str) -> ProcessId:
    (process,) = [
        line.process
        for line in read_ledger(RunPaths(run).processes)
        if line.node == node and line.process is not None
    ]
    return process


@pytest.mark.everything
@pytest.mark.timeout(RUN_LIMIT_S + 20)
@pytest.mark.parametrize(
    ("hit", "valid", "name"),
    [
        (signal.SIGSEGV, "invalid", "broker-ended"),
        (signal.SIGSTOP, "unknown", "broker-hit-from-outside"),
    ],
)
def test_who_ended_a_broker_decides_the_verdict(
    tmp_path: Path, hit: signal.Signals, valid: str, name: str
) -> None:
    plan, store = tmp_path / "plan.toml", tmp_path / "runs"
    plan.write_text(PLAN)
    with subprocess.Popen(
        [LOGQUAKE, "run", str(plan), "--engine", "local", "--json", "--store", str(store)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip

        def in_its_main_phase() -> Path | None:
            assert running.poll() is None, running.stderr and running.stderr.read()
            for milestones in store.glob("log/*/milestones.jsonl"):
                if any(each.name == "main" for each in load_milestones(milestones)):
                    return milestones.parent
            return None

        run = wait_until(in_its_main_phase, timeout_s=RUN_LIMIT_S, what="its main phase")
        os.kill(broker_of(run, "n2").pid, hit)
        stdout, stderr = running.communicate(timeout=RUN_LIMIT_S)
    verdict = json.loads(stdout)
    assert verdict["valid"] == valid, stdout + stderr[-3000:]
    assert name in verdict["anomalies"], stdout
    if valid == "unknown":
        assert any(why.startswith(name) for why in verdict["unknown_because"])
