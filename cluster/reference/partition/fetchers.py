"""A follower's fetchers: for each leader, one fetcher fetches all partitions at once.

A fetcher has at most one open request. A response counts for a partition only if two things have
not changed since the request: the leader and epoch that the partition follows, and the end of its
log.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from kio.schema.errors import ErrorCode

from cluster.reference.log.batches import BadBatchError
from cluster.reference.log.log import MisplacedBatchError
from cluster.reference.machine import Effect, Nanoseconds, Request, Say, SetTimer
from cluster.reference.messages.data import (
    EARLIEST,
    LATEST,
    UNKNOWN,
    EpochPartition,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
)
from cluster.reference.partition import follower
from cluster.reference.partition.partition import Partition
from cluster.reference.settings import NANOSECONDS_A_MS, Settings, Truncation

BACKOFF_TIMER = "replicas:backoff:"


class Phase(Enum):
    """The kinds of requests that a follower can send to its leader next."""

    FETCH = "fetch"
    EPOCH_END = "epoch-end"
    """The follower asks where its last epoch ends. Only the rule `leader-epoch-v0` needs this."""
    BOUNDS = "bounds"
    """The follower asks for the leader's log start and end, because a fetch was out of range."""
    WAIT = "wait"
    """The follower asks nothing until the controller announces the leader's new epoch."""


_QUESTIONS = (Phase.EPOCH_END, Phase.BOUNDS, Phase.FETCH)
_FETCH, _LEADER_EPOCH, _NONE = Phase.FETCH, Truncation.LEADER_EPOCH, ErrorCode.none
"""Copies of enum members: it is slow to look up the members for each fetch."""


@dataclass(slots=True, eq=False, kw_only=True)
class Following:
    """A partition that a fetcher copies from the leader.

    Attributes:
        partition: The replica.
        epoch: The leader epoch in which the replica follows.
        phase: The next request to the leader.
        rests_until_ns: The follower asks nothing before this time (`replica.fetch.backoff.ms`).
        asked: The last fetch. It is used again as long as nothing has changed.
    """

    partition: Partition
    epoch: int
    phase: Phase
    rests_until_ns: Nanoseconds = 0
    asked: FetchPartition | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Fetcher:
    """A fetcher that copies partitions from one leader.

    Attributes:
        leader: The leader's broker id.
        following: The partitions by folder.
        under_way: The number of the open request; None if there is none.
        asked: The partitions in the open request.
        request: The last fetch request. It is built again only after a change.
    """

    leader: int
    following: dict[str, Following] = field(default_factory=dict)
    under_way: int | None = None
    asked: tuple[Following, ...] = ()
    request: FetchRequest | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Fetchers:
    """All fetchers of a broker.

    Attributes:
        me: The broker's id.
        settings: The node's settings.
        next_number: Returns the next `Request.number`.
        broker_epoch: This broker's epoch (KIP-903).
        asked_by: The fetcher of each open request, by the request's number.
    """

    me: int
    settings: Settings
    next_number: Callable[[], int]
    broker_epoch: int = UNKNOWN
    _rule: Truncation = field(init=False)
    _by_leader: dict[int, Fetcher] = field(default_factory=dict)
    _leader_of: dict[str, int] = field(default_factory=dict)
    asked_by: dict[int, Fetcher] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose the truncation rule."""
        self._rule = follower.rule_of(self.settings)

    def follow(self, partition: Partition, now: Nanoseconds, out: list[Effect]) -> None:
        """Begin to follow a partition's leader. Some rules truncate the log first."""
        folder, leader = partition.log.folder, partition.state.leader
        self.leave(folder)
        rule, phase = self._rule, Phase.FETCH
        if rule is Truncation.HIGH_WATERMARK:
            follower.truncate_to_high_watermark(partition, me=self.me, out=out)
        elif rule is Truncation.LEADER_EPOCH_V0 and partition.log.last_epoch != UNKNOWN:
            phase = Phase.EPOCH_END
        fetcher = self._by_leader.setdefault(leader, Fetcher(leader=leader))
        self._leader_of[folder] = leader
        fetcher.following[folder] = Following(
            partition=partition, epoch=partition.state.leader_epoch, phase=phase
        )
        self._turn(fetcher, now, out)

    def leave(self, folder: str) -> None:
        """Stop following. If a request is open, its response no longer counts for the partition."""
        leader = self._leader_of.pop(folder, None)
        if leader is None:
            return
        fetcher = self._by_leader[leader]
        del fetcher.following[folder]
        if not fetcher.following:
            # Its open request may take long. A new fetcher for this leader need not wait for it.
            del self._by_leader[leader]

    def answered(self, now: Nanoseconds, number: int, answer: object, out: list[Effect]) -> None:
        """Handle a response, and send the next request."""
        fetcher = self.asked_by.pop(number)
        asked, fetcher.under_way = fetcher.asked, None
        following = fetcher.following
        # Partitions that left, or that follow in another epoch, ignore this response.
        mine = [each for each in asked if following.get(each.partition.log.folder) is each]
        match answer:
            case FetchResponse() if answer.error_code is _NONE:
                self._fetched(mine, answer.partitions, now, out)
            case OffsetsForLeaderEpochResponse():
                self._epochs_end(mine, answer, now, out)
            case ListOffsetsResponse():
                self._bounds(mine, answer, now, out)
            case _:
                for each in mine:
                    self._rest(each, now)
        self._turn(fetcher, now, out)

    def rested(self, now: Nanoseconds, leader: int, out: list[Effect]) -> None:
        """Continue after a pause."""
        if (fetcher := self._by_leader.get(leader)) is not None:
            self._turn(fetcher, now, out)

    def _turn(self, fetcher: Fetcher, now: Nanoseconds, out: list[Effect]) -> None:
        """Send the next request, unless a request is already open or all partitions pause."""
        if fetcher.under_way is not None or not fetcher.following:
            return
        all_of_them = tuple(fetcher.following.values())
        for each in all_of_them:
            if each.phase is not _FETCH or each.rests_until_ns > now:
                break
        else:
            self._ask(fetcher, all_of_them, self._fetch(fetcher, all_of_them), out)
            return
        asked: dict[Phase, list[Following]] = {}
        rests_until_ns: Nanoseconds | None = None
        for each in fetcher.following.values():
            if each.rests_until_ns <= now:
                asked.setdefault(each.phase, []).append(each)
            elif rests_until_ns is None or each.rests_until_ns < rests_until_ns:
                rests_until_ns = each.rests_until_ns
        if rests_until_ns is not None:
            after, timer = rests_until_ns - now, f"{BACKOFF_TIMER}{fetcher.leader}"
            out.append(SetTimer(timer=timer, after_ns=after, at_most_ns=after))
        for phase in _QUESTIONS:
            if phase in asked:
                those = tuple(asked[phase])
                self._ask(fetcher, those, self._question(phase, fetcher, those), out)
                return

    def _ask(
        self, fetcher: Fetcher, asked: tuple[Following, ...], question: object, out: list[Effect]
    ) -> None:
        number = self.next_number()
        wait_ms = self.settings.replica_fetch_wait_max_ms + self.settings.replica_socket_timeout_ms
        fetcher.under_way, fetcher.asked = number, asked
        self.asked_by[number] = fetcher
        out.append(
            Request(
                number=number,
                to=fetcher.leader,
                message=question,
                timeout_ns=wait_ms * NANOSECONDS_A_MS,
            )
        )

    def _question(self, phase: Phase, fetcher: Fetcher, asked: tuple[Following, ...]) -> object:
        if phase is Phase.EPOCH_END:
            return OffsetsForLeaderEpochRequest(
                partitions=tuple(_epoch_question(each) for each in asked), replica_id=self.me
            )
        if phase is Phase.BOUNDS:
            return ListOffsetsRequest(
                partitions=tuple(one for each in asked for one in _bounds_question(each)),
                replica_id=self.me,
            )
        return self._fetch(fetcher, asked)

    def _fetch(self, fetcher: Fetcher, asked: tuple[Following, ...]) -> FetchRequest:
        entries = tuple([self._entry(each) for each in asked])
        before = fetcher.request
        if (
            before is not None
            and before.replica_epoch == self.broker_epoch
            and before.partitions == entries  # Unchanged entries are the same objects.
        ):
            return before
        settings = self.settings
        fetcher.request = FetchRequest(
            partitions=entries,
            max_wait_ms=settings.replica_fetch_wait_max_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
            replica_id=self.me,
            replica_epoch=self.broker_epoch,
        )
        return fetcher.request

    def _entry(self, each: Following) -> FetchPartition:
        log, before = each.partition.log, each.asked
        last_epoch = log.epochs.latest if self._rule is _LEADER_EPOCH else UNKNOWN
        if (
            before is not None
            and before.fetch_offset == log.end_offset
            and before.last_fetched_epoch == last_epoch
        ):
            return before
        state = each.partition.state
        each.asked = FetchPartition(
            topic=state.topic,
            partition=state.partition,
            topic_id=state.topic_id,
            fetch_offset=log.end_offset,
            partition_max_bytes=self.settings.replica_fetch_max_bytes,
            current_leader_epoch=each.epoch,
            last_fetched_epoch=last_epoch,
            log_start_offset=log.start_offset,
        )
        return each.asked

    def _fetched(
        self,
        mine: list[Following],
        told: tuple[FetchedPartition, ...],
        now: Nanoseconds,
        out: list[Effect],
    ) -> None:
        by_place = {(each.topic, each.partition): each for each in told}
        for each in mine:
            state = each.partition.state
            answer = by_place.get((state.topic, state.partition))
            if answer is None:
                self._rest(each, now)
            elif each.asked and each.asked.fetch_offset == each.partition.log.end_offset:
                self._take(each, answer, now, out)

    def _take(
        self, each: Following, told: FetchedPartition, now: Nanoseconds, out: list[Effect]
    ) -> None:
        """Handle the fetched result for one partition."""
        if told.error_code is not _NONE:
            self._refused(each, told.error_code, now)
            return
        partition = each.partition
        if told.diverging_epoch != UNKNOWN or told.diverging_end_offset != UNKNOWN:
            # KIP-595: the response to a fetch reports where the logs diverge.
            follower.truncate_to_agreement(partition, told, me=self.me, out=out)
            return
        try:
            if told.records:
                partition.log.append_as_follower(told.records, out=out)
        except (BadBatchError, MisplacedBatchError) as wrong:
            out.append(Say(text=f"Found invalid messages during fetch for {wrong}"))
            self._rest(each, now)
            return
        known = min(told.high_watermark, partition.log.end_offset)
        # A new leader's high watermark may be behind the old one's. Committed records stay
        # committed.
        partition.high_watermark = max(partition.high_watermark, known)

    def _refused(self, each: Following, code: ErrorCode, now: Nanoseconds) -> None:
        if code is ErrorCode.offset_out_of_range:
            each.phase = Phase.BOUNDS
        # KIP-320: the controller will announce the partition's state in a later epoch.
        elif code is ErrorCode.fenced_leader_epoch:
            each.phase = Phase.WAIT
        else:
            self._rest(each, now)

    def _epochs_end(
        self,
        mine: list[Following],
        answer: OffsetsForLeaderEpochResponse,
        now: Nanoseconds,
        out: list[Effect],
    ) -> None:
        told = {f"{each.topic}-{each.partition}": each for each in answer.partitions}
        for each in mine:
            end = told.get(each.partition.log.folder)
            if end is None or end.error_code is not ErrorCode.none:
                self._refused(each, end.error_code if end else ErrorCode.none, now)
                continue
            follower.truncate_to_epoch_end(each.partition, end, me=self.me, out=out)
            each.phase = Phase.FETCH

    def _bounds(
        self,
        mine: list[Following],
        answer: ListOffsetsResponse,
        now: Nanoseconds,
        out: list[Effect],
    ) -> None:
        told: dict[str, list[int]] = {}
        for each in answer.partitions:
            if each.error_code is ErrorCode.none:
                told.setdefault(f"{each.topic}-{each.partition}", []).append(each.offset)
        for following in mine:
            bounds = told.get(following.partition.log.folder, [])
            following.phase = Phase.FETCH
            self._rest(following, now)
            if len(bounds) == 2:  # noqa: PLR2004 - the first and the last offset
                follower.truncate_to_leaders_log(
                    following.partition, *sorted(bounds), me=self.me, out=out
                )

    def _rest(self, each: Following, now: Nanoseconds) -> None:
        each.rests_until_ns = now + self.settings.replica_fetch_backoff_ms * NANOSECONDS_A_MS


def _epoch_question(each: Following) -> EpochPartition:
    state = each.partition.state
    return EpochPartition(
        topic=state.topic,
        partition=state.partition,
        leader_epoch=each.partition.log.last_epoch,
        current_leader_epoch=each.epoch,
    )


def _bounds_question(each: Following) -> Iterator[ListOffsetsPartition]:
    state = each.partition.state
    for timestamp in (EARLIEST, LATEST):
        yield ListOffsetsPartition(
            topic=state.topic,
            partition=state.partition,
            timestamp=timestamp,
            current_leader_epoch=each.epoch,
        )
