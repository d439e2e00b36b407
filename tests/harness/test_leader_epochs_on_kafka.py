"""The divergence on real brokers, by both rules, and one form that nothing excuses.

What the logs and the checkpoint files hold at each step is compared with what is told; the loss
(`leader-epoch-1`) is played in `test_scenarios_on_kafka`.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from results.record.contents import message_name
from results.record.paths import RunPaths
from tests.harness.on_real_brokers import TEST_LIMIT_S, logquake

pytestmark = [pytest.mark.kafka, pytest.mark.namespaces, pytest.mark.timeout(TEST_LIMIT_S)]

Held = Mapping[tuple[str, str], list[str]]
"""The names of the messages by (step, node), in the order of their offsets."""


def held(paths: RunPaths) -> Held:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    rows = pq.read_table(paths.table("replica_records")).sort_by("offset").to_pylist()
    for row in rows:
        found[row["snapshot"], row["node"]].append(message_name(row["value"]))
    return found


def anomalies(paths: RunPaths) -> dict[str, list[dict[str, object]]]:
    verdict = json.loads(paths.verdict.read_text(encoding="utf-8"))
    return {name: each["examples"] for name, each in verdict["anomalies"].items()}


def checkpoint(paths: RunPaths, step: int, node: str, name: str) -> list[str]:
    """Return the lines of a small file at the end of a step, without version and count."""
    data = paths.snapshots / f"step-{step:02}" / node / "data"
    return (data / name).read_text(encoding="utf-8").split("\n")[2:-1]


def messages(*numbers: int) -> list[str]:
    return [f"message{number}" for number in numbers]


def test_by_the_high_watermark_rule_one_offset_keeps_two_messages(tmp_path: Path) -> None:
    code, said, paths = logquake(
        "scenario", "run", "leader-epoch-2", "--rule", "high-watermark", store=tmp_path
    )
    assert code == 1, said
    assert (
        "as expected: invalid with high-watermark-regression, inconsistent-offsets, log-divergence"
        " and lost-write, message2 is lost"
    ) in said
    logs = held(paths)
    assert (logs["step-03", "n1"], logs["step-03", "n2"]) == (messages(1, 2), messages(1))
    assert (logs["step-07", "n1"], logs["step-07", "n2"]) == (messages(1, 2), messages(1, 3))
    for step in ("step-08", "final"):
        assert (logs[step, "n1"], logs[step, "n2"]) == (messages(1, 2, 4), messages(1, 3, 4))
    for node in ("n1", "n2"):
        marks = checkpoint(paths, 8, node, "replication-offset-checkpoint")
        assert "peter-test01 0 3" in marks
    first = anomalies(paths)["log-divergence"][0]
    assert first["offset"] == 1
    assert "in the ISR" in str(first["sentence"])


@pytest.mark.night
def test_by_the_leader_epoch_rule_only_the_divergence_is_gone(tmp_path: Path) -> None:
    code, said, paths = logquake(
        "scenario", "run", "leader-epoch-2", "--rule", "leader-epoch", store=tmp_path
    )
    assert code == 0, said
    assert (
        "as expected: valid with committed-truncation, high-watermark-regression,"
        " incomplete-leader, inconsistent-offsets, log-divergence and lost-write, message2 is lost"
    ) in said
    logs = held(paths)
    assert (logs["step-06", "n1"], logs["step-06", "n2"]) == (messages(1, 2), messages(1, 3))
    epochs = "peter-test01-0/leader-epoch-checkpoint"
    assert checkpoint(paths, 6, "n1", epochs) == ["0 0", "1 1"]
    assert checkpoint(paths, 6, "n2", epochs) == ["0 0", "3 1"]
    for node in ("n1", "n2"):
        assert logs["step-08", node] == messages(1, 3, 4)
        assert checkpoint(paths, 8, node, epochs) == ["0 0", "3 1"]
    found = anomalies(paths)
    assert "n1 truncated offset 1" in str(found["lost-write"][0]["sentence"])
    assert "n1 dropped offset 1" in str(found["committed-truncation"][0]["sentence"])
    assert "in epoch 3, began without offset 1" in str(found["incomplete-leader"][0]["sentence"])


@pytest.mark.night
def test_without_any_excuse_100_offsets_differ_among_replicas_in_sync(tmp_path: Path) -> None:
    clean = ("--rule", "high-watermark", "--form", "clean", "--way", "restart")
    code, said, paths = logquake("scenario", "run", "leader-epoch-2", *clean, store=tmp_path)
    assert code == 1, said
    assert (
        "as expected: invalid with committed-truncation, high-watermark-regression,"
        " inconsistent-offsets, log-divergence, lost-write and offset-order"
    ) in said
    logs = held(paths)
    ours, others = messages(*range(1, 101)), messages(*range(101, 251))
    assert logs["step-02", "n3"] == ours
    assert logs["step-03", "n3"] == []
    assert logs["final", "n1"] == ours + others[100:]
    assert logs["final", "n2"] == logs["final", "n3"] == others
    first = anomalies(paths)["log-divergence"][0]
    assert first["offset"] == 0
    assert "differ at 100 offsets" in str(first["sentence"])
