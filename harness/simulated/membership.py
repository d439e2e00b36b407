"""A simulated consumer's group membership: join, sync, heartbeat, rebalance and leave.

The protocol follows librdkafka:
https://cwiki.apache.org/confluence/display/KAFKA/Kafka+Client-side+Assignment+Proposal, KIP-394 (a
member asks for its id) and KIP-429 (cooperative rebalances).
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Self

from kio.schema.errors import ErrorCode

from cluster.reference.machine import Effect
from cluster.reference.messages.clients import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from harness.simulated.asking import ANSWERED_NS, BACKOFF_NS, MS, Questions, Taker
from harness.simulated.assignors import Subscription, assignment, dealt, packed, subscription
from harness.simulated.honoured import HEARTBEAT, POLL, SESSION, STRATEGY
from harness.simulated.leaders import Leaders
from harness.simulated.wishes import ELSEWHERE, LATER, NO_COORDINATOR, Identity, Wish
from results.record.plan import Plan
from workloads.clients.settings import is_incremental, member_settings
from workloads.protocol import Key

SERVED_NS = 250 * MS
"""How often a member checks whether something is due."""
_LOOK_NS = 500 * MS
_JOIN_NS = 1000 * MS
"""The time between two attempts to join, as in librdkafka."""
_GRACE_NS = 3000 * MS
LEAVE_NS = 5000 * MS
POLLED_LATE = "_MAX_POLL_EXCEEDED: Local: Maximum application poll interval exceeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The client settings that a membership uses; times are in nanoseconds."""

    group: str
    client_id: str
    session_ns: int
    heartbeat_ns: int
    poll_ns: int
    assignors: tuple[str, ...]
    incremental: bool

    @classmethod
    def of(cls, plan: Plan, process: int, group: str) -> Self:
        """Return the settings of a plan's group members, with librdkafka's defaults."""
        client_id = f"process-{process}"
        settings = member_settings(plan, bootstrap="", client_id=client_id, group=group)
        names = str(settings.get(STRATEGY, "range,roundrobin"))
        return cls(
            group=group,
            client_id=client_id,
            session_ns=int(str(settings[SESSION])) * MS,
            heartbeat_ns=int(str(settings[HEARTBEAT])) * MS,
            poll_ns=int(str(settings[POLL])) * MS,
            assignors=tuple(name.strip() for name in names.split(",")),
            incremental=is_incremental(settings),
        )


class Stage(Enum):
    """The state of a member between two generations."""

    OUT = "out"
    WAITING = "waiting"
    """The member must join the group."""
    JOINING = "joining"
    SYNCING = "syncing"
    DEALING = "dealing"
    """The application must still take or release some partitions, as the group wants."""
    STEADY = "steady"


_MEMBER = frozenset({Stage.DEALING, Stage.STEADY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealt:
    """An event that gives partitions to the application or takes them away."""

    keys: tuple[Key, ...]
    given: bool


class Membership:
    """The group membership of a consumer's machine.

    Args:
        settings: The group settings.
        leaders: The known leaders, brokers and partition counts.
        questions: This machine's requests.

    Attributes:
        events: Changes of the assignment that the application must still see. The caller passes
            each change to the application, and then calls `told`. After the last change, the caller
            calls `settled`.
        error: Why the next poll fails.
        polled: Whether the application has polled. Each poll sets this to True.
    """

    def __init__(self, settings: GroupSettings, leaders: Leaders, questions: Questions) -> None:
        self._settings, self._leaders, self._questions = settings, leaders, questions
        self.events: deque[Dealt] = deque()
        self.error: str | None = None
        self.polled = True
        self._topics: tuple[str, ...] = ()
        self._owned: dict[Key, None] = {}
        self._stage = Stage.OUT
        self._member, self._generation, self._incremental = "", -1, settings.incremental
        self._joins_again = self._is_lost = False
        self._coordinator: int | None = None
        self._try = 0
        self._looks_ns = self._joins_ns = self._beats_ns = self._heard_ns = self._polled_ns = 0
        self._beating = False
        self._wishes: list[Wish] = []
        self._out: list[Effect] = []

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group at the next `work`."""
        self._topics, self._stage = tuple(topics), Stage.WAITING

    def want(self, wish: Wish) -> None:
        """Send a commit or an offset fetch at the next `work`."""
        self._wishes.append(wish)

    def forget(self, wish: Wish) -> None:
        """Drop a commit or an offset fetch for which the caller no longer waits."""
        if wish in self._wishes:
            self._wishes.remove(wish)

    def owns(self, key: Key) -> bool:
        """Return whether the application owns a partition now."""
        return key in self._owned

    def told(self, event: Dealt) -> None:
        """Record that the application has taken or released the partitions of an event."""
        for key in event.keys:
            if event.given:
                self._owned[key] = None
            else:
                self._owned.pop(key, None)

    def settled(self) -> None:
        """Continue after the application has seen all changes."""
        if self._stage is not Stage.DEALING:
            return
        lost, again = self._is_lost, self._joins_again or self._is_lost
        self._is_lost = self._joins_again = False
        if lost and self._owned:
            self._take(tuple(self._owned))
        elif again:
            self._stage, self._joins_ns = Stage.WAITING, 0
        else:
            self._stage = Stage.STEADY

    def leave(self, left: Callable[[], None]) -> bool:
        """Leave the group at the next `work`; return whether a response will come."""
        self._stage, self._wishes = Stage.OUT, []
        if not self._member or self._coordinator is None:
            return False
        self._say_goodbye(lambda _now, _message: left())
        return True

    def work(self, now: int) -> list[Effect]:
        """Do the work that is due, and return the requests to send."""
        if self.polled:
            self.polled, self._polled_ns = False, now
        self._give_up(now)
        if self._stage in _MEMBER:
            self._look_after(now)
        if self._coordinator is None:
            self._look(now)
        else:
            self._ask_wishes(now)
            if self._stage is Stage.WAITING:
                self._join(now)
            elif self._stage in _MEMBER:
                self._beat(now)
        out, self._out = self._out, []
        return out

    def _look_after(self, now: int) -> None:
        """End the membership after the session timeout, or if the application polls too rarely."""
        if now - self._polled_ns > self._settings.poll_ns:
            self._say_goodbye(lambda _now, _message: None)
            self.error = POLLED_LATE
            self._lose()
            self._stage = Stage.OUT
        elif now - self._heard_ns > self._settings.session_ns:
            self._member = ""  # The group must have removed this member.
            self._lose()

    def _look(self, now: int) -> None:
        wanted = self._stage is not Stage.OUT or self._wishes
        if wanted and now >= self._looks_ns:
            self._looks_ns = now + _LOOK_NS
            question = FindCoordinatorRequest(key=self._settings.group)
            self._out.append(self._questions.ask(self._leaders.someone(), question, self._found))

    def _found(self, _now: int, message: object) -> None:
        if isinstance(message, FindCoordinatorResponse) and message.error_code is ErrorCode.none:
            self._coordinator = message.node_id

    def _join(self, now: int) -> None:
        known = self._leaders.partitions
        if now < self._joins_ns or any(topic not in known for topic in self._topics):
            return
        self._stage, self._joins_ns = Stage.JOINING, now + _JOIN_NS
        self._try += 1
        told = Subscription(
            topics=self._topics,
            owned=tuple(self._owned) if self._incremental else (),
            generation=self._generation,
        )
        settings, metadata = self._settings, packed(told)
        question = JoinGroupRequest(
            group_id=settings.group,
            session_timeout_ms=settings.session_ns // MS,
            rebalance_timeout_ms=settings.poll_ns // MS,
            member_id=self._member,
            protocol_type="consumer",
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in settings.assignors
            ),
            client_id=settings.client_id,
            names_itself=True,
        )
        limit_ns = settings.poll_ns + _GRACE_NS
        self._ask(question, partial(self._joined, self._try), limit_ns)

    def _joined(self, number: int, now: int, message: object) -> None:
        if number != self._try or self._stage is not Stage.JOINING:
            return
        error = _error(message, JoinGroupResponse)
        if not isinstance(message, JoinGroupResponse) or error is not ErrorCode.none:
            if isinstance(message, JoinGroupResponse) and error is ErrorCode.member_id_required:
                self._member, self._joins_ns = message.member_id, now
            self._fail_to_join(error)
            return
        self._member, self._generation = message.member_id, message.generation_id
        if self._coordinator is None:  # Meanwhile, a commit was refused: the coordinator moved.
            self._stage = Stage.WAITING
            return
        self._stage, self._heard_ns = Stage.SYNCING, now
        question = SyncGroupRequest(
            group_id=self._settings.group,
            generation_id=self._generation,
            member_id=self._member,
            assignments=self._dealt(message) if message.leader == self._member else (),
        )
        limit_ns = self._settings.session_ns + _GRACE_NS
        self._ask(question, partial(self._synced, number), limit_ns)

    def _dealt(self, told: JoinGroupResponse) -> tuple[SyncGroupRequestAssignment, ...]:
        members = {each.member_id: subscription(each.metadata) for each in told.members}
        given = dealt(told.protocol_name or "", members, self._leaders.partitions)
        return tuple(
            SyncGroupRequestAssignment(member_id=member, assignment=packed(keys))
            for member, keys in given.items()
        )

    def _synced(self, number: int, now: int, message: object) -> None:
        if number != self._try or self._stage is not Stage.SYNCING:
            return
        error = _error(message, SyncGroupResponse)
        if not isinstance(message, SyncGroupResponse) or error is not ErrorCode.none:
            if error is ErrorCode.rebalance_in_progress:
                self._joins_ns = now
            self._fail_to_join(error)
            return
        self._stage, self._heard_ns, self._beats_ns = Stage.DEALING, now, now
        keys = assignment(message.assignment)
        gone = tuple(key for key in self._owned if key not in keys)
        if gone:  # Other members get them in the next generation.
            self.events.append(Dealt(keys=gone, given=False))
            self._joins_again = True
        fresh = tuple(key for key in keys if key not in self._owned)
        self.events.append(Dealt(keys=fresh, given=True))

    def _fail_to_join(self, error: ErrorCode) -> None:
        self._stage = Stage.WAITING
        self._note(error)
        if error in _STRANGER and self._owned:
            self._take(tuple(self._owned))

    def _beat(self, now: int) -> None:
        if self._beating or now < self._beats_ns:
            return
        self._beating, self._beats_ns = True, now + self._settings.heartbeat_ns
        question = HeartbeatRequest(
            group_id=self._settings.group, generation_id=self._generation, member_id=self._member
        )
        limit_ns = self._settings.session_ns
        self._ask(question, partial(self._beaten, self._try), limit_ns)

    def _beaten(self, number: int, now: int, message: object) -> None:
        self._beating = False
        if number != self._try or self._stage not in _MEMBER:
            return
        error = _error(message, HeartbeatResponse)
        if error in {ErrorCode.none, ErrorCode.rebalance_in_progress}:
            self._heard_ns = now
        self._note(error)
        if error in _STRANGER:
            self._lose()
        elif error is ErrorCode.rebalance_in_progress and self._stage is Stage.STEADY:
            if self._owned and not self._incremental:
                self._take(tuple(self._owned))
            else:
                self._stage, self._joins_ns = Stage.WAITING, 0

    def _note(self, error: ErrorCode) -> None:
        """Handle an error: the coordinator has moved, or this member is no longer in the group."""
        if error in ELSEWHERE:
            self._coordinator = None
        if error is ErrorCode.unknown_member_id:
            self._member = ""
        if error in _STRANGER:
            self._generation = -1

    def _lose(self) -> None:
        """Give up all partitions, because the group may have assigned them to other members."""
        self._generation = -1
        if self._stage is Stage.DEALING:
            self.events = deque(each for each in self.events if not each.given)
            self._is_lost = True
        elif self._owned:
            self._take(tuple(self._owned))
        else:
            self._stage, self._joins_ns = Stage.WAITING, 0

    def _take(self, keys: tuple[Key, ...]) -> None:
        self._stage, self._joins_again = Stage.DEALING, True
        self.events.append(Dealt(keys=keys, given=False))

    def _give_up(self, now: int) -> None:
        for wish in [each for each in self._wishes if not each.asked]:
            if self._coordinator is None:
                wish.waits(now)
            if wish.until_ns is not None and now >= wish.until_ns:
                self._wishes.remove(wish)
                wish.ended(NO_COORDINATOR, ())

    def _ask_wishes(self, now: int) -> None:
        name = Identity(
            group=self._settings.group, member=self._member, generation=self._generation
        )
        for wish in self._wishes:
            if not wish.asked and wish.rests_until_ns <= now:
                wish.asked = True
                self._ask(wish.what.question(name), partial(self._granted, wish))

    def _granted(self, wish: Wish, now: int, message: object) -> None:
        wish.asked, wish.rests_until_ns = False, now + BACKOFF_NS
        waited = wish.until_ns is not None
        error = wish.answered(now, message)
        self._note(error)
        if error not in LATER or waited:
            self.forget(wish)

    def _say_goodbye(self, left: Taker) -> None:
        if self._member and self._coordinator is not None:
            question = LeaveGroupRequest(group_id=self._settings.group, member_id=self._member)
            self._ask(question, left, LEAVE_NS)

    def _ask(self, message: object, taker: Taker, limit_ns: int = ANSWERED_NS) -> None:
        assert self._coordinator is not None, "the coordinator is known by then"
        self._out.append(self._questions.ask(self._coordinator, message, taker, limit_ns))


_STRANGER = frozenset({ErrorCode.unknown_member_id, ErrorCode.illegal_generation,
                       ErrorCode.fenced_instance_id})  # fmt: skip
"""The errors after which a member is no longer in the group."""


def _error(message: object, kind: type) -> ErrorCode:
    """Return the error in a response, or a network error if no response came."""
    if not isinstance(message, kind):
        return ErrorCode.network_exception
    error: ErrorCode = message.error_code  # type: ignore[attr-defined] # all kinds have one
    return error
