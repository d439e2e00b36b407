"""Single rules of the quorum: votes, epochs, resignation, snapshots, files."""

from collections.abc import Sequence
from itertools import count
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from cluster.files.batches import read_segment, records
from cluster.files.checkpoints import EpochStart, quorum_state
from cluster.files.damage import DamagedFileError
from cluster.files.metadata import QuorumLeader, log_entries
from cluster.files.quorum_log import quorum_transitions, quorum_votes
from cluster.reference.controller.plane import image_of
from cluster.reference.log.log import Log
from cluster.reference.machine import (
    Arrived,
    Asker,
    Effect,
    Flush,
    Reply,
    Request,
    Truncate,
)
from cluster.reference.messages.data import FetchPartition, FetchRequest, FetchResponse
from cluster.reference.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from cluster.reference.quorum.member import Identity, Snapshot
from cluster.reference.quorum.quorum import Quorum, voters_of
from cluster.reference.quorum.records import leader_change, metadata_batch, snapshot_bytes
from cluster.reference.quorum.recovery import latest_snapshot
from cluster.reference.quorum.state import FOLDER, STATE_FILE, ElectionState, Role
from cluster.reference.settings import Settings
from tests.reference.quorum_world import CLUSTER, World


def settled(members: int = 3, *, seed: int = 3, voters: int | None = None) -> tuple[World, int]:
    world = World(members, seed=seed, voters=voters)
    world.start_all()
    leader = world.until_leader()
    world.append(leader, b"one")
    world.run(200)
    return world, leader


def vote(
    *,
    epoch: int,
    asks: int,
    last: tuple[int, int] = (9, 99),
    pre_vote: bool = False,
    cluster: str = CLUSTER,
    voter_directory: UUID | None = None,
) -> VoteRequest:
    return VoteRequest(
        cluster_id=cluster,
        voter_id=-1,
        voter_directory_id=voter_directory,
        replica_epoch=epoch,
        replica_id=asks,
        replica_directory_id=UUID(int=asks),
        last_offset_epoch=last[0],
        last_offset=last[1],
        pre_vote=pre_vote,
    )


def answer_to(world: World, number: int, request: object) -> object:
    asked = world.ask(number, request)
    world.run(10)
    return asked.answer


def voted(world: World, number: int, request: VoteRequest) -> VoteResponse:
    answer = answer_to(world, number, request)
    assert isinstance(answer, VoteResponse)
    return answer


def test_a_follower_that_hears_of_its_leader_grants_no_pre_vote() -> None:
    world, leader = settled()
    a, b = [each for each in world.voters if each != leader]
    answer = voted(world, a, vote(epoch=1, asks=b, pre_vote=True))
    assert not answer.vote_granted
    assert (answer.leader_id, answer.leader_epoch) == (leader, world.quorum(leader).epoch)


def test_a_vote_is_given_once_and_stays_given_over_a_power_failure() -> None:
    world, leader = settled()
    a, b = [each for each in world.voters if each != leader]
    epoch = world.quorum(leader).epoch + 5
    world.isolate(a)
    assert voted(world, a, vote(epoch=epoch, asks=b)).vote_granted
    assert quorum_state(world.nodes[a].files[STATE_FILE].decode()).voted_for == b
    world.crash(a)
    world.start(a)
    assert not voted(world, a, vote(epoch=epoch, asks=leader)).vote_granted
    assert voted(world, a, vote(epoch=epoch, asks=b)).vote_granted, "the same one may ask again"


def test_a_candidate_with_less_is_refused() -> None:
    world, leader = settled()
    a, b = [each for each in world.voters if each != leader]
    world.isolate(a)
    mine = world.quorum(a).log
    shorter = (mine.last_epoch, mine.end_offset - 1)
    older = (mine.last_epoch - 1, mine.end_offset + 50)
    as_much = (mine.last_epoch, mine.end_offset)
    assert not voted(world, a, vote(epoch=20, asks=b, last=shorter)).vote_granted
    assert not voted(world, a, vote(epoch=20, asks=b, last=older)).vote_granted
    assert voted(world, a, vote(epoch=20, asks=b, last=as_much)).vote_granted


def test_who_asks_wrongly_is_told_why() -> None:
    world, leader = settled()
    a, b = [each for each in world.voters if each != leader]
    assert voted(world, a, vote(epoch=0, asks=b)).error_code is ErrorCode.fenced_leader_epoch
    wrong = voted(world, a, vote(epoch=9, asks=b, cluster="another"))
    assert wrong.error_code is ErrorCode.inconsistent_cluster_id
    other = voted(world, a, vote(epoch=9, asks=b, voter_directory=UUID(int=77)))
    assert other.error_code is ErrorCode.invalid_voter_key


def test_a_leader_that_no_majority_fetches_from_resigns_in_its_epoch() -> None:
    world, leader = settled()
    epoch = world.quorum(leader).epoch
    world.isolate(leader)
    world.run(3500)
    quorum = world.quorum(leader)
    assert quorum.role in (Role.RESIGNED, Role.PROSPECTIVE, Role.UNATTACHED)
    assert quorum.epoch == epoch, "alone it begins no epoch"
    assert quorum.leader == -1


def test_a_leader_that_shuts_down_names_its_successor_which_leads_at_once() -> None:
    world, leader = settled()
    node = world.nodes[leader]
    quorum = world.quorum(leader)
    world.apply(node, quorum.shut_down(world.now))
    before = world.now
    after = world.until_leader(among=[each for each in world.voters if each != leader])
    assert (world.now - before) / 1e6 < 200, "no election time-out had to pass"
    assert after != leader
    world.run(50)
    assert quorum.has_ended


def test_an_end_that_is_none_deposes_nobody() -> None:
    world, leader = settled()
    a, _ = [each for each in world.voters if each != leader]
    request = EndQuorumEpochRequest(
        cluster_id=CLUSTER, leader_id=leader, leader_epoch=0, preferred_candidates=((a, None),)
    )
    assert getattr(answer_to(world, a, request), "error_code", None) is (
        ErrorCode.fenced_leader_epoch
    )
    world.run(3000)
    assert world.quorum(leader).role is Role.LEADER


def test_the_leader_commits_nothing_of_before_until_its_own_record_is_copied() -> None:
    world, leader = settled()
    rest = [each for each in world.voters if each != leader]
    world.crash(leader)
    second = world.until_leader()
    start = world.quorum(second).log.end_of(world.quorum(second).epoch - 1)[1]
    assert world.quorum(second).high_watermark > start
    first = next(world.quorum(second).log.batches(start))
    assert first.leader_epoch == world.quorum(second).epoch
    assert set(rest) >= {second}


def test_only_the_leader_describes_the_quorum() -> None:
    world, leader = settled(4, voters=3)
    world.run(2000)
    told = answer_to(world, leader, DescribeQuorumRequest())
    assert isinstance(told, DescribeQuorumResponse)
    end = world.quorum(leader).log.end_offset
    assert (told.leader_id, told.high_watermark) == (leader, end)
    assert [(each.replica_id, each.log_end_offset) for each in told.current_voters] == [
        (1, end), (2, end), (3, end)
    ]  # fmt: skip
    assert [each.replica_id for each in told.observers] == [4]
    other = answer_to(world, leader % 3 + 1, DescribeQuorumRequest())
    assert getattr(other, "error_code", None) is ErrorCode.not_leader_or_follower


def test_a_fetch_is_fenced_by_its_epoch_and_told_who_leads() -> None:
    world, leader = settled()
    for number, epoch, error in (
        (leader, 0, ErrorCode.fenced_leader_epoch),
        (leader, 99, ErrorCode.unknown_leader_epoch),
        (leader % 3 + 1, world.quorum(leader).epoch, ErrorCode.not_leader_or_follower),
    ):
        wanted = FetchPartition(
            topic="__cluster_metadata",
            partition=0,
            fetch_offset=0,
            partition_max_bytes=1000,
            current_leader_epoch=epoch,
        )
        told = answer_to(
            world,
            number,
            FetchRequest(partitions=(wanted,), max_wait_ms=0, min_bytes=0, max_bytes=1000),
        )
        assert isinstance(told, FetchResponse)
        assert told.partitions[0].error_code is error
        assert told.partitions[0].current_leader == leader


def test_lines_are_read_as_a_controller_s() -> None:
    world, leader = settled()
    lines = [f"[2026-01-01 00:00:00,000] INFO {line}" for line in world.nodes[leader].said]
    roles = [each.role for each in quorum_transitions(lines)]
    assert roles[-3:] == ["prospective", "candidate", "leader"]
    other = leader % 3 + 1
    lines = [f"[2026-01-01 00:00:00,000] INFO {line}" for line in world.nodes[other].said]
    votes = [(each.epoch, each.voted_for, each.voted_directory) for each in quorum_votes(lines)]
    assert votes == [(1, leader, str(UUID(int=leader)))]


def test_a_snapshot_is_fetched_in_pieces_and_stands_for_all_before() -> None:
    world, leader = settled()
    for number in range(30):
        world.append(leader, b"record %d" % number)
    world.run(500)
    behind = leader % 3 + 1
    quorum = world.quorum(leader)
    end, epoch = quorum.high_watermark, quorum.epoch
    data = snapshot_bytes([b"all of it"], epoch=epoch, time_ms=1)
    world.crash(behind)
    world.apply(world.nodes[leader], quorum.keep_snapshot(data, end_offset=end, epoch=epoch))
    world.apply(world.nodes[leader], quorum.keep_snapshot(data, end_offset=end, epoch=epoch))
    assert quorum.log.start_offset == end
    node = world.nodes[behind]
    node.batches, node.flushed, node.files = [], 0, {}
    world.start(behind)
    world.append(leader, b"behind it")
    world.run(3000)
    loaded = latest_snapshot(node.files)
    assert loaded is not None
    assert (loaded.end_offset, loaded.epoch, loaded.data) == (end, epoch, data)
    mine = world.quorum(behind)
    assert (mine.log.start_offset, mine.log.end_offset) == (end, quorum.log.end_offset)
    world.crash(behind)
    world.start(behind)
    world.run(3000)
    assert world.quorum(behind).log.end_offset == quorum.log.end_offset
    assert world.quorum(behind).high_watermark == quorum.high_watermark


def test_a_leader_goes_on_where_all_logs_are_empty_behind_their_snapshots() -> None:
    """Its first record has a new epoch, and the others' last epoch is that of the snapshot."""
    world, leader = settled()
    world.append(leader, b"the last one")
    world.run(2000)
    quorum = world.quorum(leader)
    end, epoch = quorum.high_watermark, quorum.epoch
    assert end == quorum.log.end_offset
    data = snapshot_bytes([b"all of it"], epoch=epoch, time_ms=1)
    for node in world.nodes.values():
        for _ in range(2):
            kept = world.quorum(node.number).keep_snapshot(data, end_offset=end, epoch=epoch)
            world.apply(node, kept)
    world.crash(leader)
    world.run(10_000)
    others = [world.quorum(each) for each in world.nodes if each != leader]
    assert [each.high_watermark for each in others] == [end + 1] * 2


def begun(log: Log, snapshot: Snapshot | None = None) -> tuple[Quorum, Sequence[Effect]]:
    """Start the first of three voters with what its files hold."""
    quorum = Quorum(
        Identity(node=1, voters=(1, 2, 3), cluster_id=CLUSTER),
        settings=Settings(),
        log=log,
        state=ElectionState(epoch=5, leader=2),
        snapshot=snapshot,
        numbers=count(1),
    )
    return quorum, quorum.start(0)


def test_an_empty_log_behind_a_snapshot_ends_in_the_epoch_of_that() -> None:
    """Who installed it has all that it stands for, and elects nobody who has less."""
    log = Log(FOLDER, start_offset=20, epochs=[EpochStart(epoch=4, start_offset=20)])
    quorum, _ = begun(log, Snapshot(end_offset=20, epoch=4, data=b""))
    for last, granted in (((3, 90), False), ((4, 19), False), ((4, 20), True)):
        asker = Asker(who=3, connection=1, correlation=1)
        asked = Arrived(asker=asker, message=vote(epoch=9, asks=3, last=last))
        out = quorum.on(1, asked)
        answer = next(each.message for each in out if isinstance(each, Reply))
        assert isinstance(answer, VoteResponse)
        assert answer.vote_granted == granted


def test_an_installation_that_a_crash_cut_short_is_brought_to_its_end() -> None:
    """The snapshot was written, the log not yet replaced: it is longer, but of an older epoch."""
    values = [b"never committed"] * 30
    batches = [metadata_batch(values, base_offset=0, epoch=1, time_ms=1)]
    quorum, out = begun(Log(FOLDER, batches=batches), Snapshot(end_offset=20, epoch=4, data=b""))
    assert (quorum.log.start_offset, quorum.log.end_offset, quorum.log.last_epoch) == (20, 20, 4)
    assert Truncate(folder=FOLDER, offset=0) in out


def test_what_was_not_flushed_is_flushed_before_a_fetch_says_that_it_is_stored() -> None:
    batches = [metadata_batch([b"1"], base_offset=0, epoch=1, time_ms=1)]
    _, out = begun(Log(FOLDER, batches=batches))
    kinds = [type(each) for each in out]
    assert kinds.index(Flush) < kinds.index(Request)


def test_pieces_of_snapshots_that_are_not_there_are_refused() -> None:
    world, leader = settled()
    quorum = world.quorum(leader)
    data = snapshot_bytes([b"x"], epoch=1, time_ms=1)
    world.apply(world.nodes[leader], quorum.keep_snapshot(data, end_offset=2, epoch=1))

    def piece(end: int, position: int) -> FetchSnapshotResponse:
        request = FetchSnapshotRequest(
            cluster_id=CLUSTER,
            replica_id=2,
            replica_directory_id=None,
            max_bytes=10,
            current_leader_epoch=quorum.epoch,
            end_offset=end,
            epoch=1,
            position=position,
        )
        answer = answer_to(world, leader, request)
        assert isinstance(answer, FetchSnapshotResponse)
        return answer

    assert piece(1, 0).error_code is ErrorCode.snapshot_not_found
    assert piece(2, len(data)).error_code is ErrorCode.position_out_of_range
    assert piece(2, 5).unaligned_records == data[5:15]


def test_one_snapshot_is_kept() -> None:
    world, leader = settled()
    quorum, node = world.quorum(leader), world.nodes[leader]
    end, epoch = quorum.high_watermark, quorum.epoch
    for offset in (end - 1, end):
        data = snapshot_bytes([b"%d" % offset], epoch=epoch, time_ms=1)
        world.apply(node, quorum.keep_snapshot(data, end_offset=offset, epoch=epoch))
    kept = [path for path in node.files if path.endswith(".checkpoint")]
    assert kept == [f"{FOLDER}/{end:020}-{epoch:010}.checkpoint"]


def test_who_lost_its_vote_votes_in_no_epoch_of_its_log() -> None:
    world, leader = settled()
    voter = leader % 3 + 1
    epoch = world.quorum(voter).log.last_epoch
    world.crash(voter)
    del world.nodes[voter].files[STATE_FILE]
    world.start(voter)
    assert (world.quorum(voter).epoch, world.quorum(voter).state.voted) == (epoch, -1)
    assert quorum_state(world.nodes[voter].files[STATE_FILE].decode()).epoch == epoch
    world.run(3000)
    assert world.quorum(voter).high_watermark == world.quorum(leader).high_watermark


def test_the_latest_snapshot_counts_and_must_be_whole() -> None:
    """It was written aside and renamed: no crash tears one, and an older one may not be enough."""
    whole = snapshot_bytes([], epoch=1, time_ms=1)
    folder = "__cluster_metadata-0"
    files = {
        f"{folder}/00000000000000000005-0000000001.checkpoint": whole,
        f"{folder}/00000000000000000004-0000000001.checkpoint": whole[:-3],
        f"{folder}/quorum-state": b"{}",
    }
    found = latest_snapshot(files)
    assert found is not None
    assert found.end_offset == 5
    assert image_of(found).offset == 4
    latest = f"{folder}/00000000000000000009-0000000001.checkpoint"
    for damaged in (whole[:-3], b"", whole[:40] + b"?" + whole[41:]):
        with pytest.raises(DamagedFileError, match=f"the snapshot {latest} is incomplete"):
            latest_snapshot(files | {latest: damaged})


def test_batches_are_read_as_kafka_s() -> None:
    data = leader_change(
        2, voters=(1, 2, 3), granting=(2, 3), base_offset=7, epoch=4, time_ms=5
    ) + metadata_batch([b"\x01\x14\x00\x00"] * 2, base_offset=8, epoch=4, time_ms=6)
    segment = read_segment(data)
    assert not segment.damage
    assert [(each.base_offset, each.end_offset, each.leader_epoch) for each in segment.batches] == [
        (7, 8, 4), (8, 10, 4)
    ]  # fmt: skip
    entries = list(log_entries(segment.batches, []))
    assert entries[0].message == QuorumLeader(leader=2)
    found = [(each.offset, each.timestamp) for each in records(segment.batches[1])]
    assert found == [(8, 6), (9, 6)]


def test_voters_are_read_from_the_setting() -> None:
    assert voters_of("2@h:9093, 1@[::1]:9094,") == {1: ("[::1]", 9094), 2: ("h", 9093)}
    with pytest.raises(ValueError, match="does not have the form ID@HOST:PORT"):
        voters_of("1@host")


def test_one_voter_alone_leads_at_once() -> None:
    world = World(1, seed=1, settings=Settings())
    world.start_all()
    assert world.quorum(1).may_write
    world.append(1, b"x")
    assert world.quorum(1).high_watermark == 2
    world.crash(1)
    world.start(1)
    assert world.quorum(1).may_write
    assert world.quorum(1).epoch == 2
