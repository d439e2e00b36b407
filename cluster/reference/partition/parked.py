"""The waiting requests of a broker: Kafka's purgatory.

A produce request with acks=all waits for the high watermark. A fetch waits for bytes. Both wait at
most until their timeout, or until their connection closes.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

import msgspec
from kio.schema.errors import ErrorCode
from msgspec import Struct

from cluster.reference.machine import Asker, Nanoseconds, Reply
from cluster.reference.messages.data import FetchRequest, ProducedPartition, ProduceResponse


class HasFetches(Protocol):
    """A partition on which a fetch can wait.

    Attributes:
        fetches: The waiting fetches.
    """

    fetches: list["ParkedFetch"]


class ParkedFetch(Struct, eq=False, kw_only=True):
    """A waiting fetch that found too few bytes.

    Attributes:
        partitions: The partitions on which the fetch waits.
    """

    asker: Asker
    asked: FetchRequest
    partitions: Sequence[HasFetches]
    done: bool = False


class ParkedProduce(Struct, eq=False, kw_only=True):
    """A waiting produce request: some of its partitions are not committed yet.

    Attributes:
        results: The result for each partition, in the request's order. If a partition is not
            committed yet, this is its result in case the commit succeeds.
        waiting: The folders of the uncommitted partitions. The key of each is the partition's index
            in the request.
    """

    asker: Asker
    results: list[ProducedPartition]
    waiting: dict[int, str] = msgspec.field(default_factory=dict)
    done: bool = False

    def settle(self, place: int, error: ErrorCode) -> None:
        """Record the result for one partition of the waiting produce request."""
        del self.waiting[place]
        if error is not ErrorCode.none:
            mine = self.results[place]
            self.results[place] = ProducedPartition(
                topic=mine.topic, partition=mine.partition, error_code=error
            )

    def reply(self) -> Reply:
        """Return the response and mark the request as done."""
        self.done = True
        return Reply(asker=self.asker, message=ProduceResponse(partitions=tuple(self.results)))


class Awaited(Struct, eq=False, kw_only=True):
    """One partition of a waiting produce request. The high watermark must get up to `offset`."""

    offset: int
    parked: ParkedProduce
    place: int

    def __lt__(self, other: "Awaited") -> bool:
        """Compare by offset, because duplicates wait for much lower offsets than new batches."""
        return self.offset < other.offset

    def end(self, error: ErrorCode) -> Reply | None:
        """Record the partition's result; return the response if no partition still waits."""
        if self.parked.done:
            return None
        self.parked.settle(self.place, error)
        return None if self.parked.waiting else self.parked.reply()


@dataclass(slots=True, eq=False)
class ParkedProduces:
    """The produce requests that wait for one partition's high watermark."""

    _awaited: list[Awaited] = field(default_factory=list)

    def add(self, awaited: Awaited) -> None:
        """Add one partition of a waiting produce request."""
        insort(self._awaited, awaited)

    def has_reached(self, high_watermark: int) -> bool:
        """Return whether a produce request waits for this high watermark or a lower one."""
        awaited = self._awaited
        return bool(awaited) and awaited[0].offset <= high_watermark

    def committed(self, high_watermark: int, *, enough_in_sync: bool) -> list[Reply]:
        """Return the responses to the requests whose records are below a high watermark."""
        awaited, count = self._awaited, 0
        while count < len(awaited) and awaited[count].offset <= high_watermark:
            count += 1
        if not count:
            return []
        error = ErrorCode.none if enough_in_sync else ErrorCode.not_enough_replicas_after_append
        reached = awaited[:count]
        del awaited[:count]
        return self._settled(reached, error)

    def failed(self, error: ErrorCode) -> list[Reply]:
        """Return error responses to all waiting requests: this broker no longer leads."""
        all_of_them, self._awaited = self._awaited, []
        return self._settled(all_of_them, error)

    def forget_done(self) -> None:
        """Drop the produce requests that already have a response."""
        self._awaited = [each for each in self._awaited if not each.parked.done]

    def _settled(self, those: list[Awaited], error: ErrorCode) -> list[Reply]:
        return [reply for each in those if (reply := each.end(error)) is not None]


class Deadlines:
    """The deadlines of waiting requests. All deadlines together need only one timer."""

    __slots__ = ("_heap", "_number", "armed_ns")

    def __init__(self) -> None:
        self._heap: list[tuple[Nanoseconds, int, ParkedFetch | ParkedProduce]] = []
        self._number = 0
        self.armed_ns: Nanoseconds | None = None

    def add(self, deadline_ns: Nanoseconds, parked: ParkedFetch | ParkedProduce) -> bool:
        """Add a deadline; return whether the timer must be set to this deadline."""
        heap = self._heap
        while heap and heap[0][2].done:
            heappop(heap)
        self._number += 1
        heappush(heap, (deadline_ns, self._number, parked))
        if self.armed_ns is not None and self.armed_ns <= deadline_ns:
            return False
        self.armed_ns = deadline_ns
        return True

    def due(self, now: Nanoseconds) -> Iterator[ParkedFetch | ParkedProduce]:
        """Yield the requests whose deadline has passed."""
        self.armed_ns = None
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].done):
            parked = heappop(self._heap)[2]
            if not parked.done:
                yield parked

    def next_ns(self) -> Nanoseconds | None:
        """Return the next deadline, or None. The caller sets the timer to this deadline."""
        self.armed_ns = self._heap[0][0] if self._heap else None
        return self.armed_ns

    def all(self) -> Iterator[ParkedFetch | ParkedProduce]:
        """Yield all waiting requests, in the order of their arrival."""
        for _, _, parked in sorted(self._heap, key=lambda each: each[1]):
            if not parked.done:
                yield parked
