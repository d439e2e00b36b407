"""The group coordinator: groups of the `__consumer_offsets` partitions that this broker leads.

Committed offsets are records of such a partition. The coordinator answers a commit when the
commit's record is itself committed. If the partition gets another leader, that leader reads the
records again. The members of groups are not stored, so after a change of the leader they must join
again. (Kafka also stores the members, so Kafka's members need not join again.)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kio.schema.errors import ErrorCode

from cluster.coordinators import key_partition
from cluster.files.group_offsets import OFFSETS_TOPIC, Committed, Place
from cluster.reference.broker.group import NS_PER_MS, Group
from cluster.reference.broker.offsets import (
    MOST_NAME_BYTES,
    committed_offsets,
    offsets_batch,
)
from cluster.reference.bugs import Bug
from cluster.reference.machine import Asker, Effect, Nanoseconds, Reply
from cluster.reference.messages.clients import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    SyncGroupRequest,
    SyncGroupResponse,
)
from cluster.reference.messages.data import ProducePartition, ProduceRequest

COMMIT_TIMEOUT_MS = 5000
"""Kafka's `offsets.commit.timeout.ms`."""
MOST_METADATA = 4096
"""Kafka's `offset.metadata.max.bytes`. Like Kafka, count Java's characters (two bytes each)."""
MOST_GROUPS = 1000
"""If a partition of `__consumer_offsets` has this many groups, groups without members are
deleted."""
GroupRequest = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetFetchRequest
)
TIMERS = "group:"
_NOTHING: Mapping[Place, ErrorCode] = MappingProxyType({})


@dataclass(slots=True)
class _Kept:
    """The groups and offsets of one partition of `__consumer_offsets` that this broker leads."""

    offsets: dict[Place, Committed] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit of offsets, as records that the node must produce.

    Attributes:
        request: The produce request.
        asker: The client that commits.
        asked: The client's commit request, to be answered.
        refused: The refused offsets of the request, with their errors.
        kept: The accepted offsets.
        partition: The partition of `__consumer_offsets`.
    """

    request: ProduceRequest
    asker: Asker
    asked: OffsetCommitRequest
    refused: Mapping[Place, ErrorCode]
    kept: tuple[tuple[Place, Committed], ...]
    partition: int


class GroupCoordinator:
    """All groups that a broker coordinates.

    Args:
        node: The broker's id.
        delay_ms: `group.initial.rebalance.delay.ms`.
        session_ms: The shortest and the longest `group.*.session.timeout.ms`.
        bugs: The bugs that are switched on.
    """

    def __init__(
        self,
        node: int,
        *,
        delay_ms: int,
        session_ms: tuple[int, int],
        bugs: tuple[Bug, ...] = (),
    ) -> None:
        self._node, self._delay_ns = node, delay_ms * NS_PER_MS
        self._session_ms, self._bugs = session_ms, bugs
        self._led: dict[int, _Kept] = {}
        self._members = 0
        self.partitions = 0
        """The number of partitions of `__consumer_offsets`; 0 if the topic does not exist yet."""
        self.broker_epoch = -1
        """This broker's epoch. Member ids contain this epoch, so that each start makes different
        ids."""

    def lead(self, partition: int, batches: bytes) -> None:
        """Begin to coordinate a partition's groups; `batches` contains their committed offsets."""
        kept = _Kept()
        for place, committed in committed_offsets(batches):
            if committed is None:
                kept.offsets.pop(place, None)
            else:
                kept.offsets[place] = committed
        self._led[partition] = kept

    def stop_leading(self, partition: int) -> Iterator[Effect]:
        """Refuse all waiting members, because another broker coordinates their groups now."""
        kept = self._led.pop(partition, None)
        for group in kept.groups.values() if kept else ():
            yield from group.end()

    @property
    def led(self) -> tuple[int, ...]:
        """The partitions of `__consumer_offsets` that this broker leads."""
        return tuple(self._led)

    def groups(self, partition: int) -> tuple[str, ...]:
        """Return the known groups of a partition that this broker leads."""
        return tuple(self._led[partition].groups)

    def take(self, asker: Asker, asked: GroupRequest) -> Iterator[Effect]:
        """Handle a member's request, except commits, which `commit` handles."""
        match asked:
            case JoinGroupRequest():
                yield from self._join(asker, asked)
            case SyncGroupRequest():
                yield from self._sync(asker, asked)
            case HeartbeatRequest():
                yield from self._heartbeat(asker, asked)
            case LeaveGroupRequest():
                yield from self._leave(asker, asked)
            case OffsetFetchRequest():
                yield Reply(asker=asker, message=self._fetched(asked))
            case OffsetCommitRequest():
                raise TypeError("the coordinator must append commits to the log before it answers")

    def fired(self, timer: str) -> Iterator[Effect]:
        """Handle a timer whose name begins with `TIMERS`."""
        length, _, rest = timer.removeprefix(TIMERS).partition(":")
        name, what = rest[: int(length)], rest[int(length) + 1 :]
        kept = self._kept(name)
        if kept is not None and name in kept.groups:
            yield from kept.groups[name].fired(what)

    def commit(
        self,
        now: Nanoseconds,
        asker: Asker,
        asked: OffsetCommitRequest,
        *,
        known: Callable[[str, int], bool],
    ) -> Commit | OffsetCommitResponse:
        """Return a produce request that stores the offsets, or a response that refuses the commit.

        Args:
            now: The present time.
            asker: The client that commits.
            asked: The commit request.
            known: Returns whether a topic has a partition.
        """
        if len(asked.group_id.encode()) > MOST_NAME_BYTES:
            return _answer(asked, ErrorCode.invalid_group_id)
        kept = self._kept(asked.group_id)
        if kept is None:
            return _answer(asked, ErrorCode.not_coordinator)
        group = kept.groups.get(asked.group_id) or Group(name=asked.group_id)
        error = group.may_commit(asked.member_id, asked.generation_id_or_member_epoch)
        if error is not ErrorCode.none:
            return _answer(asked, error)
        commits = []
        refused: dict[Place, ErrorCode] = {}
        for place, committed in _wanted(asked):
            if (why := _objection(place, committed, known)) is not ErrorCode.none:
                refused[place] = why
            else:
                commits.append((place, committed))
        if not commits:
            return _answer(asked, ErrorCode.none, refused)
        partition = key_partition(asked.group_id, self.partitions)
        produced = ProducePartition(
            topic=OFFSETS_TOPIC,
            partition=partition,
            records=offsets_batch(commits, time_ms=now // NS_PER_MS),
        )
        request = ProduceRequest(
            acks=-1, timeout_ms=COMMIT_TIMEOUT_MS, partitions=(produced,), to_internal=True
        )
        return Commit(
            request=request,
            asker=asker,
            asked=asked,
            refused=refused,
            kept=tuple(commits),
            partition=partition,
        )

    def committed(self, commit: Commit, error: ErrorCode) -> Reply:
        """Answer a commit. `error` is the result of the produce request with its offsets."""
        kept = self._led.get(commit.partition)
        if kept is None:
            error = error or ErrorCode.not_coordinator
        elif error is ErrorCode.none and Bug.COMMIT_NOT_KEPT not in self._bugs:
            kept.offsets.update(commit.kept)
        answer = _answer(commit.asked, _COMMIT_ERRORS.get(error, error), commit.refused)
        return Reply(asker=commit.asker, message=answer)

    def _kept(self, group: str) -> _Kept | None:
        if not self.partitions or len(group) > MOST_NAME_BYTES:
            return None
        return self._led.get(key_partition(group, self.partitions))

    def _join(self, asker: Asker, asked: JoinGroupRequest) -> Iterator[Effect]:
        kept = self._kept(asked.group_id)
        shortest, longest = self._session_ms
        error = ErrorCode.none
        if kept is None:
            error = ErrorCode.not_coordinator
        elif not asked.group_id:
            error = ErrorCode.invalid_group_id
        elif not shortest <= asked.session_timeout_ms <= longest:
            error = ErrorCode.invalid_session_timeout
        elif asked.member_id and asked.group_id not in kept.groups:
            error = ErrorCode.unknown_member_id
        if kept is None or error is not ErrorCode.none:
            refused = JoinGroupResponse(error_code=error, member_id=asked.member_id)
            yield Reply(asker=asker, message=refused)
            return
        group = kept.groups.get(asked.group_id)
        if group is None:
            _make_room(kept.groups)
            group = Group(name=asked.group_id, delay_ns=self._delay_ns, bugs=self._bugs)
            kept.groups[asked.group_id] = group
        self._members += 1
        prefix = asked.group_instance_id or asked.client_id
        new_id = f"{prefix}-{self._node}-{self.broker_epoch}-{self._members}"
        yield from group.join(asker, asked, new_id)

    def _sync(self, asker: Asker, asked: SyncGroupRequest) -> Iterator[Effect]:
        group = self._group(asked.group_id)
        if isinstance(group, Group):
            yield from group.sync(asker, asked)
        else:
            yield Reply(asker=asker, message=SyncGroupResponse(error_code=group))

    def _heartbeat(self, asker: Asker, asked: HeartbeatRequest) -> Iterator[Effect]:
        group = self._group(asked.group_id)
        if isinstance(group, Group):
            yield from group.heartbeat(asker, asked)
        else:
            yield Reply(asker=asker, message=HeartbeatResponse(error_code=group))

    def _leave(self, asker: Asker, asked: LeaveGroupRequest) -> Iterator[Effect]:
        group = self._group(asked.group_id)
        if not isinstance(group, Group):
            yield Reply(asker=asker, message=LeaveGroupResponse(error_code=group))
            return
        leaving = asked.members or (MemberIdentity(member_id=asked.member_id),)
        answers: list[MemberResponse] = []
        for each in leaving:
            member_id = each.member_id or group.member_of(each.group_instance_id)
            known = member_id in group.members or member_id in group.pending
            answers.append(
                MemberResponse(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    error_code=ErrorCode.none if known else ErrorCode.unknown_member_id,
                )
            )
            yield from group.leave(member_id)
        alone = ErrorCode.none if asked.members else answers[0].error_code
        yield Reply(
            asker=asker, message=LeaveGroupResponse(error_code=alone, members=tuple(answers))
        )

    def _group(self, name: str) -> Group | ErrorCode:
        kept = self._kept(name)
        if kept is None:
            return ErrorCode.not_coordinator
        return kept.groups.get(name) or ErrorCode.unknown_member_id

    def _fetched(self, asked: OffsetFetchRequest) -> OffsetFetchResponse:
        if asked.groups:
            groups = tuple(self._offsets_of(each) for each in dict.fromkeys(asked.groups))
            return OffsetFetchResponse(groups=groups)
        one = OffsetFetchRequestGroup(group_id=asked.group_id, topics=asked.topics)
        answer = self._offsets_of(one)
        return OffsetFetchResponse(topics=answer.topics, error_code=answer.error_code)

    def _offsets_of(self, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        kept = self._kept(asked.group_id)
        if kept is None:
            error = ErrorCode.not_coordinator
            return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error)
        topics = asked.topics if asked.topics is not None else _known(kept, asked.group_id)
        return OffsetFetchResponseGroup(
            group_id=asked.group_id,
            topics=tuple(
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        _offset(kept, asked.group_id, topic.name, each)
                        for each in topic.partition_indexes
                    ),
                )
                for topic in topics
            ),
        )


_COMMIT_ERRORS = {
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size,
}
"""For each error of the produce request that stores offsets: the error that the client gets.

The mapping is Kafka's.
"""


def _known(kept: _Kept, group: str) -> Iterable[OffsetFetchRequestTopic]:
    partitions: dict[str, list[int]] = {}
    for place in kept.offsets:
        if place.group == group:
            partitions.setdefault(place.topic, []).append(place.partition)
    return [
        OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(indexes))
        for topic, indexes in partitions.items()
    ]


def _offset(kept: _Kept, group: str, topic: str, partition: int) -> OffsetFetchResponsePartition:
    found = kept.offsets.get(Place(group=group, topic=topic, partition=partition))
    if found is None:
        return OffsetFetchResponsePartition(partition_index=partition)
    return OffsetFetchResponsePartition(
        partition_index=partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
    )


def _make_room(groups: dict[str, Group]) -> None:
    """If there are very many groups, delete those without members; Kafka does so after a time."""
    if len(groups) < MOST_GROUPS:
        return
    for name in [name for name, group in groups.items() if group.is_forgotten]:
        del groups[name]


def _wanted(asked: OffsetCommitRequest) -> Iterator[tuple[Place, Committed]]:
    for topic in asked.topics:
        for each in topic.partitions:
            yield (
                Place(group=asked.group_id, topic=topic.name, partition=each.partition_index),
                Committed(
                    offset=each.committed_offset,
                    leader_epoch=each.committed_leader_epoch,
                    metadata=each.committed_metadata or "",
                ),
            )


def _objection(place: Place, committed: Committed, known: Callable[[str, int], bool]) -> ErrorCode:
    """Return why one offset of a request cannot be stored. The other offsets are still stored."""
    if not known(place.topic, place.partition):
        return ErrorCode.unknown_topic_or_partition
    if len(committed.metadata.encode("utf-16-be")) > 2 * MOST_METADATA:
        return ErrorCode.offset_metadata_too_large
    return ErrorCode.none


def _answer(
    asked: OffsetCommitRequest, error: ErrorCode, refused: Mapping[Place, ErrorCode] = _NOTHING
) -> OffsetCommitResponse:
    """Return the response to a commit: one error for all partitions, except those in `refused`."""

    def error_of(topic: str, partition: int) -> ErrorCode:
        place = Place(group=asked.group_id, topic=topic, partition=partition)
        return refused.get(place, error)

    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=error_of(topic.name, each.partition_index),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in asked.topics
        )
    )
