"""What a member asks its group's coordinator for besides its membership: commits, and positions.

A wish waits for a coordinator, and is asked again where the answer may come from another one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kio.schema.errors import ErrorCode

from cluster.reference.messages.clients import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from workloads.member import Answer
from workloads.protocol import Key

MS = 1_000_000
ELSEWHERE = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available,
                       ErrorCode.network_exception})  # fmt: skip
"""The coordinator must be looked for."""
LATER = frozenset({*ELSEWHERE, ErrorCode.coordinator_load_in_progress})
"""The same question may be answered later."""
NO_COORDINATOR = "_WAIT_COORD: Local: Waiting for coordinator"
Ended = Callable[[str | None, Sequence[Answer]], None]
"""Takes an error of all, or each partition's answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """In whose name a wish is asked."""

    group: str
    member: str
    generation: int


class Wish(Protocol):
    """A question that is asked until it has an answer, or has waited for too long.

    Attributes:
        asked: Whether an answer is on its way.
        until_ns: When it is given up; None: never by itself.
        rests_until_ns: Not asked again before.
    """

    asked: bool
    until_ns: int | None
    rests_until_ns: int

    @property
    def ended(self) -> Ended:
        """What is told how it ended, once."""

    def question(self, identity: Identity) -> object:
        """Return what is asked."""

    def waits(self, now: int) -> None:
        """Note that there is no coordinator to ask."""

    def answered(self, now: int, message: object) -> ErrorCode:
        """Take an answer, and say how it failed; what may be asked again is in `LATER`."""


@dataclass(slots=True, kw_only=True, eq=False)
class CommitWish:
    """Commits positions; waits for a coordinator once, for a session's time, as librdkafka does."""

    positions: Mapping[Key, int]
    metadata: str
    patience_ns: int
    ended: Ended
    asked: bool = False
    until_ns: int | None = None
    rests_until_ns: int = 0

    def question(self, identity: Identity) -> OffsetCommitRequest:
        """Return what is asked; in the name that its member has by now."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, part), offset in self.positions.items():
            each = OffsetCommitRequestPartition(
                partition_index=part, committed_offset=offset, committed_metadata=self.metadata
            )
            topics.setdefault(topic, []).append(each)
        return OffsetCommitRequest(
            group_id=identity.group,
            generation_id_or_member_epoch=identity.generation,
            member_id=identity.member,
            topics=tuple(
                OffsetCommitRequestTopic(name=name, partitions=tuple(parts))
                for name, parts in topics.items()
            ),
        )

    def waits(self, now: int) -> None:
        """Wait for a session's time, counted from the first time that there is none."""
        if self.until_ns is None:
            self.until_ns = now + self.patience_ns

    def answered(self, now: int, message: object) -> ErrorCode:
        """Take an answer."""
        if not isinstance(message, OffsetCommitResponse):
            return self._deferred(now, ErrorCode.network_exception)
        errors = {
            (topic.name, each.partition_index): each.error_code
            for topic in message.topics
            for each in topic.partitions
        }
        later = next((error for error in errors.values() if error in LATER), None)
        if later is not None:
            return self._deferred(now, later)
        self.ended(None, [self._answer(key, error) for key, error in errors.items()])
        return ErrorCode.none

    def _deferred(self, now: int, error: ErrorCode) -> ErrorCode:
        if self.until_ns is None:
            self.waits(now)
        else:
            self.ended(None, [self._answer(key, error) for key in self.positions])
        return error

    def _answer(self, key: Key, error: ErrorCode) -> Answer:
        return Answer(key=key, metadata=self.metadata, error=error_name(error))


@dataclass(slots=True, kw_only=True, eq=False)
class FetchWish:
    """Asks what the group has committed, for as long as somebody wants to know."""

    keys: Sequence[Key]
    ended: Ended
    asked: bool = False
    until_ns: int | None = None
    rests_until_ns: int = 0
    answers: dict[Key, Answer] = field(default_factory=dict)

    def question(self, identity: Identity) -> OffsetFetchRequest:
        """Return what is asked."""
        topics: dict[str, list[int]] = {}
        for topic, part in self.keys:
            topics.setdefault(topic, []).append(part)
        return OffsetFetchRequest(
            group_id=identity.group,
            topics=tuple(
                OffsetFetchRequestTopic(name=name, partition_indexes=tuple(parts))
                for name, parts in topics.items()
            ),
        )

    def waits(self, now: int) -> None:
        """Wait for as long as it takes: whoever wants to know has a limit, or none."""

    def answered(self, now: int, message: object) -> ErrorCode:
        """Take an answer."""
        del now
        if not isinstance(message, OffsetFetchResponse):
            return ErrorCode.network_exception
        if message.error_code in LATER:
            return message.error_code
        if message.error_code is not ErrorCode.none:
            self.ended(error_name(message.error_code), ())
            return ErrorCode.none
        found = {
            (topic.name, each.partition_index): each
            for topic in message.topics
            for each in topic.partitions
        }
        answers = [
            Answer(
                key=key,
                offset=each.committed_offset if each.committed_offset >= 0 else None,
                metadata=each.metadata,
                error=error_name(each.error_code),
            )
            for key, each in ((key, found[key]) for key in self.keys)
        ]
        self.ended(None, answers)
        return ErrorCode.none


def error_name(error: ErrorCode) -> str | None:
    """Return an error as the record has it; None: it is none."""
    if error is ErrorCode.network_exception:
        return "_TRANSPORT: Local: Broker transport failure"
    return None if error is ErrorCode.none else f"{error.name.upper()}: from the broker"
