"""The classic group protocol, by one group alone: who is asked to join, and who gets what."""

from collections.abc import Iterable
from typing import Any

import pytest
from crc32c import crc32c
from kio.schema.errors import ErrorCode
from msgspec.structs import replace

from cluster.coordinators import key_partition
from cluster.files.group_offsets import Committed, Place
from cluster.reference.broker.coordinator import MOST_GROUPS, Commit, GroupCoordinator
from cluster.reference.broker.group import Group, GroupState
from cluster.reference.broker.offsets import (
    committed_offsets,
    offsets_batch,
)
from cluster.reference.machine import Asker, CancelTimer, Effect, Reply, SetTimer
from cluster.reference.messages.clients import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)


def asker(number: int) -> Asker:
    return Asker(who=-1, connection=1, correlation=number)


def joining(member: str = "", *, knows: tuple[str, ...] = ("range",), names_itself: bool = False,
            instance: str | None = None) -> JoinGroupRequest:  # fmt: skip
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=6000,
        rebalance_timeout_ms=60_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=tuple(JoinGroupRequestProtocol(name=each, metadata=b"m") for each in knows),
        names_itself=names_itself,
    )


def replies(effects: Iterable[Effect]) -> dict[int, object]:
    return {it.asker.correlation: it.message for it in effects if isinstance(it, Reply)}


def joined(group: Group, *members: str) -> dict[int, object]:
    """Have new members join one after another; the last one completes the generation."""
    found: dict[int, object] = {}
    for number, member in enumerate(members, start=1):
        found |= replies(group.join(asker(number), joining(), member))
    for number, member in enumerate(list(group.members)[:-1], start=11):
        found |= replies(group.join(asker(number), joining(member), "unused"))
    return found


def stable(*members: str) -> Group:
    group = Group(name="g")
    joined(group, *members)
    for number, member in enumerate(reversed(list(group.members)), start=21):
        brought = tuple(
            SyncGroupRequestAssignment(member_id=each, assignment=each.encode())
            for each in (group.members if member == group.leader else ())
        )
        list(group.sync(asker(number), syncing(group, member, brought)))
    assert group.state is GroupState.STABLE
    return group


def syncing(
    group: Group, member: str, brought: tuple[SyncGroupRequestAssignment, ...] = ()
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="g", generation_id=group.generation, member_id=member, assignments=brought
    )


def beat(group: Group, member: str, generation: int | None = None) -> ErrorCode:
    number = group.generation if generation is None else generation
    asked = HeartbeatRequest(group_id="g", generation_id=number, member_id=member)
    answer = replies(group.heartbeat(asker(99), asked))[99]
    assert isinstance(answer, HeartbeatResponse)
    return answer.error_code


def test_a_first_member_leads_a_generation_of_its_own() -> None:
    group = Group(name="g")
    answer = joined(group, "a")[1]
    assert isinstance(answer, JoinGroupResponse)
    assert (answer.generation_id, answer.leader, answer.protocol_name) == (1, "a", "range")
    assert [each.member_id for each in answer.members] == ["a"]


def test_a_member_without_an_id_is_only_told_one_if_it_asks_so() -> None:
    group = Group(name="g")
    answer = replies(group.join(asker(1), joining(names_itself=True), "a"))[1]
    assert isinstance(answer, JoinGroupResponse)
    assert (answer.error_code, answer.member_id) == (ErrorCode.member_id_required, "a")
    assert not group.members
    answer = replies(group.join(asker(2), joining("a", names_itself=True), "unused"))[2]
    assert isinstance(answer, JoinGroupResponse)
    assert answer.error_code is ErrorCode.none


def test_a_second_member_has_the_first_one_join_again() -> None:
    group = stable("a")
    assert not replies(group.join(asker(2), joining(), "b"))
    assert beat(group, "a") is ErrorCode.rebalance_in_progress
    answers = replies(group.join(asker(3), joining("a"), "unused"))
    assert set(answers) == {2, 3}
    leader, other = answers[3], answers[2]
    assert isinstance(leader, JoinGroupResponse)
    assert isinstance(other, JoinGroupResponse)
    assert (leader.generation_id, leader.leader, len(leader.members)) == (2, "a", 2)
    assert (other.generation_id, other.members) == (2, ())


def test_members_wait_for_the_leaders_assignment() -> None:
    group = Group(name="g")
    joined(group, "a", "b")
    assert not replies(group.sync(asker(5), syncing(group, "b")))
    brought = tuple(
        SyncGroupRequestAssignment(member_id=each, assignment=each.encode()) for each in "ab"
    )
    answers = replies(group.sync(asker(6), syncing(group, "a", brought)))
    assert {number: it.assignment for number, it in answers.items()
            if isinstance(it, SyncGroupResponse)} == {5: b"b", 6: b"a"}  # fmt: skip


def test_a_silent_member_is_out_and_the_others_join_again() -> None:
    group = stable("a", "b")
    list(group.fired("session:b"))
    assert list(group.members) == ["a"]
    assert beat(group, "b") is ErrorCode.unknown_member_id
    assert beat(group, "a") is ErrorCode.rebalance_in_progress
    answer = replies(group.join(asker(7), joining("a"), "unused"))[7]
    assert isinstance(answer, JoinGroupResponse)
    assert [each.member_id for each in answer.members] == ["a"]


def test_who_does_not_join_again_in_time_is_left_behind() -> None:
    group = stable("a", "b")
    list(group.join(asker(2), joining(), "c"))
    list(group.join(asker(1), joining("b"), "unused"))
    effects = list(group.fired("rebalance"))
    assert list(group.members) == ["b", "c"]
    assert any(isinstance(it, CancelTimer) and it.timer.endswith("session:a") for it in effects)
    assert group.leader == "b"


def test_who_waits_for_an_answer_is_not_out_of_its_session() -> None:
    group = stable("a", "b")
    list(group.join(asker(2), joining(), "c"))
    list(group.join(asker(1), joining("b"), "unused"))
    effects = list(group.fired("session:b"))
    assert "b" in group.members
    assert any(isinstance(it, SetTimer) for it in effects)


def test_a_generation_that_is_over_commits_nothing() -> None:
    group = stable("a")
    assert group.may_commit("a", group.generation) is ErrorCode.none
    assert group.may_commit("a", group.generation - 1) is ErrorCode.illegal_generation
    assert group.may_commit("z", group.generation) is ErrorCode.unknown_member_id
    assert group.may_commit("", -1) is ErrorCode.unknown_member_id
    list(group.leave("a"))
    assert group.may_commit("", -1) is ErrorCode.none


def test_members_without_a_protocol_in_common_cannot_be_in_one_group() -> None:
    group = stable("a")
    answer = replies(group.join(asker(1), joining(knows=("sticky",)), "b"))[1]
    assert isinstance(answer, JoinGroupResponse)
    assert answer.error_code is ErrorCode.inconsistent_group_protocol


def test_a_static_member_comes_back_in_the_place_of_its_old_process() -> None:
    group = Group(name="g")
    list(group.join(asker(1), joining(instance="i"), "old"))
    list(group.join(asker(2), joining(instance="i"), "new"))
    assert list(group.members) == ["new"]
    assert group.member_of("i") == "new"


@pytest.mark.parametrize(
    ("group", "hashed"),
    # Strings whose hashes by Java are well known; Kafka takes their lowest 31 bits.
    [
        ("g", 103),
        ("Aa", 2112),
        ("BB", 2112),
        ("hello", 99162322),
        ("polygenelubricants", 0),
        ("pipeline-0", 1076719675),
    ],
)
def test_a_group_lies_where_java_would_look_for_it(group: str, hashed: int) -> None:
    assert key_partition(group, 50) == hashed % 50


def test_offsets_are_read_back_as_they_were_committed() -> None:
    commits = [
        (
            Place(group="g", topic="t", partition=number),
            Committed(offset=number * 1000, leader_epoch=number, metadata="ü" * number),
        )
        for number in range(200)
    ]
    assert list(committed_offsets(offsets_batch(commits, time_ms=5))) == commits


def test_records_of_strangers_among_the_offsets_are_left_out() -> None:
    commits = [
        (
            Place(group=name, topic="t", partition=0),
            Committed(offset=3, leader_epoch=1, metadata=""),
        )
        for name in ("g", "h")
    ]
    first = bytearray(offsets_batch(commits[:1], time_ms=5))
    at = first.index(b"\0\1g")
    first[at : at + 2] = b"\x7f\xff"  # Its group's name ends far behind the record.
    first[17:21] = crc32c(bytes(first[21:])).to_bytes(4, "big")
    then = bytearray(offsets_batch(commits[1:], time_ms=5))
    then[:8] = (1).to_bytes(8, "big")
    assert list(committed_offsets(bytes(first + then))) == commits[1:]


@pytest.mark.parametrize(
    ("topic", "metadata", "error"),
    [
        ("unknown", "", ErrorCode.unknown_topic_or_partition),
        ("t", "m" * 4097, ErrorCode.offset_metadata_too_large),
        ("t", "m" * 4096, ErrorCode.none),
        ("t", "\u4e16" * 4096, ErrorCode.none),
        ("t", "\U0001f4a5" * 2049, ErrorCode.offset_metadata_too_large),
    ],
)
def test_a_commit_that_no_record_can_hold_is_refused_and_the_others_are_kept(
    topic: str, metadata: str, error: ErrorCode
) -> None:
    coordinator = _leading()
    wanted = ("plain", ""), (topic, metadata)
    commit = coordinator.commit(0, asker(1), _commit("g", *wanted), known=_known)
    assert isinstance(commit, Commit)
    kept = [place.topic for place, _ in committed_offsets(commit.request.partitions[0].records)]
    assert kept == ["plain", *([topic] if error is ErrorCode.none else [])]
    answer: Any = coordinator.committed(commit, ErrorCode.none).message
    told = [each.partitions[0].error_code for each in answer.topics]
    assert told == [ErrorCode.none, error]
    failed: Any = coordinator.committed(commit, ErrorCode.message_too_large).message
    told = [each.partitions[0].error_code for each in failed.topics]
    size = ErrorCode.invalid_commit_offset_size
    assert told == [size, size if error is ErrorCode.none else error]


def test_a_commit_of_nothing_that_can_be_kept_is_answered_at_once() -> None:
    answer = _leading().commit(0, asker(1), _commit("g", ("t", "m" * 4097)), known=_known)
    assert not isinstance(answer, Commit)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.offset_metadata_too_large


def test_a_group_whose_name_no_record_can_hold_commits_nothing() -> None:
    answer = _leading().commit(0, asker(1), _commit("g" * 32_768, ("t", "")), known=_known)
    assert not isinstance(answer, Commit)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.invalid_group_id


def _known(topic: str, partition: int) -> bool:
    return topic in {"plain", "t"} and partition == 0


def _leading() -> GroupCoordinator:
    coordinator = GroupCoordinator(1, delay_ms=0, session_ms=(1, 60_000))
    coordinator.partitions = 1
    coordinator.lead(0, b"")
    return coordinator


def _commit(group: str, *wanted: tuple[str, str]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=1, committed_metadata=metadata
                    ),
                ),
            )
            for topic, metadata in wanted
        ),
    )


def test_groups_of_nobody_do_not_fill_the_memory() -> None:
    """Who is refused leaves an empty group behind, under any name that it likes."""
    coordinator = _leading()
    list(coordinator.take(asker(1), joining()))
    for number in range(2 * MOST_GROUPS):
        stranger = replace(joining(knows=()), group_id=f"nobody {number}")
        (refused,) = replies(coordinator.take(asker(1), stranger)).values()
        assert isinstance(refused, JoinGroupResponse)
        assert refused.error_code is ErrorCode.inconsistent_group_protocol
    assert len(coordinator.groups(0)) <= MOST_GROUPS
    assert coordinator.groups(0)[0] == "g", "it has a member"
