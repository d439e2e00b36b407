"""Nodes of ZooKeeper's, controllers of their own, and copies that a step made of live nodes."""

import shutil
from pathlib import Path

import pytest

from cluster.files.metadata_names import metadata_record_names
from cluster.files.replica import read_node, read_step
from results.record.tables import LIVE

DATA = Path(__file__).parent / "data"
Rows = list[dict[str, object]]
SEGMENT = "00000000000000000000.log"


def read(folder: Path, *, step: str = "") -> tuple[dict[str, Rows], list[str]]:
    problems: list = []  # type: ignore[type-arg]  # Problems of the readers.
    tables: dict[str, Rows] = {}
    reader = read_step if step else read_node
    for table, batch in reader(
        folder, node=folder.name, snapshot=step or "final", problems=problems
    ):
        assert batch.schema == LIVE[table]
        tables.setdefault(table, []).extend(batch.to_pylist())
    return tables, [str(each) for each in problems]


@pytest.fixture(name="node")
def zookeepers_node(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "zookeeper" / "n1", tmp_path / "n1"))


def test_a_broker_with_zookeeper_and_old_messages_lacks_nothing(node: Path) -> None:
    rows, problems = read(node)
    assert problems == []
    assert {row["leader_epoch"] for row in rows["replica_records"]} == {-1}
    assert len(rows["replica_records"]) == 23 + 3
    states = {row["topic"]: row for row in rows["replica_states"]}
    assert (states["t"]["log_end_offset"], states["t"]["high_watermark"]) == (3, 3)
    assert (states["t"]["epochs"], states["t"]["topic_id"]) == ([], None)
    (cut,) = rows["truncations"]
    assert (cut["from_offset"], cut["to_offset"]) == (3, None)
    assert cut["reason"] == "follower of broker 3: the leader's log ends at offset 3"
    assert [row["leader"] for row in rows["leadership"]] == [1, 2, 3, 3, 1]
    assert rows["quorum_states"] == []


def test_epochs_are_missed_where_records_have_them(node: Path) -> None:
    newer = DATA / "n2" / "data" / "log-1-0" / SEGMENT
    shutil.copy(newer, node / "data" / "t-0" / SEGMENT)
    rows, problems = read(node)
    states = {row["topic"]: row for row in rows["replica_states"]}
    assert (states["t"]["epochs"], problems) == ([], []), "after a clean stop their check says so"
    (node / "data" / ".kafka_cleanshutdown").unlink()
    _, problems = read(node)
    assert problems == ["n1: data/t-0/leader-epoch-checkpoint: the file is missing"]


def test_a_controller_of_its_own_has_the_metadata_log_only(tmp_path: Path) -> None:
    node = tmp_path / "n102"
    for name in ("__cluster_metadata-0", "meta.properties"):
        source, target = DATA / "n2" / "data" / name, node / "data" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    (node / "logs").mkdir()
    (node / "logs" / "server.log").write_text("[2026-11-30 06:00:00,000] INFO it started\n")
    rows, problems = read(node)
    assert problems == []
    assert [row["topic"] for row in rows["replica_states"]] == ["__cluster_metadata"]
    assert len(rows["quorum_states"]) == 1
    assert {row["topic"] for row in rows["replica_records"]} == {"__cluster_metadata"}


def test_a_kraft_broker_must_have_what_a_controller_need_not(tmp_path: Path) -> None:
    node = Path(shutil.copytree(DATA / "n2", tmp_path / "n2"))
    (node / "data" / "replication-offset-checkpoint").unlink()
    (node / "data" / "txn-0" / "partition.metadata").unlink()
    _, problems = read(node)
    assert [each.partition(": the")[0] for each in problems] == [
        "n2: data/replication-offset-checkpoint",
        "n2: data/txn-0/partition.metadata",
    ]


def test_a_step_has_states_and_records_only(node: Path) -> None:
    rows, problems = read(node, step="step-03")
    assert problems == []
    assert set(rows) == {"replica_records", "replica_states"}
    assert {row["snapshot"] for part in rows.values() for row in part} == {"step-03"}
    quorum, problems = read(DATA / "n2", step="step-03")
    assert problems == []
    assert set(quorum) == {"replica_records", "replica_states", "quorum_states"}


def test_a_copy_of_a_live_log_may_end_within_a_batch(node: Path) -> None:
    segment = node / "data" / "t-0" / SEGMENT
    segment.write_bytes(segment.read_bytes()[:-3])
    rows, problems = read(node, step="step-03")
    assert problems == []
    (state,) = [row for row in rows["replica_states"] if row["topic"] == "t"]
    assert state["log_end_offset"] == 2
    _, problems = read(node)
    assert len(problems) == 1
    assert "torn batch" in problems[0]


def test_a_flipped_bit_in_a_copy_is_told_all_the_same(node: Path) -> None:
    segment = node / "data" / "t-0" / SEGMENT
    data = bytearray(segment.read_bytes())
    data[30] ^= 1
    segment.write_bytes(data)
    _, problems = read(node, step="step-03")
    assert len(problems) == 1
    assert "CRC" in problems[0]


def test_the_quorums_states_are_read_from_its_logs(tmp_path: Path) -> None:
    node = Path(shutil.copytree(DATA / "n2", tmp_path / "n2"))
    shutil.copy(DATA / "lines" / "4.3.1-quorum.log", node / "logs" / "server.log")
    rows, problems = read(node)
    assert problems == []
    logged = rows["quorum_states"][1:]
    assert [row["role"] for row in logged][:4] == ["unattached", "unattached", "voted", "follower"]
    assert {row["observed_ns"] for row in logged} == {None}
    granted = [row for row in logged if row["role"] is None]
    assert [(row["epoch"], row["voted_for"]) for row in granted] == [(1, 2), (2, 3)]
    cuts = {(row["topic"], row["from_offset"]) for row in rows["truncations"]}
    assert ("__cluster_metadata", 289) in cuts


def test_records_of_the_metadata_log_have_names() -> None:
    log = (DATA / "n2" / "data" / "__cluster_metadata-0" / SEGMENT).read_bytes()
    named = metadata_record_names(log)
    assert named[0] == (0, 1, "LeaderChange")
    assert [each.offset for each in named] == list(range(len(named)))
    topics = [each.name for each in named if each.name.startswith("TopicRecord")]
    assert "TopicRecord log-0" in topics
    assert not any("type" in each.name or each.name == "unreadable" for each in named)
    assert len(metadata_record_names(log[:-1])) < len(named)
