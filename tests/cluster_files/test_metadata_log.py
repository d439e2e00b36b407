"""The metadata log: elections, against Kafka's own dump of a real one."""

import base64
import json
import re
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.static.primitive import i32

from cluster.files.batches import RecordBatch, read_segment
from cluster.files.damage import DamagedFileError
from cluster.files.messages import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_message,
)
from cluster.files.metadata import (
    METADATA_TOPIC,
    Leadership,
    LogEntry,
    Partitions,
    QuorumLeader,
    log_entries,
)

DATA = Path(__file__).parent / "data"
LOG = DATA / "n2" / "data" / f"{METADATA_TOPIC}-0" / "00000000000000000000.log"
SNAPSHOT = LOG.with_name("00000000000000001821-0000000004.checkpoint")
DUMPED = re.compile(r"^\| offset: (\d+) .*?(?:payload|LeaderChange): (\{.*\})$")


def entries(path: Path) -> list[LogEntry]:
    damage: list[str] = []
    found = list(log_entries(read_segment(path.read_bytes()).batches, damage))
    assert damage == []
    return found


def rows(path: Path) -> list[Leadership]:
    partitions = Partitions()
    return [row for entry in entries(path) if (row := partitions.replay(entry))]


def dumped(name: str) -> dict[int, dict[str, object]]:
    """What Kafka's own tool prints of topics, partitions and the quorum's leaders, by offset."""
    lines = (DATA / "witness" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    matches = [match for line in lines if (match := DUMPED.match(line))]
    assert len(matches) == len(lines)
    return {int(match[1]): json.loads(match[2]) for match in matches}


def kafka_id(topic_id: UUID | None) -> str:
    assert topic_id is not None
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def optional(numbers: tuple[int, ...] | None) -> list[int] | None:
    return None if numbers is None else list(numbers)


def as_dumped(entry: LogEntry) -> dict[str, object]:
    """A message in the words of the dump, in which a field that has its default is left out."""
    fields: dict[str, object]
    match entry.message:
        case TopicRecord() as topic:
            fields = {"name": topic.name, "topicId": kafka_id(topic.topic_id)}
        case PartitionRecord() as made:
            fields = {
                "partitionId": made.partition_id,
                "topicId": kafka_id(made.topic_id),
                "replicas": list(made.replicas),
                "isr": list(made.isr),
                "leader": made.leader,
                "leaderEpoch": made.leader_epoch,
                "partitionEpoch": made.partition_epoch,
            }
        case PartitionChangeRecord() as change:
            optionals = {
                "isr": optional(change.isr),
                "leader": None if change.leader == -2 else change.leader,
                "leaderRecoveryState": None
                if change.leader_recovery_state == -1
                else change.leader_recovery_state,
                "eligibleLeaderReplicas": optional(change.eligible_leader_replicas),
                "lastKnownElr": optional(change.last_known_elr),
            }
            fields = {
                "partitionId": change.partition_id,
                "topicId": kafka_id(change.topic_id),
                **{name: value for name, value in optionals.items() if value is not None},
            }
        case QuorumLeader(leader=leader):
            fields = {"leaderId": leader}
        case _:
            fields = {}
    return fields


@pytest.mark.parametrize(
    ("path", "name"), [(LOG, "__cluster_metadata-0"), (SNAPSHOT, "snapshot")], ids=["log", "snap"]
)
def test_messages_are_what_kafka_says(path: Path, name: str) -> None:
    told = dumped(name)
    read = {entry.offset: as_dumped(entry) for entry in entries(path)}
    read = {offset: fields for offset, fields in read.items() if fields}
    assert read.keys() == told.keys()
    for offset, fields in read.items():
        data = told[offset].get("data", told[offset])
        assert isinstance(data, dict)
        known = {key: value for key, value in data.items() if key in fields}
        assert fields == known, offset
        left_out = data.keys() - fields.keys()
        assert not left_out & {"isr", "leader", "leaderEpoch", "leaderRecoveryState"}


def test_an_unclean_election_is_told_from_clean_ones() -> None:
    log_1 = [row for row in rows(LOG) if row.topic == "log-1"]
    told = [(row.leader, row.leader_epoch, row.isr, row.unclean) for row in log_1[:6]]
    assert told == [
        (1, 0, (1, 2), False),
        (2, 1, (2,), False),
        (2, 1, (1, 2), False),
        (2, 1, (2,), False),
        (1, 2, (1,), True),
        (1, 2, (1, 2), False),
    ]
    assert [row.log_offset for row in rows(LOG) if row.unclean] == [246]


def test_kafkas_recovery_state_marks_the_same_election() -> None:
    recovering = [
        entry.offset
        for entry in entries(LOG)
        if isinstance(entry.message, PartitionChangeRecord)
        and entry.message.leader_recovery_state == 1
    ]
    assert recovering == [row.log_offset for row in rows(LOG) if row.unclean]


def test_rows_are_in_the_order_of_the_log() -> None:
    offsets = [row.log_offset for row in rows(LOG)]
    assert offsets == sorted(set(offsets))


def test_an_epoch_has_one_leader_in_the_metadata_log() -> None:
    leaders: dict[tuple[str, int, int], set[int]] = {}
    for row in rows(LOG):
        leaders.setdefault((row.topic, row.partition, row.leader_epoch), set()).add(row.leader)
    assert {len(of_epoch) for of_epoch in leaders.values()} == {1}


def test_the_quorums_leaders_are_rows_too() -> None:
    quorum = [row for row in rows(LOG) if row.topic == METADATA_TOPIC]
    assert [(row.leader, row.leader_epoch) for row in quorum][:2] == [(3, 1), (2, 3)]
    assert quorum[0].topic_id == "00000000-0000-0000-0000-000000000001"


def test_a_snapshot_holds_the_state_at_its_end() -> None:
    at_end: dict[tuple[str, int], Leadership] = {}
    for row in rows(LOG):
        if row.log_offset < 1821 and row.topic != METADATA_TOPIC:
            at_end[row.topic, row.partition] = row
    in_snapshot = {(row.topic, row.partition): row for row in rows(SNAPSHOT)}
    assert in_snapshot.keys() == at_end.keys()
    for key, row in in_snapshot.items():
        then = at_end[key]
        assert (row.leader, row.leader_epoch) == (then.leader, then.leader_epoch), key
        assert set(row.isr or ()) == set(then.isr or ()), key


def test_brokers_and_features() -> None:
    messages = [entry.message for entry in entries(LOG)]
    registered = [m.broker_id for m in messages if isinstance(m, RegisterBrokerRecord)]
    assert {1, 2, 3} == set(registered)
    fenced = [
        m.broker_id
        for m in messages
        if isinstance(m, BrokerRegistrationChangeRecord) and m.fenced == 1
    ]
    assert set(fenced) <= {1, 2, 3}
    assert fenced[:2] == [1, 1]
    levels = {m.name: m.feature_level for m in messages if isinstance(m, FeatureLevelRecord)}
    assert levels["metadata.version"] == 30
    assert levels["eligible.leader.replicas.version"] == 1


TOPIC_ID = UUID(int=9)


def entry(offset: int, message: TopicRecord | PartitionRecord | PartitionChangeRecord) -> LogEntry:
    return LogEntry(offset=offset, epoch=1, message=message)


def change(**fields: object) -> PartitionChangeRecord:
    """A change of the fields named; plain numbers do for kio's types, which only readers check."""
    return PartitionChangeRecord(partition_id=i32(0), topic_id=TOPIC_ID, **fields)  # type: ignore[arg-type]


def replayed(*changes: PartitionChangeRecord) -> list[Leadership]:
    partitions = Partitions()
    created = PartitionRecord(
        partition_id=i32(0),
        topic_id=TOPIC_ID,
        replicas=(i32(1), i32(2), i32(3)),
        isr=(i32(1), i32(2), i32(3)),
        removing_replicas=(),
        adding_replicas=(),
        leader=i32(1),
        leader_epoch=i32(0),
        partition_epoch=i32(0),
    )
    partitions.replay(entry(0, TopicRecord(name="t", topic_id=TOPIC_ID)))
    partitions.replay(entry(1, created))
    found = [partitions.replay(entry(at, each)) for at, each in enumerate(changes, start=2)]
    return [row for row in found if row]


def test_a_leader_from_the_eligible_replicas_is_clean() -> None:
    rows = replayed(
        change(isr=(1,), eligible_leader_replicas=(2,)),
        change(isr=(), leader=-1, eligible_leader_replicas=(1, 2)),
        change(isr=(2,), leader=2, eligible_leader_replicas=(1,)),
        change(isr=(3,), leader=3, eligible_leader_replicas=()),
    )
    assert [(row.leader, row.leader_epoch, row.unclean) for row in rows] == [
        (1, 0, False),
        (-1, 1, False),
        (2, 2, False),
        (3, 3, True),
    ]


def test_a_change_keeps_what_it_does_not_name() -> None:
    (row,) = replayed(change(isr=(1, 3)))
    assert (row.topic, row.leader, row.leader_epoch, row.isr) == ("t", 1, 0, (1, 3))


def test_an_election_of_the_same_leader_begins_an_epoch() -> None:
    (row,) = replayed(change(leader=1))
    assert (row.leader, row.leader_epoch, row.unclean) == (1, 1, False)


def test_a_change_of_an_unknown_partition_makes_no_row() -> None:
    assert Partitions().replay(entry(7, change(leader=2))) is None


def test_a_record_of_another_type_is_passed_over() -> None:
    assert decode_message(b"\x01\x18\x00\x00") is None


def refusal_of(value: bytes) -> str | None:
    try:
        decode_message(value)
    except DamagedFileError as damage:
        return str(damage)
    return None


@given(value=st.binary(max_size=80))
def test_nonsense_raises_one_kind_of_error(value: bytes) -> None:
    refusal = refusal_of(value)
    assert refusal is None or "metadata record" in refusal


@given(kind=st.sampled_from([0, 2, 3, 5, 9, 12, 17]), body=st.binary(max_size=80))
def test_nonsense_of_a_known_type_raises_one_kind_of_error(kind: int, body: bytes) -> None:
    refusal = refusal_of(bytes([1, kind, 2]) + body)
    assert refusal is None or "metadata record" in refusal


def test_a_broken_record_costs_itself_only() -> None:
    batches: list[RecordBatch] = []
    for batch in read_segment(LOG.read_bytes()).batches:
        body = bytes(batch.body)
        cut = body.replace(b"\x01\x02\x00\x06log-1", b"\x07\x02\x00\x06log-1")
        batches.append(
            RecordBatch(
                **{
                    **{name: getattr(batch, name) for name in RecordBatch.__slots__},
                    "body": memoryview(cut),
                }
            )
        )
    damage: list[str] = []
    found = list(log_entries(batches, damage))
    assert len(found) == len(entries(LOG)) - 1
    assert len(damage) == 1
    assert "frame version 7" in damage[0]
