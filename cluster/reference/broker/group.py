"""One consumer group, by the classic protocol: join, sync, heartbeat, leave.

A generation begins when all members have sent a join. One of the members is the leader. The leader
gets the list of members and sends an assignment for each. The others wait for the assignment. A
member that is silent for its session timeout is removed, and a new generation begins.
https://cwiki.apache.org/confluence/display/KAFKA/Kafka+Client-side+Assignment+Proposal
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from kio.schema.errors import ErrorCode

from cluster.reference.bugs import Bug
from cluster.reference.machine import (
    Asker,
    CancelTimer,
    Effect,
    Nanoseconds,
    Reply,
    SetTimer,
    timer,
)
from cluster.reference.messages.clients import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)

NS_PER_MS = 1_000_000
Protocols = tuple[tuple[str, bytes], ...]


class GroupState(Enum):
    """The state of a group. `STABLE` means that each member has its assignment."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    """The group waits for its members to join."""
    COMPLETING = "CompletingRebalance"
    """The group waits for the leader's assignment."""
    STABLE = "Stable"


@dataclass(slots=True, kw_only=True)
class Member:
    """A member of a group.

    Attributes:
        joining: The asker of the member's join request, while the request waits for other members.
        syncing: The asker of the member's sync request, while the request waits for the assignment.
    """

    member_id: str
    instance: str | None
    session_ns: Nanoseconds
    rebalance_ns: Nanoseconds
    protocols: Protocols
    assignment: bytes = b""
    joining: Asker | None = None
    syncing: Asker | None = None


@dataclass(slots=True, kw_only=True)
class Group:
    """A consumer group; its timers are named `group:NAME:...`.

    Attributes:
        delay_ns: How long the first generation waits for more members.
        bugs: The bugs that are switched on.
        pending: The ids that were given to new members that have not joined yet (KIP-394).
    """

    name: str
    delay_ns: Nanoseconds = 0
    bugs: tuple[Bug, ...] = ()
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, None] = field(default_factory=dict)

    def join(self, asker: Asker, asked: JoinGroupRequest, new_id: str) -> Iterator[Effect]:
        """Handle a join of a new or known member.

        Args:
            asker: The client to answer.
            asked: The request.
            new_id: The id for a member that has none.
        """
        error = self._refusal(asked)
        if error is not ErrorCode.none:
            yield _refused(asker, error, asked.member_id)
        elif not asked.member_id and asked.names_itself and asked.group_instance_id is None:
            self.pending[new_id] = None
            yield _refused(asker, ErrorCode.member_id_required, new_id)
            yield self._session(new_id, asked.session_timeout_ms * NS_PER_MS)
        else:
            yield from self._joined(asker, asked, asked.member_id or new_id)

    def sync(self, asker: Asker, asked: SyncGroupRequest) -> Iterator[Effect]:
        """Answer a sync with the member's assignment when the leader has sent all assignments."""
        error = self._stranger(asked.member_id, asked.generation_id)
        if error is ErrorCode.none and self.state is GroupState.PREPARING:
            error = ErrorCode.rebalance_in_progress
        if error is not ErrorCode.none:
            yield Reply(asker=asker, message=SyncGroupResponse(error_code=error))
            return
        member = self.members[asked.member_id]
        member.syncing = asker
        if self.state is GroupState.COMPLETING and asked.member_id == self.leader:
            brought = {each.member_id: each.assignment for each in asked.assignments}
            for each in self.members.values():
                owner = self.leader if Bug.ONE_ASSIGNMENT_FOR_ALL in self.bugs else each.member_id
                each.assignment = brought.get(owner, b"")
            self.state = GroupState.STABLE
            yield CancelTimer(timer=self._timer("rebalance"))
        if self.state is GroupState.STABLE:
            yield from self._synced()
        yield self._session(member.member_id, member.session_ns)

    def heartbeat(self, asker: Asker, asked: HeartbeatRequest) -> Iterator[Effect]:
        """Renew a member's session. The response tells the member whether it must join again."""
        error = self._stranger(asked.member_id, asked.generation_id)
        if error is ErrorCode.none:
            member = self.members[asked.member_id]
            yield self._session(member.member_id, member.session_ns)
            if self.state is GroupState.PREPARING:
                error = ErrorCode.rebalance_in_progress
        yield Reply(asker=asker, message=HeartbeatResponse(error_code=error))

    def leave(self, member_id: str) -> Iterator[Effect]:
        """Remove a member; the others begin a new generation."""
        self.pending.pop(member_id, None)
        yield CancelTimer(timer=self._timer("session", member_id))
        member = self.members.pop(member_id, None)
        if member is None:
            yield from self._complete_if_all()
            return
        for waiting, answer in (
            (member.joining, JoinGroupResponse(error_code=ErrorCode.unknown_member_id)),
            (member.syncing, SyncGroupResponse(error_code=ErrorCode.unknown_member_id)),
        ):
            if waiting is not None:
                yield Reply(asker=waiting, message=answer)
        if self.state in {GroupState.STABLE, GroupState.COMPLETING}:
            yield from self._prepare()
        else:
            yield from self._complete_if_all()

    def fired(self, what: str) -> Iterator[Effect]:
        """Handle a timer: `rebalance`, or `session:MEMBER`."""
        kind, _, member_id = what.partition(":")
        if kind == "rebalance":
            yield from self._waited_enough()
            return
        member = self.members.get(member_id)
        if member is not None and (member.joining is not None or member.syncing is not None):
            # The member waits for our response, so its session cannot expire.
            yield self._session(member_id, member.session_ns)
        else:
            yield from self.leave(member_id)

    def end(self) -> Iterator[Effect]:
        """Refuse all waiting members, because another broker coordinates the group now."""
        for member in self.members.values():
            if member.joining is not None:
                yield _refused(member.joining, ErrorCode.not_coordinator, member.member_id)
            if member.syncing is not None:
                answer = SyncGroupResponse(error_code=ErrorCode.not_coordinator)
                yield Reply(asker=member.syncing, message=answer)
            yield CancelTimer(timer=self._timer("session", member.member_id))
        for member_id in self.pending:
            yield CancelTimer(timer=self._timer("session", member_id))
        yield CancelTimer(timer=self._timer("rebalance"))

    def may_commit(self, member_id: str, generation: int) -> ErrorCode:
        """Return the error for a member's commit of offsets; `none` if the commit is allowed."""
        if generation < 0 and not member_id and self.state is GroupState.EMPTY:
            return ErrorCode.none
        error = self._stranger(member_id, generation)
        if error is ErrorCode.none and self.state is GroupState.COMPLETING:
            return ErrorCode.rebalance_in_progress
        return error

    @property
    def is_forgotten(self) -> bool:
        """Whether the group can be deleted: it has no members and no pending members."""
        return not self.members and not self.pending

    def member_of(self, instance: str | None) -> str:
        """Return the current member id of a static instance, or an empty string."""
        found = (it.member_id for it in self.members.values() if it.instance == instance)
        return next(found, "") if instance is not None else ""

    def _refusal(self, asked: JoinGroupRequest) -> ErrorCode:
        known = asked.member_id in self.members or asked.member_id in self.pending
        if asked.member_id and not known:
            return ErrorCode.unknown_member_id
        if not asked.protocols or not asked.protocol_type:
            return ErrorCode.inconsistent_group_protocol
        others = [each for each in self.members.values() if each.member_id != asked.member_id]
        if not others:
            return ErrorCode.none
        if asked.protocol_type != self.protocol_type:
            return ErrorCode.inconsistent_group_protocol
        offered = {each.name for each in asked.protocols}
        common = offered.intersection(*({name for name, _ in each.protocols} for each in others))
        return ErrorCode.none if common else ErrorCode.inconsistent_group_protocol

    def _joined(self, asker: Asker, asked: JoinGroupRequest, member_id: str) -> Iterator[Effect]:
        protocols = tuple((each.name, each.metadata) for each in asked.protocols)
        member = self.members.get(member_id)
        if member is None:
            yield from self._replaced(asked.group_instance_id)
            self.pending.pop(member_id, None)
            member = self.members[member_id] = Member(
                member_id=member_id, instance=asked.group_instance_id, protocols=protocols,
                session_ns=0, rebalance_ns=0,
            )  # fmt: skip
            as_it_was = False
        else:
            as_it_was = member.protocols == protocols
        member.protocols = protocols
        member.session_ns = asked.session_timeout_ms * NS_PER_MS
        member.rebalance_ns = asked.rebalance_timeout_ms * NS_PER_MS
        self.protocol_type = asked.protocol_type
        yield self._session(member_id, member.session_ns)
        serves = self.state is GroupState.COMPLETING or (
            self.state is GroupState.STABLE and member_id != self.leader
        )
        if as_it_was and serves:
            # The response to the member's first join was lost.
            yield Reply(asker=asker, message=self._generation_for(member))
            return
        member.joining = asker
        if self.state is GroupState.PREPARING:
            yield from self._complete_if_all()
        else:
            yield from self._prepare()

    def _replaced(self, instance: str | None) -> Iterator[Effect]:
        """Remove a static member's old process: a new process has replaced it (KIP-345)."""
        for each in list(self.members.values()):
            if instance is not None and each.instance == instance:
                del self.members[each.member_id]
                yield CancelTimer(timer=self._timer("session", each.member_id))
                if each.joining is not None:
                    yield _refused(each.joining, ErrorCode.fenced_instance_id, each.member_id)
                if each.syncing is not None:
                    fenced = SyncGroupResponse(error_code=ErrorCode.fenced_instance_id)
                    yield Reply(asker=each.syncing, message=fenced)

    def _prepare(self) -> Iterator[Effect]:
        first = self.state is GroupState.EMPTY
        for each in self.members.values():
            if each.syncing is not None:
                again = SyncGroupResponse(error_code=ErrorCode.rebalance_in_progress)
                yield Reply(asker=each.syncing, message=again)
                each.syncing = None
        self.state = GroupState.PREPARING
        if first and self.delay_ns:
            yield self._rebalance_within(self.delay_ns)
            return
        yield self._rebalance_within(self._patience_ns())
        yield from self._complete_if_all()

    def _complete_if_all(self) -> Iterator[Effect]:
        if self.state is not GroupState.PREPARING or self.pending:
            return
        if all(each.joining is not None for each in self.members.values()):
            yield from self._complete()

    def _waited_enough(self) -> Iterator[Effect]:
        if self.state is GroupState.PREPARING:
            for each in list(self.members.values()):
                if each.joining is None:
                    del self.members[each.member_id]
                    yield CancelTimer(timer=self._timer("session", each.member_id))
            yield from self._complete()
        elif self.state is GroupState.COMPLETING:
            for each in list(self.members.values()):
                if each.syncing is None:
                    del self.members[each.member_id]
                    yield CancelTimer(timer=self._timer("session", each.member_id))
            yield from self._prepare()

    def _complete(self) -> Iterator[Effect]:
        yield CancelTimer(timer=self._timer("rebalance"))
        self.generation += 1
        if not self.members:
            self.state, self.leader, self.protocol = GroupState.EMPTY, "", ""
            return
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        self.protocol = self._elected_protocol()
        self.state = GroupState.COMPLETING
        for each in self.members.values():
            each.assignment = b""
            if each.joining is not None:
                yield Reply(asker=each.joining, message=self._generation_for(each))
                each.joining = None
            yield self._session(each.member_id, each.session_ns)
        yield self._rebalance_within(self._patience_ns())

    def _elected_protocol(self) -> str:
        """Return the protocol that most members prefer, among those that all members support."""
        known = [[name for name, _ in each.protocols] for each in self.members.values()]
        common = [name for name in known[0] if all(name in names for names in known)]
        votes = [next(name for name in names if name in common) for names in known]
        return max(common, key=votes.count)

    def _generation_for(self, member: Member) -> JoinGroupResponse:
        told = self.members.values() if member.member_id == self.leader else ()
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.leader,
            member_id=member.member_id,
            members=tuple(
                JoinGroupResponseMember(
                    member_id=each.member_id,
                    group_instance_id=each.instance,
                    metadata=dict(each.protocols)[self.protocol],
                )
                for each in told
            ),
        )

    def _synced(self) -> Iterator[Effect]:
        for each in self.members.values():
            if each.syncing is not None:
                answer = SyncGroupResponse(
                    protocol_type=self.protocol_type,
                    protocol_name=self.protocol,
                    assignment=each.assignment,
                )
                yield Reply(asker=each.syncing, message=answer)
                each.syncing = None

    def _stranger(self, member_id: str, generation: int) -> ErrorCode:
        if member_id not in self.members:
            return ErrorCode.unknown_member_id
        if generation != self.generation:
            return ErrorCode.illegal_generation
        return ErrorCode.none

    def _patience_ns(self) -> Nanoseconds:
        return max((each.rebalance_ns for each in self.members.values()), default=0)

    def _session(self, member_id: str, session_ns: Nanoseconds) -> SetTimer:
        return timer(self._timer("session", member_id), session_ns)

    def _rebalance_within(self, within_ns: Nanoseconds) -> SetTimer:
        return timer(self._timer("rebalance"), within_ns)

    def _timer(self, *what: str) -> str:
        # The length comes first, because a group's name may contain any characters.
        return f"group:{len(self.name)}:{self.name}:" + ":".join(what)


def _refused(asker: Asker, error: ErrorCode, member_id: str) -> Reply:
    return Reply(asker=asker, message=JoinGroupResponse(error_code=error, member_id=member_id))
