"""Failures of real Kafka that no fault of the run caused: each has a verdict and an anomaly."""

import json
import re
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from results.record.paths import RunPaths
from tests.harness.commands import HERE, RUN_LIMIT_S, logquake, newest, verdict_of, why_not_valid
from tests.harness.java_agents import agent_jar, agent_options
from tests.harness.meddling import meddled_run
from tests.machine import needs

pytestmark = [pytest.mark.night, pytest.mark.kafka, pytest.mark.timeout(RUN_LIMIT_S + 20)]
PLANS = Path(__file__).parents[2] / "docs" / "plans"
NOTICED_S = 60
REQUEST_BYTES = 100 << 20
"""The most that a broker takes by default (`socket.request.max.bytes`)."""
SHORT = """
hosts = "process"
topics = 1
warmup_s = 1
delivery_timeout_s = 6
seed = 16  # The first member of a group ends late: the group has come to stay.
[minimums]
ok_sends = 10
ok_polls = 5
around_faults = 0
"""
OUT_OF_MEMORY = f"""
heap_mb = 80  # Less than one request may have.
nodes = 1
replication = 1
min_insync = 1
partitions = 2
faults = []
rate = 50
concurrency = 4
time_limit_s = 4
{SHORT}
"""
DEADLOCK = f"""
faults = []
partitions = 3
rate = 50
concurrency = 6
time_limit_s = 4
{SHORT}
[budgets]
heal_s = 6  # The broker will not come back, and each of these is waited for.
isr_s = 6
unavailable_s = 6
election_s = 6
"""
FORGOTTEN = f"""
system = "kafka:4.3.1:controllers"
workload = "groups"
group_protocol = "classic"
controllers = 1
nodes = 2
replication = 2
partitions = 2
rate = 100
workers = 1
concurrency = 8
time_limit_s = 9
faults = [{{at_s = 6, kind = "stop", target = "all", hold_s = 2.5}}]
{SHORT}
"""
OFFSETS = "__consumer_offsets-*"


def examples(verdict: dict[str, Any], name: str) -> list[dict[str, Any]]:
    assert name in verdict["anomalies"], why_not_valid(verdict)
    found: list[dict[str, Any]] = verdict["anomalies"][name]["examples"]
    return found


def judged_again(run: RunPaths, judge: str) -> dict[str, Any]:
    done = logquake(
        "check", str(run.root), "--judge", judge, *HERE, "--json", store=run.root.parent
    )
    (verdict,) = json.loads(done.stdout)
    return dict(verdict)


def address_of(run: RunPaths, node: str) -> tuple[str, int]:
    settings = (run.node(node) / "server.properties").read_text(encoding="utf-8")
    settings = settings.replace("\\:", ":")
    found = re.search(r"^listeners=BROKER://([\d.]+):(\d+)", settings, re.MULTILINE)
    assert found, settings
    return found[1], int(found[2])


def announce_a_large_request(run: RunPaths) -> None:
    """Say that 100 MiB follow: a broker takes memory for a request as soon as it knows its size."""
    with socket.create_connection(address_of(run, "n1"), timeout=NOTICED_S) as line:
        line.sendall(struct.pack(">i", REQUEST_BYTES))
        with suppress(ConnectionResetError):
            assert line.recv(1) == b"", "the broker has ended, and its connections with it"


def test_a_broker_that_runs_out_of_memory_is_the_broker_s_own_failure(tmp_path: Path) -> None:
    verdict, _run = meddled_run(OUT_OF_MEMORY, tmp_path, announce_a_large_request)
    assert verdict["valid"] == "invalid", why_not_valid(verdict)
    (end,) = examples(verdict, "broker-ended")
    assert end["evidence"]["node"] == "n1"
    assert "exit code 3" in end["sentence"]
    assert "java.lang.OutOfMemoryError" in end["sentence"]


@needs("compiler")
def test_request_handlers_that_deadlock_are_named_by_the_stacks(tmp_path: Path) -> None:
    trigger = tmp_path / "trigger"
    verdict, _run = meddled_run(
        DEADLOCK,
        tmp_path,
        lambda _run: trigger.touch(),
        environment=agent_options(agent_jar("Deadlock", tmp_path), f"n2={trigger}"),
    )
    assert verdict["valid"] == "invalid", why_not_valid(verdict)
    (outage,) = examples(verdict, "unavailable")
    (told,) = outage["evidence"]["stacks"]
    assert told.startswith("n2: deadlock: ")
    handler = r"(data-plane-kafka-request-handler-\d)"
    waits = set(re.findall(rf"{handler} waits for {handler}", told))
    assert any((other, one) in waits for one, other in waits)
    assert told in outage["sentence"]


def all_have_stopped(run: RunPaths) -> bool:
    return all((run.node(node) / "data" / ".kafka_cleanshutdown").exists() for node in ("n1", "n2"))


def cut_the_offsets(run: RunPaths) -> None:
    """Empty the log of groups' positions on every replica; Kafka makes indexes again."""
    for folder in run.nodes.glob(f"*/data/{OFFSETS}"):
        for log in folder.glob("*.log"):
            log.write_bytes(b"")
            for suffix in (".index", ".timeindex"):
                log.with_suffix(suffix).unlink(missing_ok=True)


def test_positions_that_every_replica_forgot_are_lost_by_every_judge(tmp_path: Path) -> None:
    verdict, run = meddled_run(FORGOTTEN, tmp_path, cut_the_offsets, once=all_have_stopped)
    assert verdict["valid"] == "invalid", why_not_valid(verdict)
    assert set(verdict["anomalies"]) == {"commit-lost"}, why_not_valid(verdict)
    assert "had committed nothing of log-0-" in examples(verdict, "commit-lost")[0]["sentence"]
    assert judged_again(run, "strict")["valid"] == "invalid"


def test_positions_whose_only_replica_lost_its_power_are_lost_only_strictly(tmp_path: Path) -> None:
    played = logquake("run", str(PLANS / "commits-lost.toml"), *HERE, "--json", store=tmp_path)
    verdict: dict[str, Any] = verdict_of(played)
    assert verdict["valid"] == "invalid", why_not_valid(verdict)
    # Whoever gets such a partition begins anew, and may have read further before.
    found = set(verdict["anomalies"]) - {"nonmonotonic-poll"}
    assert found == {"commit-lost"}, why_not_valid(verdict)
    again = judged_again(newest(tmp_path), "contract")
    assert again["valid"] == "valid", why_not_valid(again)
    lost = again["anomalies"]["commit-lost"]
    assert lost["count"] == lost["allowed"] > 0
