"""acks=all on one replica loses what no disk had yet when the power fails; flushed, it does not."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from results.record.paths import RunPaths
from tests.harness.commands import why_not_valid

LOGQUAKE = str(Path(sys.executable).parent / "logquake")
RUN_LIMIT_S = 240
pytestmark = [pytest.mark.everything, pytest.mark.kafka, pytest.mark.timeout(2 * RUN_LIMIT_S)]
ONE_REPLICA = """
seed = 1
nodes = 1
replication = 1
min_insync = 1
topics = 1
partitions = 2
nemesis = ["power-loss"]
time_limit_s = 20

[minimums]
around_faults = 0  # Nobody serves while the only broker is down, and on a busy machine it is slow.
ok_sends = 20
ok_polls = 20
"""


def logquake(*words: str, store: Path) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [LOGQUAKE, *words, "--engine", "local", "--json", "--store", str(store)],
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
    )
    told = json.loads(done.stdout)
    return done.returncode, told[0] if isinstance(told, list) else told


def plan_in(folder: Path) -> str:
    path = folder / "one-replica.toml"
    path.write_text(ONE_REPLICA, encoding="utf-8")
    return str(path)


def lost_writes(verdict: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = verdict["anomalies"].get("lost-write", {"count": 0})
    return found


@pytest.mark.night
def test_what_one_replica_lost_with_its_power_is_excused_by_it_and_by_nothing_else(
    tmp_path: Path,
) -> None:
    code, verdict = logquake("run", plan_in(tmp_path), store=tmp_path)
    lost = lost_writes(verdict)
    assert lost["count"] == lost["allowed"] == lost["trusted"] != 0
    assert (code, verdict["valid"]) == (0, "valid"), why_not_valid(verdict)
    example = lost["examples"][0]
    assert example["why"].startswith("allowed (power-loss): ")
    assert "is in no replica's log" in example["sentence"]
    code, strict = logquake("check", "latest", "--judge", "strict", store=tmp_path)
    assert (code, strict["valid"]) == (1, "invalid")
    assert (lost_writes(strict)["count"], lost_writes(strict)["allowed"]) == (lost["count"], 0)


@pytest.mark.night
def test_with_a_flush_at_each_message_nothing_is_lost(tmp_path: Path) -> None:
    flushing = ("--set", "log.flush.interval.messages=1", "--judge", "strict")
    code, verdict = logquake("run", plan_in(tmp_path), *flushing, store=tmp_path)
    assert (code, verdict["valid"]) == (0, "valid"), why_not_valid(verdict)
    assert verdict["anomalies"] == {}
    paths = RunPaths((tmp_path / "latest").resolve())
    assert "log.flush.interval.messages=1" in (paths.node("n1") / "server.properties").read_text()
