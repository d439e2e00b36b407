"""Requests of a group member to its coordinator: offset commits and offset fetches.

Such a request is called a wish. A wish waits until the member knows a coordinator. The request is
sent again if another coordinator may answer it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

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

T = TypeVar("T")
ELSEWHERE = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available,
                       ErrorCode.network_exception})  # fmt: skip
"""After these errors, the member must look for the coordinator again."""
LATER = frozenset({*ELSEWHERE, ErrorCode.coordinator_load_in_progress})
"""After these errors, the same request may succeed later."""
NO_COORDINATOR = "_WAIT_COORD: Local: Waiting for coordinator"
Ended = Callable[[str | None, Sequence[Answer]], None]
"""A function that receives the result of a request: one error, or a result for each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The group, the member id and the generation that a request names."""

    group: str
    member: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A request to commit positions.

    Attributes:
        positions: The offset to commit for each partition.
        metadata: The metadata of each commit.
        patience_ns: How long the request waits for a coordinator. If a coordinator cannot accept
            the request yet, the request is repeated only once, as in librdkafka.
    """

    positions: Mapping[Key, int]
    metadata: str
    patience_ns: int

    def question(self, identity: Identity) -> OffsetCommitRequest:
        """Return the request, with the member's current identity."""
        parts = _by_topic(
            (
                topic,
                OffsetCommitRequestPartition(
                    partition_index=part, committed_offset=offset, committed_metadata=self.metadata
                ),
            )
            for (topic, part), offset in self.positions.items()
        )
        return OffsetCommitRequest(
            group_id=identity.group,
            generation_id_or_member_epoch=identity.generation,
            member_id=identity.member,
            topics=tuple(
                OffsetCommitRequestTopic(name=name, partitions=those) for name, those in parts
            ),
        )

    def read(self, message: object) -> tuple[ErrorCode, Sequence[Answer]]:
        """Return a response's error for the whole request, and the result for each partition."""
        if not isinstance(message, OffsetCommitResponse):
            return ErrorCode.network_exception, ()
        errors = {
            (topic.name, each.partition_index): each.error_code
            for topic in message.topics
            for each in topic.partitions
        }
        later = next((error for error in errors.values() if error in LATER), ErrorCode.none)
        answers = [
            Answer(key=key, metadata=self.metadata, error=error_name(error))
            for key, error in errors.items()
        ]
        return later, answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """A request for the group's committed offsets, repeated until its caller gives up."""

    keys: Sequence[Key]
    patience_ns: ClassVar[None] = None

    def question(self, identity: Identity) -> OffsetFetchRequest:
        """Return the request."""
        return OffsetFetchRequest(
            group_id=identity.group,
            topics=tuple(
                OffsetFetchRequestTopic(name=name, partition_indexes=those)
                for name, those in _by_topic(self.keys)
            ),
        )

    def read(self, message: object) -> tuple[ErrorCode, Sequence[Answer]]:
        """Return a response's error for the whole request, and the result for each partition."""
        if not isinstance(message, OffsetFetchResponse):
            return ErrorCode.network_exception, ()
        if message.error_code is not ErrorCode.none:
            return message.error_code, ()
        found = {
            (topic.name, each.partition_index): each
            for topic in message.topics
            for each in topic.partitions
        }
        return ErrorCode.none, [
            Answer(
                key=key,
                offset=each.committed_offset if each.committed_offset >= 0 else None,
                metadata=each.metadata,
                error=error_name(each.error_code),
            )
            for key, each in ((key, found[key]) for key in self.keys)
        ]


@dataclass(slots=True, kw_only=True, eq=False)
class Wish:
    """A request that is repeated until it gets a response, or has waited for too long.

    Attributes:
        what: The request.
        ended: The function that receives the result, once.
        asked: Whether the request is in flight.
        until_ns: The time after which the wish is given up; None means that there is no limit.
        rests_until_ns: The earliest time at which the request may be repeated.
    """

    what: Commit | Fetch
    ended: Ended
    asked: bool = False
    until_ns: int | None = None
    rests_until_ns: int = 0

    def waits(self, now: int) -> None:
        """When the wish waits for a coordinator for the first time, start its time limit."""
        if self.until_ns is None and self.what.patience_ns is not None:
            self.until_ns = now + self.what.patience_ns

    def answered(self, now: int, message: object) -> ErrorCode:
        """Handle a response, and return its error if the request may succeed later (`LATER`)."""
        error, answers = self.what.read(message)
        if error in LATER and self.until_ns is None:
            self.waits(now)
            return error
        self.ended(error_name(error), answers)
        return error if error in LATER else ErrorCode.none


def error_name(error: ErrorCode) -> str | None:
    """Return the name of an error for the run's record; None if there is no error."""
    if error is ErrorCode.network_exception:
        return "_TRANSPORT: Local: Broker transport failure"
    return None if error is ErrorCode.none else f"{error.name.upper()}: from the broker"


def _by_topic(pairs: Iterable[tuple[str, T]]) -> Iterable[tuple[str, tuple[T, ...]]]:
    grouped: dict[str, list[T]] = {}
    for topic, each in pairs:
        grouped.setdefault(topic, []).append(each)
    return ((topic, tuple(those)) for topic, those in grouped.items())
