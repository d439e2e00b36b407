"""Single rules of partitions: fencing, commitment, parking, producers, offsets."""

import struct
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from msgspec.structs import replace as changed

from cluster.files.checkpoints import offset_checkpoint
from cluster.reference.bugs import Bug
from cluster.reference.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS
from cluster.reference.log.recovery import recovered
from cluster.reference.machine import WriteFile
from cluster.reference.messages.data import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    EpochPartition,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    OffsetsForLeaderEpochRequest,
    ProducedPartition,
)
from cluster.reference.partition.leader import Leading
from cluster.reference.settings import Settings
from tests.reference.batch_maker import produced, record
from tests.reference.replicas_lab import Lab

A, B, C = 1, 2, 3
REFERENCE = Path(__file__).parents[2] / "cluster" / "reference"


@pytest.fixture(name="lab")
def quiet_cluster() -> Lab:
    """Three brokers, of which A leads; two of them are enough in sync."""
    cluster = Lab(settings=Settings(replica_lag_time_max_ms=1000), min_insync=2)
    cluster.exchange()
    return cluster


def leading(lab: Lab, node: int = A) -> Leading:
    found = lab.replicas(node).partitions["t-0"].leading
    assert found is not None
    return found


def answered(lab: Lab, sent: int) -> ProducedPartition:
    (mine,) = lab.answers[sent].partitions
    return mine


def committed(lab: Lab, *values: bytes, time: int = 1000) -> ProducedPartition:
    sent = lab.produce(A, 0, produced(*values, time=time))
    lab.exchange()
    return answered(lab, sent)


def reading(
    offset: int,
    *,
    epoch: int = -1,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    replica_id: int = -1,
    replica_epoch: int = -1,
) -> FetchRequest:
    entry = FetchPartition(
        topic="t",
        partition=0,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        current_leader_epoch=epoch,
    )
    return FetchRequest(
        partitions=(entry,),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        replica_id=replica_id,
        replica_epoch=replica_epoch,
    )


def read(lab: Lab, asked: FetchRequest, *, node: int = A) -> FetchedPartition:
    answer = lab.fetched[lab.fetch(node, asked)]
    assert isinstance(answer, FetchResponse)
    return answer.partitions[0]


def listed(lab: Lab, timestamp: int, *, node: int = A) -> ListedOffset:
    entry = ListOffsetsPartition(topic="t", partition=0, timestamp=timestamp)
    return lab.replicas(node).list_offsets(ListOffsetsRequest(partitions=(entry,))).partitions[0]


def test_requests_of_another_epoch_are_refused(lab: Lab) -> None:
    lab.elect(0, B)
    lab.elect(0, A)
    lab.tell(A)
    told = {epoch: read(lab, reading(0, epoch=epoch)).error_code for epoch in (-1, 1, 2, 3)}
    assert told == {
        -1: ErrorCode.none,
        1: ErrorCode.fenced_leader_epoch,
        2: ErrorCode.none,
        3: ErrorCode.unknown_leader_epoch,
    }


def test_who_does_not_lead_names_the_leader(lab: Lab) -> None:
    told = read(lab, reading(0), node=B)
    assert told.error_code is ErrorCode.not_leader_or_follower
    assert (told.current_leader, told.current_leader_epoch) == (A, 0)
    refused = answered(lab, lab.produce(B, 0, produced(b"1")))
    assert refused.error_code is ErrorCode.not_leader_or_follower
    assert (refused.current_leader, refused.current_leader_epoch) == (A, 0)


def test_what_nobody_knows_is_unknown(lab: Lab) -> None:
    sent = lab.produce(A, 9, produced(b"1"))
    assert answered(lab, sent).error_code is ErrorCode.unknown_topic_or_partition


def test_another_topic_of_the_same_name_is_refused(lab: Lab) -> None:
    asked = reading(0)
    (entry,) = asked.partitions
    other = changed(asked, partitions=(changed(entry, topic_id=UUID(int=8)),))
    assert read(lab, other).error_code is ErrorCode.inconsistent_topic_id


def test_the_log_of_a_deleted_namesake_goes(lab: Lab) -> None:
    committed(lab, b"1")
    lab.states[0] = replace(lab.states[0], topic_id=UUID(int=8), leader_epoch=0, partition_epoch=0)
    lab.tell(A)
    assert lab.replicas(A).partitions["t-0"].log.end_offset == 0
    lab.kill(A)
    lab.states[0] = replace(lab.states[0], topic_id=UUID(int=9))
    lab.start(A)
    lab.tell(A)
    assert lab.replicas(A).partitions["t-0"].state.topic_id == UUID(int=9)


def test_a_broker_that_came_back_leads_in_no_past_state(lab: Lab) -> None:
    """What it replays before it is unfenced may be long past: here, that it was in sync alone."""
    past = replace(lab.states[0], isr=(A,), partition_epoch=1)
    past = replace(past, settings=replace(past.settings, min_insync_replicas=1))
    lab.kill(A)
    lab.fence(A)
    lab.start(A)
    replicas, epoch = lab.replicas(A), lab.brokers[A].epoch
    others = {node: each for node, each in lab.alive.items() if node != A}
    assert replicas.brokers(lab.now, others, own_epoch=epoch) == []
    assert replicas.apply(lab.now, [past]) == []
    refused = answered(lab, lab.produce(A, 0, produced(b"1")))
    assert refused.error_code is ErrorCode.not_leader_or_follower
    lab.calm_down()
    assert replicas.partitions["t-0"].state == lab.states[0]


def test_a_state_of_before_the_logs_last_epoch_is_past(lab: Lab) -> None:
    past = lab.states[0]
    lab.elect(0, B)
    lab.calm_down()
    lab.produce(B, 0, produced(b"1"))
    lab.exchange()
    lab.kill(A)
    lab.start(A)
    replicas = lab.replicas(A)
    replicas.apply(lab.now, [past])
    replicas.brokers(lab.now, lab.alive, own_epoch=lab.brokers[A].epoch)
    assert replicas.partitions["t-0"].leading is None
    assert replicas.partitions["t-0"].log.last_epoch == 1


def test_an_answer_waits_for_all_in_sync_replicas(lab: Lab) -> None:
    sent = lab.produce(A, 0, produced(b"1", b"2"))
    assert sent not in lab.answers
    assert read(lab, reading(0)).records == b""
    lab.exchange()
    assert answered(lab, sent).base_offset == 0
    assert read(lab, reading(0)).high_watermark == 2


@pytest.mark.parametrize("acks", [0, 1])
def test_others_wait_for_nobody(lab: Lab, acks: int) -> None:
    sent = lab.produce(A, 0, produced(b"1"), acks=acks)
    assert answered(lab, sent).error_code is ErrorCode.none


def test_followers_learn_of_the_high_watermark_a_round_trip_later(lab: Lab) -> None:
    committed(lab, b"1")
    assert lab.replicas(A).partitions["t-0"].high_watermark == 1
    assert lab.replicas(B).partitions["t-0"].high_watermark == 0
    committed(lab, b"2")
    assert lab.replicas(B).partitions["t-0"].high_watermark == 1
    lab.advance(600)
    lab.exchange()
    assert lab.replicas(B).partitions["t-0"].high_watermark == 2


def test_too_few_in_sync_commit_nothing(lab: Lab) -> None:
    sent = lab.produce(A, 0, produced(b"1"))
    for node in (B, C):
        lab.kill(node)
        lab.fence(node)
    lab.tell(A)
    lab.advance(1000)
    assert lab.replicas(A).partitions["t-0"].high_watermark == 0
    assert sent not in lab.answers
    refused = answered(lab, lab.produce(A, 0, produced(b"2")))
    assert refused.error_code is ErrorCode.not_enough_replicas
    lab.advance(1000)
    assert answered(lab, sent).error_code is ErrorCode.request_timed_out


def test_a_leader_of_a_later_epoch_counts_on_nothing_from_before(lab: Lab) -> None:
    """A leads, then B, then A, which hears of none of B's: C has cut what A knew it to have."""
    lab.brokers[B].replicas, b = None, lab.brokers[B].replicas
    first = lab.produce(A, 0, produced(b"1"))
    for connection in list(lab.connections):
        if B in (connection.asker, connection.target):
            lab.break_connection(connection)
    lab.exchange()
    assert leading(lab).remotes[C].end_offset == 1
    lab.brokers[B].replicas = b
    lab.elect(0, B)
    lab.tell(B)
    lab.tell(C)
    for connection in lab.connections:
        if (connection.asker, connection.target) == (C, B):
            lab.deliver(connection)
            lab.deliver(connection)
    assert lab.replicas(C).partitions["t-0"].log.end_offset == 0
    lab.elect(0, A)
    lab.tell(A)
    lab.tell(B)
    for _ in range(6):
        for connection in lab.connections:
            if (connection.asker, connection.target) == (B, A):
                lab.deliver(connection)
    assert leading(lab).remotes[B].end_offset == 1
    assert first not in lab.answers, "C does not have it"
    lab.calm_down()
    assert answered(lab, first).error_code is ErrorCode.none


def test_nothing_is_written_behind_the_mark_of_a_clean_shutdown(lab: Lab) -> None:
    """What lies behind it is said to be flushed, and would be missed after a loss of power."""
    waits = lab.produce(A, 0, produced(b"1"))
    follower, leader = lab.replicas(B), lab.replicas(A)
    for replicas, node in ((follower, B), (leader, A)):
        out = replicas.shut_down(lab.brokers[node].epoch)
        assert isinstance(out[-1], WriteFile)
        assert out[-1].path == CLEAN_SHUTDOWN
        lab.carry(node, out)
    assert answered(lab, waits).error_code is ErrorCode.not_leader_or_follower
    lab.elect(0, C)
    for node in (C, B, A):
        lab.tell(node)
    lab.exchange()
    assert follower.partitions["t-0"].log.end_offset == 0
    late = answered(lab, lab.produce(A, 0, produced(b"2")))
    assert late.error_code is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize("stops", [False, True])
def test_checkpoints_outlive_a_process_that_was_told_of_no_partition(
    *, lab: Lab, stops: bool
) -> None:
    """A broker that was killed waits for its session's end; its timers run meanwhile."""
    committed(lab, b"1")
    lab.advance(600)
    lab.exchange()
    lab.advance(70_000)
    disk = lab.brokers[B].disk
    before = recovered(disk)
    assert before.high_watermarks == {"t-0": 1}
    lab.kill(B)
    lab.start(B)
    if stops:
        lab.stop(B)
    else:
        lab.advance(70_000)
    again = recovered(disk)
    assert again.high_watermarks == {"t-0": 1}
    points = offset_checkpoint(disk.read(RECOVERY_POINTS).decode())
    assert points.keys() == {("t", 0)}


def test_a_deposed_leader_says_so_to_who_waits(lab: Lab) -> None:
    sent = lab.produce(A, 0, produced(b"1"))
    lab.elect(0, B)
    lab.tell(A)
    assert answered(lab, sent).error_code is ErrorCode.not_leader_or_follower


def test_a_follower_that_lags_leaves_and_comes_back(lab: Lab) -> None:
    for connection in [each for each in lab.connections if each.asker == C]:
        lab.connections.remove(connection)  # What C asks is lost, and nobody notices.
    sent = lab.produce(A, 0, produced(b"1"))
    for _ in range(6):
        for connection in [each for each in lab.connections if each.asker == B]:
            while connection.requests or connection.answers:
                lab.deliver(connection)
        lab.advance(400)
    assert sent not in lab.answers or answered(lab, sent).error_code is not ErrorCode.none
    lab.decide()
    lab.hear()
    assert set(lab.states[0].isr) == {A, B}
    assert lab.replicas(A).partitions["t-0"].high_watermark == 1
    lab.kill(C)
    lab.start(C)
    lab.calm_down()
    assert set(lab.states[0].isr) == {A, B, C}


def join(lab: Lab) -> Leading:
    """Have C out of the ISR, and caught up."""
    lab.fence(C)
    lab.tell(A)
    committed(lab, b"1")
    return leading(lab)


def test_whoever_is_fenced_does_not_join(lab: Lab) -> None:
    assert join(lab).wish is None
    lab.alive[C] = lab.brokers[C].epoch
    lab.tell(A)
    lab.produce(A, 0, produced(b"2"))
    for connection in list(lab.connections):
        while connection.requests or connection.answers:
            lab.deliver(connection)
    wish = leading(lab).wish
    assert wish is not None
    assert [broker for broker, _ in wish.new_isr_with_epochs] == [A, B, C]
    assert leading(lab).maximal_isr == (A, B, C)


def test_whoever_was_started_again_does_not_join_by_older_fetches(lab: Lab) -> None:
    join(lab)
    lab.alive[C] = lab.brokers[C].epoch + 1
    lab.tell(A)
    committed(lab, b"2")
    assert leading(lab).wish is None


def test_a_fetch_of_an_older_incarnation_is_refused(lab: Lab) -> None:
    remote = leading(lab).remotes[B]
    old = reading(0, replica_id=B, replica_epoch=remote.broker_epoch - 1)
    assert read(lab, old).error_code is ErrorCode.not_leader_or_follower


def test_a_parked_fetch_waits_for_bytes_or_for_its_time(lab: Lab) -> None:
    size = len(produced(b"1"))
    parked = lab.fetch(A, reading(0, max_wait_ms=300, min_bytes=2 * size))
    committed(lab, b"1")
    assert parked not in lab.fetched
    committed(lab, b"2")
    assert parked in lab.fetched
    late = lab.fetch(A, reading(2, max_wait_ms=300))
    lab.advance(299)
    assert late not in lab.fetched
    lab.advance(1)
    assert late in lab.fetched


def test_a_connection_that_is_gone_gets_no_answer(lab: Lab) -> None:
    parked = lab.fetch(A, reading(0, max_wait_ms=300))
    sent = lab.produce(A, 0, produced(b"1"))
    lab.replicas(A).hung(0)
    lab.exchange()
    lab.advance(5000)
    assert parked not in lab.fetched
    assert sent not in lab.answers


def test_a_duplicate_gets_its_first_offset(lab: Lab) -> None:
    batches = [produced(b"1", b"2", producer=(5, 0, 2 * number)) for number in range(7)]
    for number, batch in enumerate(batches):
        lab.produce(A, 0, batch)
        lab.exchange()
        assert lab.replicas(A).partitions["t-0"].log.end_offset == 2 * (number + 1)
    again = [lab.produce(A, 0, batch) for batch in batches]
    told = [(answered(lab, each).error_code, answered(lab, each).base_offset) for each in again]
    forgotten = (ErrorCode.out_of_order_sequence_number, -1)
    assert told == [forgotten] * 2 + [(ErrorCode.none, 2 * number) for number in range(2, 7)]
    lab.elect(0, B)
    lab.tell(B)
    other = lab.produce(B, 0, batches[-1])
    lab.calm_down()
    assert answered(lab, other).base_offset == 12


def test_a_duplicate_waits_like_its_first(lab: Lab) -> None:
    batch = produced(b"1", producer=(5, 0, 0))
    first, again = lab.produce(A, 0, batch), lab.produce(A, 0, batch)
    assert not {first, again} & set(lab.answers)
    lab.exchange()
    assert answered(lab, first) == answered(lab, again)


@pytest.mark.parametrize(
    ("producer", "code"),
    [
        ((5, 1, 2), ErrorCode.none),
        ((5, 1, 3), ErrorCode.out_of_order_sequence_number),
        ((5, 1, 1), ErrorCode.out_of_order_sequence_number),
        ((5, 0, 2), ErrorCode.invalid_producer_epoch),
        ((5, 2, 0), ErrorCode.none),
        ((5, 2, 2), ErrorCode.out_of_order_sequence_number),
        ((6, 0, 9), ErrorCode.none),
    ],
)
def test_sequences_and_epochs(lab: Lab, producer: tuple[int, int, int], code: ErrorCode) -> None:
    lab.produce(A, 0, produced(b"1", b"2", producer=(5, 1, 0)))
    lab.exchange()
    sent = lab.produce(A, 0, produced(b"3", producer=producer))
    lab.exchange()
    assert answered(lab, sent).error_code is code


def test_sequences_wrap(lab: Lab) -> None:
    lab.produce(A, 0, produced(b"1", producer=(5, 0, 0x7FFF_FFFF)))
    lab.exchange()
    sent = lab.produce(A, 0, produced(b"2", producer=(5, 0, 0)))
    lab.exchange()
    assert answered(lab, sent).error_code is ErrorCode.none


SOUND = produced(b"1", b"2")


def broken(position: int, byte: int = 0xFF) -> bytes:
    return SOUND[:position] + bytes([SOUND[position] ^ byte]) + SOUND[position + 1 :]


BAD = {
    "nothing": (b"", ErrorCode.invalid_record),
    "rubbish": (b"rubbish", ErrorCode.corrupt_message),
    "torn": (SOUND[:-1], ErrorCode.corrupt_message),
    "a byte more": (SOUND + b"\0", ErrorCode.corrupt_message),
    "two": (SOUND + SOUND, ErrorCode.invalid_record),
    "a record's byte flipped": (broken(len(SOUND) - 1), ErrorCode.corrupt_message),
    "a header's byte flipped": (broken(22), ErrorCode.corrupt_message),
    "a negative size": (SOUND[:8] + struct.pack(">i", -1) + SOUND[12:], ErrorCode.corrupt_message),
    "an old format": (produced(b"1", magic=1), ErrorCode.invalid_record),
    "more announced": (produced(b"1", count=2), ErrorCode.invalid_record),
    "none announced": (produced(count=0), ErrorCode.corrupt_message),
    "fewer than none": (produced(count=-5), ErrorCode.corrupt_message),
    "control": (produced(b"1", attributes=0x20), ErrorCode.invalid_record),
    "transactional": (produced(b"1", attributes=0x10), ErrorCode.invalid_txn_state),
    "stamped by the broker": (produced(b"1", attributes=0x08), ErrorCode.invalid_timestamp),
    "no such codec": (produced(b"1", attributes=0x05), ErrorCode.unsupported_compression_type),
    "no gzip": (produced(b"1", attributes=0x01), ErrorCode.invalid_record),
    "no sequence number": (produced(b"1", producer=(5, 0, -1)), ErrorCode.invalid_record),
    "no records": (produced(b"1", packed=b""), ErrorCode.invalid_record),
    "endless numbers": (produced(b"1", packed=b"\xff" * 20), ErrorCode.invalid_record),
    "an offset left out": (produced(b"1", packed=record(b"1", delta=1)), ErrorCode.invalid_record),
    "something behind": (
        produced(b"1", packed=record(b"1", delta=0) + b"\0"),
        ErrorCode.invalid_record,
    ),
    "a record of zeros": (produced(b"1", packed=b"\x0e" + b"\0" * 7), ErrorCode.invalid_record),
    "too large": (produced(b"x" * 2_000_000), ErrorCode.message_too_large),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_batches_are_refused_and_leave_nothing(lab: Lab, what: str) -> None:
    records, code = BAD[what]
    sent = lab.produce(A, 0, records)
    assert answered(lab, sent).error_code is code
    assert lab.replicas(A).partitions["t-0"].log.end_offset == 0


def test_odd_acks_are_refused(lab: Lab) -> None:
    sent = lab.produce(A, 0, SOUND, acks=2)
    assert answered(lab, sent).error_code is ErrorCode.invalid_required_acks


def test_offsets_by_time(lab: Lab) -> None:
    for number, time in enumerate((100, 300, 200)):
        committed(lab, b"%d" % number, time=time)
    lab.produce(A, 0, produced(b"later", time=900))
    told = {time: listed(lab, time).offset for time in (0, 100, 101, 200, 300, 301)}
    assert told == {0: 0, 100: 0, 101: 1, 200: 1, 300: 1, 301: -1}
    assert (listed(lab, EARLIEST).offset, listed(lab, LATEST).offset) == (0, 3)
    newest = listed(lab, MAX_TIMESTAMP)
    assert (newest.offset, newest.timestamp, newest.leader_epoch) == (1, 300, 0)


def test_a_new_leader_tells_no_latest_offset_before_it_knows(lab: Lab) -> None:
    committed(lab, b"1")
    lab.elect(0, B)
    lab.tell(B)
    assert listed(lab, LATEST, node=B).error_code is ErrorCode.offset_not_available
    lab.calm_down()
    assert listed(lab, LATEST, node=B).offset == 1


def test_out_of_range(lab: Lab) -> None:
    committed(lab, b"1")
    told = {offset: read(lab, reading(offset)).error_code for offset in (-1, 0, 1, 2)}
    assert told == {
        -1: ErrorCode.offset_out_of_range,
        0: ErrorCode.none,
        1: ErrorCode.none,
        2: ErrorCode.offset_out_of_range,
    }


def test_where_epochs_end(lab: Lab) -> None:
    committed(lab, b"1")
    for leader in (B, A):
        lab.elect(0, leader)
        lab.calm_down()
    committed(lab, b"2", b"3")
    asked = OffsetsForLeaderEpochRequest(
        partitions=tuple(
            EpochPartition(topic="t", partition=0, leader_epoch=epoch) for epoch in (0, 1, 2, 3)
        )
    )
    told = lab.replicas(A).epoch_ends(asked).partitions
    assert [(each.leader_epoch, each.end_offset) for each in told] == [
        (0, 1),
        (0, 1),  # Nothing was written in epoch 1.
        (2, 3),
        (-1, -1),
    ]


@pytest.mark.parametrize("bug", list(Bug))
def test_each_bug_stands_in_the_module_that_it_names(bug: Bug) -> None:
    assert f"Bug.{bug.name} " in (REFERENCE / bug.line).read_text(encoding="utf-8")
