"""A whole node's folder: everything is read, and nothing that is broken stops the rest."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from cluster.files.batches import Record, read_segment
from cluster.files.damage import Problem
from cluster.files.group_offsets import Committed, Place, position_of
from cluster.files.replica import clean_shutdown, read_node
from cluster.files.rows import Replica, replica_records
from cluster.reference.broker.offsets import offsets_batch
from results.record.tables import LIVE
from results.record.values import pack_value

NODE = Path(__file__).parent / "data" / "n2"
METADATA_LOG = Path("data/__cluster_metadata-0/00000000000000000000.log")
SNAPSHOT_END = 1821

Rows = list[dict[str, object]]


def read(folder: Path) -> tuple[dict[str, Rows], list[Problem]]:
    problems: list[Problem] = []
    tables: dict[str, list[pa.RecordBatch]] = {}
    for table, batch in read_node(folder, node="n2", snapshot="final", problems=problems):
        assert batch.schema == LIVE[table]
        tables.setdefault(table, []).append(batch)
    rows = {name: pa.Table.from_batches(parts).to_pylist() for name, parts in tables.items()}
    return rows, problems


def of(rows: Rows, topic: str) -> Rows:
    return [row for row in rows if row["topic"] == topic]


@pytest.fixture(name="node")
def copied_node(tmp_path: Path) -> Path:
    return Path(shutil.copytree(NODE, tmp_path / "n2"))


def test_a_whole_node_has_no_problem() -> None:
    rows, problems = read(NODE)
    assert problems == []
    assert set(rows) == {
        "leadership", "quorum_states", "replica_records", "replica_states", "truncations",
    }  # fmt: skip


@pytest.mark.parametrize("text", [None, ""])
def test_a_node_without_its_own_log_has_a_problem(node: Path, text: str | None) -> None:
    """Only this log tells of truncations, so a committed record may have been cut off unseen."""
    own = node / "logs" / "server.log"
    own.unlink()
    if text is not None:
        own.write_text(text)
    (problem,) = read(node)[1]
    assert problem.path == "logs/server.log"
    assert "this node's truncations are unknown" in problem.what


def test_records_of_a_replica() -> None:
    records = read(NODE)[0]["replica_records"]
    counts = {topic: len(of(records, topic)) for topic in ("codecs", "txn", "log-0", "log-1")}
    assert counts == {"codecs": 41, "txn": 15, "log-0": 70, "log-1": 26}
    assert of(records, "__consumer_offsets") == []
    after_the_election = of(records, "log-1")[20]
    assert after_the_election["offset"] == 20
    assert after_the_election["leader_epoch"] == 2
    assert after_the_election["value"] == 5 << 32 | 31, "31: ten that came between were dropped"
    assert after_the_election["topic_id"] == "4c0124e6-7b8c-48b3-bd95-c11ae7c9f164"
    assert (after_the_election["node"], after_the_election["snapshot"]) == ("n2", "final")


def test_records_of_the_quorums_log() -> None:
    records = of(read(NODE)[0]["replica_records"], "__cluster_metadata")
    assert [row["offset"] for row in records] == list(range(len(records)))
    assert {row["topic_id"] for row in records} == {"00000000-0000-0000-0000-000000000001"}
    begun = [(row["offset"], row["leader_epoch"]) for row in records if row["control"]]
    assert begun[0] == (0, 1), "a leader begins its epoch with a control record"
    assert [epoch for _, epoch in begun] == sorted(
        {int(str(row["leader_epoch"])) for row in records}
    )
    assert {row["value"] for row in records} == {None}, "controllers write no value of ours"
    assert len({row["record_hash"] for row in records if not row["control"]}) > 100


def test_transaction_markers_are_control_records_without_a_value() -> None:
    transaction = of(read(NODE)[0]["replica_records"], "txn")
    assert [row["offset"] for row in transaction if row["control"]] == [4, 9, 14]
    assert [row["offset"] for row in transaction if row["value"] is None] == [4, 9, 14]
    assert [row["sequence"] for row in transaction if not row["control"]] == list(range(12))


def test_the_state_of_a_replica() -> None:
    (state,) = of(read(NODE)[0]["replica_states"], "log-0")
    assert (state["log_start_offset"], state["log_end_offset"]) == (0, 70)
    assert (state["high_watermark"], state["high_watermark_source"]) == (70, "checkpoint")
    assert state["epochs"] == [
        {"epoch": epoch, "start_offset": start} for epoch, start in enumerate([0, 35, 45, 60])
    ]
    assert state["observed_ns"] is None


def test_the_state_of_the_quorum() -> None:
    rows, _ = read(NODE)
    (state,) = of(rows["replica_states"], "__cluster_metadata")
    assert state["high_watermark"] is None
    (quorum,) = rows["quorum_states"]
    assert (quorum["role"], quorum["epoch"], quorum["leader"]) == ("leader", 5, 2)
    assert quorum["log_end_offset"] == state["log_end_offset"]


def test_leadership_by_source() -> None:
    leadership = of(read(NODE)[0]["leadership"], "log-1")
    elections = [row for row in leadership if row["source"] == "metadata-log"]
    assert [row["leader"] for row in elections][:5] == [1, 2, 2, 2, 1]
    assert [row["log_offset"] for row in elections if row["unclean"]] == [246]
    believed = [row for row in leadership if row["source"] == "state-change-log"]
    assert {(row["leader"], row["leader_epoch"]) for row in believed} >= {(1, 0), (2, 1), (1, 2)}
    assert {row["log_offset"] for row in believed} == {None}
    assert {row["observed_ns"] for row in leadership} == {None}


def test_truncations() -> None:
    (truncation,) = read(NODE)[0]["truncations"]
    assert (truncation["topic"], truncation["from_offset"]) == ("log-1", 20)
    assert truncation["topic_id"] == "4c0124e6-7b8c-48b3-bd95-c11ae7c9f164"
    assert truncation["to_offset"] is None
    assert truncation["source"] == "server-log"


def test_an_event_in_two_logs_counts_once(node: Path) -> None:
    shutil.copy(node / "logs" / "server.log", node / "logs" / "console.log")
    assert len(read(node)[0]["truncations"]) == 1


def test_clean_shutdown(node: Path) -> None:
    assert clean_shutdown(node / "data")
    (node / "data" / ".kafka_cleanshutdown").unlink()
    assert not clean_shutdown(node / "data")


def every_file() -> list[str]:
    return sorted(str(path.relative_to(NODE)) for path in NODE.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", every_file())
def test_a_file_that_is_missing_costs_nothing_else(node: Path, name: str) -> None:
    (node / name).unlink()
    rows, problems = read(node)
    assert len(of(rows["replica_records"], "log-0")) == (0 if "log-0-0/0000" in name else 70)
    silent = ("logs/", ".kafka_cleanshutdown", ".log", ".checkpoint", "recovery-point")
    told_by_its_check = name.endswith("epoch-checkpoint") and "__cluster" not in name
    if not any(part in name for part in silent) and not told_by_its_check:
        assert [problem.path for problem in problems] == [name]
        assert "missing" in problems[0].what


def cuts(size: int) -> Iterator[int]:
    yield from {0, 1, size // 3, size // 2, size - 1}


@pytest.mark.parametrize("name", every_file())
def test_a_torn_file_never_stops_the_reading(node: Path, name: str) -> None:
    whole = (node / name).read_bytes()
    for cut in cuts(len(whole)):
        (node / name).write_bytes(whole[:cut])
        rows, problems = read(node)
        assert {problem.path for problem in problems} <= {name}
        assert len(rows["replica_records"]) > 0


@pytest.mark.parametrize("name", every_file())
def test_a_file_of_garbage_never_stops_the_reading(node: Path, name: str) -> None:
    (node / name).write_bytes(b"\xff\x00 garbage\n" * 20)
    rows, problems = read(node)
    assert {problem.path for problem in problems} <= {name}
    assert len(rows["replica_records"]) > 0
    if name.endswith("00.log"):
        assert problems[0].node == "n2"


def test_a_torn_segment_ends_the_replica_there_and_is_told(node: Path) -> None:
    segment = node / "data" / "log-0-0" / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-30])
    rows, problems = read(node)
    (state,) = of(rows["replica_states"], "log-0")
    assert state["log_end_offset"] == 60
    assert [problem.path for problem in problems] == ["data/log-0-0/00000000000000000000.log"]
    assert "torn batch" in str(problems[0])


def test_a_missing_node_is_one_problem_for_its_folder(tmp_path: Path) -> None:
    rows, problems = read(tmp_path / "n9")
    assert rows.get("replica_records") is None
    assert problems[0].path == "data"
    assert "missing" in problems[0].what


def test_deleted_stray_and_internal_partitions_are_left_out(node: Path) -> None:
    data = node / "data"
    for name in ("log-0-7.0a1b-delete", "log-0-7.0a1b-stray", "__consumer_offsets-0"):
        shutil.copytree(data / "log-0-0", data / name)
    rows, problems = read(node)
    assert problems == []
    assert {row["partition"] for row in of(rows["replica_states"], "log-0")} == {0}
    assert of(rows["replica_states"], "__consumer_offsets") == []


def commits(*positions: tuple[int, str], base: int = 0) -> bytes:
    made = [
        (
            Place(group="g", topic="log-0", partition=0),
            Committed(offset=offset, leader_epoch=1, metadata=metadata),
        )
        for offset, metadata in positions
    ]
    batch = bytearray(offsets_batch(made, time_ms=5))
    batch[:8] = base.to_bytes(8, "big")
    return bytes(batch)


def test_commits_of_the_groups_log(node: Path) -> None:
    folder = node / "data" / "__consumer_offsets-3"
    folder.mkdir()
    log = commits((7, "41"), (8, "42\0"), (9, "no op"), (10, "9" * 5000))
    (folder / f"{0:020}.log").write_bytes(log)
    rows, problems = read(node)
    assert problems == []
    kept = rows["kept_commits"]
    assert [(row["log_offset"], row["offset"], row["committed_by"]) for row in kept] == [
        (0, 7, 41), (1, 8, 42), (2, 9, None), (3, 10, None),
    ]  # fmt: skip
    assert {(row["topic"], row["partition"], row["group_id"], row["log_partition"], row["whole"])
            for row in kept} == {("log-0", 0, "g", 3, True)}  # fmt: skip
    assert {row["topic_id"] for row in kept} == {row["topic_id"] for row in of(
        rows["replica_states"], "log-0")}  # fmt: skip
    (folder / f"{4:020}.log").write_bytes(commits((11, "43"), base=4))
    kept = read(node)[0]["kept_commits"]
    assert {row["whole"] for row in kept} == {False}, "the first segment may have been compacted"
    assert kept[-1]["log_offset"] == 4


def test_a_commit_as_kafka_4_3_1_and_librdkafka_write_it() -> None:
    key = b"\x00\x01\x00\x08groups-1\x00\x05log-0\x00\x00\x00\x01"
    value = bytes.fromhex(
        "00040000000000000002ffffffff0531363200000001a21a86ac2d0100102f342191027c41f7ab7d1c046c6f5d4a"
    )
    record = Record(offset=0, timestamp=0, key=key, value=value, headers=b"", stamped=False,
                    record_hash=0)  # fmt: skip
    place = Place(group="groups-1", topic="log-0", partition=1)
    assert position_of(record) == (
        place, Committed(offset=2, leader_epoch=-1, metadata="162\0")
    )  # fmt: skip
    assert position_of(replace(record, value=None)) == (place, None)
    assert position_of(replace(record, value=value[:14])) is None
    assert position_of(replace(record, key=b"\x00\x02\x00\x01g")) is None, "members of a group"
    overlong = value[:14] + b"\xff" * 9
    assert position_of(replace(record, value=overlong)) is None


def test_a_log_with_holes_may_have_been_compacted(node: Path) -> None:
    folder = node / "data" / "__consumer_offsets-3"
    folder.mkdir()
    log = commits((7, "41")) + commits((8, "42"), base=5)
    (folder / f"{0:020}.log").write_bytes(log)
    assert {row["whole"] for row in read(node)[0]["kept_commits"]} == {False}


def test_a_metadata_log_without_its_beginning_starts_from_its_snapshot(node: Path) -> None:
    whole = of(read(node)[0]["leadership"], "log-1")
    log = node / METADATA_LOG
    data = log.read_bytes()
    position = 0
    while int.from_bytes(data[position : position + 8], "big") < SNAPSHOT_END:
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    log.with_name(f"{SNAPSHOT_END:020}.log").write_bytes(data[position:])
    log.unlink()
    rows, problems = read(node)
    assert problems == []
    kept = [row for row in of(rows["leadership"], "log-1") if row["source"] == "metadata-log"]
    assert kept[0]["log_offset"] == SNAPSHOT_END - 1
    later = [row for row in whole if (row["log_offset"] or -1) >= SNAPSHOT_END]  # type: ignore[operator]
    assert later
    fields = ("leader", "leader_epoch", "log_offset", "unclean")
    assert [[row[f] for f in fields] for row in kept[1:]] == [
        [row[f] for f in fields] for row in later
    ]


def test_segments_follow_each_other(node: Path) -> None:
    first = node / "data" / "log-0-0" / "00000000000000000000.log"
    data = first.read_bytes()
    size = 12 + int.from_bytes(data[8:12], "big")
    start = int.from_bytes(data[size : size + 8], "big")
    first.write_bytes(data[:size])
    first.with_name(f"{start:020}.log").write_bytes(data[size:])
    rows, problems = read(node)
    assert problems == []
    assert [row["offset"] for row in of(rows["replica_records"], "log-0")] == list(range(70))
    (state,) = of(rows["replica_states"], "log-0")
    assert (state["log_start_offset"], state["log_end_offset"]) == (0, 70)


def test_the_log_start_moves_with_its_checkpoint(node: Path) -> None:
    (node / "data" / "log-start-offset-checkpoint").write_text("0\n1\nlog-0 0 35\n")
    (state,) = of(read(node)[0]["replica_states"], "log-0")
    assert state["log_start_offset"] == 35


def test_a_value_that_no_column_can_hold_is_null() -> None:
    (first, *_) = read_segment(
        (NODE / "data/log-1-0/00000000000000000000.log").read_bytes()
    ).batches
    foreign = bytes(first.body).replace(pack_value(5, 3).to_bytes(8, "big"), b"\xff" * 8)
    replica = Replica(topic="log-1", topic_id=None, partition=0, node="n2", snapshot="final")
    (rows,) = replica_records([replace(first, body=memoryview(foreign))], replica, [])
    values = rows.column("value").to_pylist()
    assert values[:4] == [pack_value(5, 1), pack_value(5, 2), None, pack_value(5, 4)]


def test_a_batch_that_cannot_be_unpacked_costs_itself_only() -> None:
    (first, second) = read_segment(
        (NODE / "data/log-1-0/00000000000000000000.log").read_bytes()
    ).batches
    replica = Replica(topic="log-1", topic_id=None, partition=0, node="n2", snapshot="final")
    damage: list[str] = []
    broken = replace(first, body=first.body[:-30])
    (rows,) = replica_records([broken, second], replica, damage)
    assert rows.column("offset").to_pylist() == list(range(20, 26))
    assert len(damage) == 1
    assert "offset 0" in damage[0]
