"""Brokers that end in a run though no fault does that: who is to blame decides the verdict."""

import os
import signal
from pathlib import Path

import pytest

from cluster.hosts.ledger import read_ledger
from cluster.protocol import ProcessId
from results.record.paths import RunPaths
from tests.harness.commands import RUN_LIMIT_S, why_not_valid
from tests.harness.meddling import meddled_run

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


def broker_of(run: RunPaths, node: str) -> ProcessId:
    (process,) = [
        line.process
        for line in read_ledger(run.processes)
        if line.node == node and line.process is not None
    ]
    return process


@pytest.mark.night
@pytest.mark.timeout(RUN_LIMIT_S + 20)
@pytest.mark.parametrize(
    ("hit", "valid", "how"),
    [
        (signal.SIGSEGV, "invalid", "was ended by SIGSEGV"),
        (signal.SIGKILL, "unknown", "was ended by SIGKILL"),
        (signal.SIGSTOP, "unknown", "was stopped (SIGSTOP)"),
    ],
)
def test_who_ended_a_broker_decides_the_verdict(
    tmp_path: Path, hit: signal.Signals, valid: str, how: str
) -> None:
    verdict, _run = meddled_run(PLAN, tmp_path, lambda run: os.kill(broker_of(run, "n2").pid, hit))
    assert verdict["valid"] == valid, why_not_valid(verdict)
    name = "broker-ended" if valid == "invalid" else "broker-hit-from-outside"
    (example,) = verdict["anomalies"][name]["examples"]
    assert f"n2 {how}, and no fault had caused this" in example["sentence"]
    if valid == "unknown":
        assert any(why.startswith(name) for why in verdict["unknown_because"])
