"""Real Kafka that gets too little: brokers end for it, and the verdict blames nobody."""

import json
import os
import signal
from pathlib import Path

import pytest

from cluster.hosts.audit import local_traces
from cluster.hosts.ledger import read_ledger
from nemesis.registry import KINDS
from results.record.milestones import ENDED, load_milestones
from results.record.paths import RunPaths
from tests.harness.commands import RUN_LIMIT_S, why_not_valid
from tests.harness.meddling import in_its_main_phase, meddled_run
from tests.machine import needs

HANDLES, PROCESSOR, MEMORY = (name for name, each in KINDS.items() if each.family == "resources")
PLAN = f"""
hosts = "process"
rate = 100
topics = 1
partitions = 2
warmup_s = 1
time_limit_s = 60
seed = 28
[[faults]]
kind = "{HANDLES}"
target = "n1"
at_s = 1
hold_s = 10
[[faults]]
kind = "{MEMORY}"
target = "n2"
at_s = 35
hold_s = 10
"""
"""With this seed the crowd stays, and no memory is left, so that both brokers end."""
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.night,
    pytest.mark.timeout(RUN_LIMIT_S + 20),
    needs("cgroup"),
]


def _ends(run: RunPaths) -> list[dict[str, str]]:
    return [each.detail for each in load_milestones(run.milestones) if each.name == ENDED]


def test_brokers_that_halt_or_that_the_kernel_kills_are_excused(tmp_path: Path) -> None:
    verdict, run = meddled_run(PLAN, tmp_path, lambda _: None)
    assert verdict["valid"] == "valid", why_not_valid(verdict)
    assert [(each["node"], each["code"]) for each in _ends(run)] == [("n1", "1"), ("n2", "-9")]
    assert "Too many open files" in _ends(run)[0]["said"]
    assert local_traces(run.processes) == {}


def test_one_that_somebody_else_kills_meanwhile_is_not(tmp_path: Path) -> None:
    plan = PLAN.replace(MEMORY, PROCESSOR)

    def kill(run: RunPaths) -> None:
        (broker,) = [
            line.process
            for line in read_ledger(run.processes)
            if (line.node, line.what) == ("n2", "java") and line.process is not None
        ]
        os.kill(broker.pid, signal.SIGKILL)

    def is_starved(run: RunPaths) -> bool:
        lines = run.ledger.read_text().splitlines() if run.ledger.exists() else []
        return in_its_main_phase(run) and any(json.loads(each)["fault_id"] == 2 for each in lines)

    verdict, run = meddled_run(plan, tmp_path, kill, once=is_starved)
    assert verdict["valid"] == "unknown", why_not_valid(verdict)
    assert "broker-hit-from-outside" in json.dumps(verdict)
    assert ("n2", "-9") in [(each["node"], each["code"]) for each in _ends(run)]
