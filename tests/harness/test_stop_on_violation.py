"""A run that is judged while it goes on: it ends with the first violation, and keeps its moment."""

import json
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from checkers.run import judge_runs
from cluster.hosts.choose import make_hosts
from cluster.kafka.cluster import KafkaCluster
from harness.arena import Arena
from harness.interrupt import Interrupts
from harness.progress import Progress, Snapshot
from harness.watcher import LOOKS
from harness.watching import Watching
from harness.world import RealWorld
from results.record.clock import RunClock, wait_until
from results.record.milestones import (
    STOPPED_ON,
    WATCHER_ENDED,
    Milestone,
    append_milestone,
    load_milestones,
)
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, plan_from
from results.record.terms import Validity
from results.samples import copy_sample, find_sample
from results.wording.headline import headline

LOGQUAKE = str(Path(sys.executable).parent / "logquake")
RUN_LIMIT_S = 300
WAIT_S = 60
PLAN = """
system = "reference"
hosts = "process"
acks = "1"
judge = "strict"
stop_on_violation = true
rate = 200
concurrency = 8
topics = 1
partitions = 2
warmup_s = 1
time_limit_s = 120
seed = 4
[minimums]
confirmed_faults = 0
[[faults]]
at_s = 1
kind = "isolate"
target = "leader(log-0,0)"
hold_s = 20
"""
"""The one that is cut off may lead the controllers, too: the others then elect twice."""


def played(tmp_path: Path, plan: str) -> tuple[subprocess.CompletedProcess[str], RunPaths]:
    (tmp_path / "plan.toml").write_text(plan)
    ended = subprocess.run(
        [LOGQUAKE, "run", str(tmp_path / "plan.toml"), "--engine", "local",
         "--store", str(tmp_path / "runs")],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=RUN_LIMIT_S, check=False,
    )  # fmt: skip
    (root,) = (tmp_path / "runs" / "log").iterdir()
    return ended, RunPaths(root)


@pytest.mark.night
@pytest.mark.timeout(RUN_LIMIT_S + 20)
def test_a_leader_that_was_cut_off_and_loses_what_it_acknowledged_ends_the_run(
    tmp_path: Path,
) -> None:
    ended, paths = played(tmp_path, PLAN)
    assert ended.returncode == 1, ended.stdout + ended.stderr[-3000:]
    reached = {each.name: each for each in load_milestones(paths.milestones)}
    stopped = reached[STOPPED_ON]
    assert stopped.detail["place"] in {"log-0-0", "log-0-1"}
    assert reached["main-ended"].at_ns - reached["main"].at_ns < 100e9
    assert {"healed", "recovered", "final-reads", "noted", "stopped"} <= reached.keys()
    verdict = json.loads(paths.verdict.read_text())
    name = stopped.detail["anomaly"]
    assert verdict["anomalies"][name]["count"] > verdict["anomalies"][name]["allowed"]
    assert verdict["stats"]["stopped_on_violation"]["anomaly"] == name
    assert f"because of {name} in {stopped.detail['place']}" in ended.stdout
    moment = paths.snapshots / "moment"
    told = json.loads((moment / "violation.json").read_text())
    assert told["name"] == name
    assert told["seen_ns"] > told["first_ns"]
    for node in ("n1", "n2", "n3"):
        assert list((moment / node / "data" / stopped.detail["place"]).glob("*.log"))
        assert (moment / node / "logs" / "server.log").exists()
    looks = [json.loads(each) for each in (paths.root / "looks.jsonl").read_text().splitlines()]
    assert len(looks) >= 2


def test_what_the_whole_record_does_not_show_is_a_bug_of_ours_and_never_valid(
    tmp_path: Path,
) -> None:
    paths = copy_sample(RunPaths(find_sample("valid")), tmp_path)
    stopped = {"anomaly": "lost-write", "place": "log-0-1", "sentence": "value 7 is gone"}
    append_milestone(
        paths.milestones, Milestone(name=STOPPED_ON, at_ns=20_000_000_000, detail=stopped)
    )
    (verdict,) = judge_runs([paths.root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    (why,) = verdict.unknown_because
    assert why.startswith("the run was stopped for lost-write in log-0-1")
    assert "value 7 is gone" in why
    said = headline(verdict).sentence
    assert said.startswith("Unknown: the run was stopped for lost-write")
    assert said.endswith("The run was stopped at 20.0 s because of lost-write in log-0-1.")


def test_a_watcher_that_died_at_the_very_end_is_told(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "log" / "run")
    (paths.root / LOOKS).mkdir(parents=True)  # Where it would note its looks: it ends at once.
    arena = Arena(
        plan=Plan(), paths=paths, clock=RunClock.starting_now(),
        progress=Progress(Console(quiet=True), Snapshot), interrupts=Interrupts(), undo=ExitStack(),
        world=RealWorld(),
    )  # fmt: skip
    arena.hosts = make_hosts("process", [], paths.processes)
    watching = Watching(arena, cast("KafkaCluster", SimpleNamespace(nodes=())))
    watching.start()
    wait_until(
        lambda: "watcher" not in {each.name for each in threading.enumerate()},
        timeout_s=WAIT_S,
        what="its end",
    )
    for _ in range(2):
        watching.stop()
    assert [each.name for each in load_milestones(paths.milestones)] == [WATCHER_ENDED]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"system": "reference", "hosts": "simulated"}, "a simulated run"),
        ({"judge": "jepsen"}, "whole histories"),
        ({"workload": "txn", "after_timeout": "go-on"}, "only the logs of stopped brokers"),
        ({"scenario": {"name": "quorum-failover"}, "workload": "script"}, "a scenario"),
    ],
)
def test_what_cannot_be_judged_meanwhile_is_refused(values: dict[str, object], why: str) -> None:
    with pytest.raises(PlanError, match=why):
        plan_from({"stop_on_violation": True, **values})
