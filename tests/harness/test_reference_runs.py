"""Whole runs of the reference cluster, by the command that a user types: no Java is needed."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cluster.protocol import UserError
from cluster.systems.registry import system_of
from harness.elsewhere import refuse_elsewhere
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.plan import PlanError, plan_from

LOGQUAKE = str(Path(sys.executable).parent / "logquake")
RUN_LIMIT_S = 240
PLAN = """
system = "reference"
hosts = "process"
rate = 100
concurrency = 8
topics = 1
warmup_s = 1
time_limit_s = 8
seed = 4
[minimums]
ok_sends = 20
ok_polls = 10
around_faults = 0
[[faults]]
at_s = 1
kind = "kill"
target = "leader(log-0,0)"
hold_s = 2
"""


def logquake(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LOGQUAKE, *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=RUN_LIMIT_S,
        check=False,
    )


@pytest.mark.timeout(RUN_LIMIT_S + 20)
def test_a_run_whose_leader_is_killed_keeps_every_promise(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    ended = logquake(
        "run", str(plan), "--engine", "local", "--json", "--store", str(tmp_path / "runs")
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3000:]
    assert json.loads(ended.stdout)["valid"] == "valid"
    (run,) = (tmp_path / "runs" / "log").iterdir()
    for node in ("n1", "n2", "n3"):
        assert list((run / "nodes" / node / "data").glob("log-0-*/*.log"))
        assert (run / "nodes" / node / "logs" / "server.log").exists()
    assert (run / "report.html").exists()


@pytest.mark.night
@pytest.mark.timeout(RUN_LIMIT_S + 20)
def test_faults_wait_for_a_message_and_the_end_waits_for_one_in_every_partition(
    tmp_path: Path,
) -> None:
    """At three operations a second, three seconds of traffic cannot reach six partitions, and a
    fault at once would come before the first message.
    """
    plan = tmp_path / "plan.toml"
    long = "\n[budgets]\nunavailable_s = 60\n"
    slow = PLAN.replace("rate = 100", "rate = 3\npartitions = 6")
    slow = slow.replace("warmup_s = 1", "warmup_s = 0").replace("at_s = 1", "at_s = 0")
    plan.write_text(slow.replace("around_faults = 0", "around_faults = 2") + long)
    ended = logquake(
        "run", str(plan), "--engine", "local", "--json", "--store", str(tmp_path / "runs")
    )
    (run,) = (tmp_path / "runs" / "log").iterdir()
    paths = RunPaths(run)
    times = {each.name: each.at_ns for each in load_milestones(paths.milestones)}
    sends = pq.read_table(paths.table("sends"), columns=["partition", "acked", "complete_ns"])
    acked = [row for row in sends.to_pylist() if row["acked"]]
    (kill,) = pq.read_table(paths.table("faults"), columns=["requested_ns"]).to_pylist()
    assert sum(row["complete_ns"] < kill["requested_ns"] for row in acked) >= 2
    taken = {row["partition"] for row in acked if row["complete_ns"] >= times["healed"]}
    assert taken == set(range(6)), ended.stdout + ended.stderr[-3000:]
    assert not any(
        "accepted no message" in each for each in json.loads(ended.stdout)["unknown_because"]
    )


@pytest.mark.timeout(RUN_LIMIT_S + 20)
def test_the_article_s_loss_happens_on_processes_that_cut_their_links(tmp_path: Path) -> None:
    words = ("leader-epoch-1", "--rule", "high-watermark", "--system", "reference")
    ended = logquake(
        "scenario", "run", *words, "--hosts", "process", "--engine", "local",
        "--store", str(tmp_path),
    )  # fmt: skip
    assert ended.returncode == 1, ended.stdout + ended.stderr[-3000:]
    said = " ".join(ended.stdout.split())
    assert "as expected: invalid with committed-truncation" in said
    assert "NOT as expected" not in said
    rows = pq.read_table((tmp_path / "latest").resolve() / "record" / "faults.parquet").to_pylist()
    (cut,) = (row for row in rows if row["kind"] == "cut")
    from_a, from_b = json.loads(cut["effect"])["links"]
    assert (from_a["before"], from_a["during"]) == (True, False)
    assert (from_b["before"], from_b["during"]) == (True, True)
    (joined,) = json.loads(cut["heal_effect"])["links"]
    assert joined["after"]


@pytest.mark.parametrize(
    ("values", "keep", "sentence"),
    [
        ({"hosts": "docker", "image": "x"}, False, "this machine's Python"),
        ({"hosts": "ssh:hosts.toml"}, False, "this machine's Python"),
        ({"bug": "no-such-bug"}, False, "truncate-to-high-watermark"),
        ({}, True, "cannot be kept"),
    ],
)
def test_what_the_reference_cluster_cannot_do_is_refused(
    *, values: dict[str, object], keep: bool, sentence: str
) -> None:
    plan = plan_from({"system": "reference", **values})
    with pytest.raises(UserError, match=sentence):
        refuse_elsewhere(plan, system_of(plan), keep=keep)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"bug": "ack-before-commit"}, "use --system reference"),
        ({"system": "reference", "workload": "txn"}, "does not support transactions"),
        ({"system": "reference:zookeeper"}, "Or name reference, attached:"),
    ],
)
def test_plans_that_contradict_themselves_are_refused(
    values: dict[str, object], sentence: str
) -> None:
    with pytest.raises(PlanError, match=sentence):
        plan_from(values)
