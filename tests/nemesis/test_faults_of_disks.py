"""Faults of processes and disks on real brokers: seen from outside, and gone after the heal."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.hosts.namespace import enter_prefix

pytestmark = [pytest.mark.kafka, pytest.mark.namespaces, pytest.mark.timeout(480)]
LIMIT_S = 420


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("log") / "run"
    (folder / "record" / "live").mkdir(parents=True)
    script = Path(__file__).with_name("in_a_hub_with_kafka.py")
    done = subprocess.run(
        [*enter_prefix(), sys.executable, str(script), str(folder)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert isinstance(told, dict)
    return told


def test_a_power_loss_cuts_the_log_and_the_replica_gets_it_again(seen: dict[str, Any]) -> None:
    fault = seen["power-loss"]
    (replica,) = fault["effect"]["replicas"]
    before, during, after = (int(fault[when]["size"]) for when in ("before", "during", "after"))
    assert during == before - replica["bytes_cut"] < before
    assert fault["during"]["brokers"] == []
    assert after == before
    assert fault["before"]["differs"] == fault["after"]["differs"] == 0
    assert len(fault["after"]["brokers"]) == 1
    assert fault["after"]["brokers"] != fault["before"]["brokers"]


def test_a_flipped_bit_is_one_byte_that_differs_and_is_put_right(seen: dict[str, Any]) -> None:
    fault = seen["latent"]
    assert fault["effect"]["latent"]
    assert [fault[when]["differs"] for when in ("before", "during", "after")] == [0, 1, 0]
    assert fault["healed"]["flipped_back"] == ["story-0"]
    assert fault["during"]["brokers"] != fault["before"]["brokers"]
    assert fault["undo"] == ["flip-back", "restart"]


def test_a_broker_that_was_killed_finds_the_flipped_bit_itself(seen: dict[str, Any]) -> None:
    fault = seen["noticed"]
    assert not fault["effect"]["latent"]
    assert "CRC" in fault["effect"]["found"][0]
    assert "Found invalid messages in log segment" in seen["said"]
    assert fault["after"]["differs"] == 0
    assert fault["after"]["size"] == fault["before"]["size"]


def test_a_wiped_replica_is_gone_and_fetched_again(seen: dict[str, Any]) -> None:
    fault = seen["wipe"]
    assert "story-0" in fault["before"]["folders"].split()
    during = fault["during"]["folders"].split()
    assert "story-0" not in during
    assert ".kafka_cleanshutdown" not in during
    assert {"meta.properties", "__cluster_metadata-0"} <= set(during)
    assert fault["after"]["differs"] == 0
    assert fault["after"]["size"] == fault["before"]["size"]
    assert fault["healed"]["refetched"] == ["story-0"]
    assert fault["healed"]["missing"] == []
    (replica,) = fault["effect"]["replicas"]
    assert fault["healed"]["log_ends"] == {"story-0": replica["log_end"]}


def test_a_full_disk_takes_no_page_and_ends_the_broker(seen: dict[str, Any]) -> None:
    fault = seen["disk-full"]
    assert int(fault["before"]["free"]) > 0 == int(fault["during"]["free"])
    assert (fault["before"]["write"], fault["after"]["write"]) == ("", "")
    assert "No space left on device" in fault["during"]["write"]
    assert fault["effect"]["ended"] == ["n2"]
    assert fault["during"]["brokers"] == []
    assert len(fault["after"]["brokers"]) == 1
    assert int(fault["after"]["free"]) > 0


def test_a_read_only_disk_takes_nothing_and_no_broker_starts_on_it(seen: dict[str, Any]) -> None:
    fault = seen["read-only"]
    assert (fault["before"]["write"], fault["after"]["write"]) == ("", "")
    assert "Read-only file system" in fault["during"]["write"]
    assert fault["during"]["brokers"] == []
    assert list(fault["effect"]["refused"]) == ["n3"]
    assert len(fault["after"]["brokers"]) == 1


def test_a_rolling_restart_leaves_other_processes_and_the_same_logs(seen: dict[str, Any]) -> None:
    fault = seen["rolling"]
    assert fault["during"]["brokers"] == [fault["effect"]["restarts"][0]["pid"]]
    assert fault["before"]["brokers"] == [fault["effect"]["restarts"][0]["pid_before"]]
    assert [each["graceful"] for each in fault["effect"]["restarts"]] == [True, True]
    assert fault["after"]["brokers"] == fault["during"]["brokers"]
    assert fault["after"]["differs"] == 0


def test_nothing_is_lost_and_the_files_are_brought_back(seen: dict[str, Any]) -> None:
    assert seen["read"] == [f"message{number}" for number in range(1, 7 * 40 + 1)]
    assert set(seen["collected"]) == {int(seen["rolling"]["after"]["size"])}
