"""Whole runs on real Kafka by the command that a user types; the slowest tests of the house."""

import json
import re
from pathlib import Path

import pytest

from tests.harness.commands import (
    HERE,
    RUN_LIMIT_S,
    logquake,
    newest,
    reasons,
    running,
    verdict_of,
    why_not_valid,
)

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(RUN_LIMIT_S + 20)]

LEADERS_CUT = """
[[faults]]
at_s = 3
kind = "isolate"
target = "leader(log-0,0)"
hold_s = 7
[[faults]]
at_s = 14
kind = "kill"
target = "leader(log-0,1)"
hold_s = 5
"""

NOWHERE = """
nemesis = []
[client]
"broker.address.family" = "v6"  # Brokers have none.
[budgets]
unavailable_s = 3
"""
NOBODY_CUT = """
[[faults]]
at_s = 1
kind = "isolate"
target = "last-isr(log-0,0)"  # The ISR is full: there is no such broker.
hold_s = 1
"""


def test_a_run_with_faults_is_valid_and_the_other_engine_says_the_same(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    # On a slow machine a cluster comes to itself between two faults only if they are far apart.
    plan.write_text("time_limit_s = 40\nnemesis_interval_s = 12\nseed = 3\n", encoding="utf-8")
    done = logquake("run", str(plan), "--json", store=tmp_path)
    verdict = verdict_of(done)
    assert (done.returncode, verdict["valid"]) == (0, "valid"), why_not_valid(verdict)
    paths = newest(tmp_path)
    stored = json.loads(paths.verdict.read_text(encoding="utf-8"))
    assert stored["engine"] == "spark"
    (again,) = json.loads(logquake("check", "latest", *HERE, "--json", store=tmp_path).stdout)
    assert again["engine"] == "local"
    assert again["anomalies"] == stored["anomalies"]
    assert not running(paths.root)
    page = paths.report.read_text(encoding="utf-8")
    assert "valid" in page
    assert not re.search(r'(src|href)="https?://', page)


@pytest.mark.night
def test_acknowledged_messages_that_acks_1_lost_are_found(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'warmup_s = 1\ntime_limit_s = 25\nseed = 5\nacks = "1"\njudge = "strict"\n{LEADERS_CUT}',
        encoding="utf-8",
    )
    done = logquake("run", str(plan), *HERE, "--json", store=tmp_path)
    verdict = verdict_of(done)
    assert done.returncode == 1, done.stderr[-3000:]
    lost = verdict["anomalies"]["lost-write"]  # type: ignore[index]  # JSON
    assert lost["count"] > 0
    assert lost["trusted"] == lost["count"]
    assert lost["allowed"] == 0
    sentence = lost["examples"][0]["sentence"]
    assert re.search(r"value \d+", sentence)
    assert re.search(r"offset \d+ of log-\d+-\d+", sentence)
    assert "epoch" in sentence
    contract = ("--judge", "contract", *HERE)
    by_contract = logquake("check", "latest", *contract, "--json", store=tmp_path)
    allowed = json.loads(by_contract.stdout)[0]["anomalies"]["lost-write"]
    assert by_contract.returncode == 0, by_contract.stdout[-3000:]
    assert allowed["allowed"] == allowed["count"] == lost["count"]


@pytest.mark.night
def test_a_run_with_hardly_any_traffic_and_a_nemesis_that_could_do_nothing_is_unknown(
    tmp_path: Path,
) -> None:
    plan = tmp_path / "plan.toml"
    # Of many partitions some would not get their message, for which the end of the run waits.
    one = "topics = 1\npartitions = 1"
    plan.write_text(f"time_limit_s = 5\nwarmup_s = 1\nrate = 1\n{one}\n{NOBODY_CUT}")
    done = logquake("run", str(plan), *HERE, "--json", store=tmp_path)
    verdict = verdict_of(done)
    assert done.returncode == 2, done.stderr[-3000:]
    assert verdict["valid"] == "unknown"
    assert "not-enough-traffic" in reasons(verdict)
    assert "fault-without-effect" in reasons(verdict)


@pytest.mark.night
def test_a_run_whose_brokers_no_client_can_reach_is_never_valid_and_loses_nothing(
    tmp_path: Path,
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f"time_limit_s = 5\nwarmup_s = 1\n{NOWHERE}", encoding="utf-8")
    done = logquake("run", str(plan), *HERE, "--json", store=tmp_path)
    verdict = verdict_of(done)
    assert "0 ok sends in the main phase" in reasons(verdict), done.stderr[-3000:]
    # Who looked long enough knows that nothing is taken, otherwise it is a gap.
    seen = {name for name, each in verdict["anomalies"].items() if each["count"]}  # type: ignore[attr-defined]  # JSON
    liveness = seen & {"unavailable"}
    assert seen - liveness <= {"not-enough-traffic", "final-read-incomplete"}
    assert verdict["valid"] == ("invalid" if liveness else "unknown")
    assert done.returncode == (1 if liveness else 2)
