"""Handle Produce, Fetch and offset requests, each for all partitions that the request names."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from cluster.reference.bugs import Bug
from cluster.reference.log.producers import Kept
from cluster.reference.machine import Asker, Effect, Nanoseconds, Reply, SetTimer
from cluster.reference.messages.data import (
    CONSUMER,
    INTERNAL_TOPICS,
    UNKNOWN,
    EpochEnd,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListedOffset,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
)
from cluster.reference.partition.isr import IsrChanges
from cluster.reference.partition.parked import Awaited, Deadlines, ParkedFetch, ParkedProduce
from cluster.reference.partition.partition import Partition
from cluster.reference.partition.produced import RefusedError, accepted
from cluster.reference.partition.reading import epoch_end, listed, read
from cluster.reference.partition.registry import Registry
from cluster.reference.settings import NANOSECONDS_A_MS

PARKED_TIMER = "replicas:parked"
_NONE = ErrorCode.none
"""A copy of an enum member: it is slow to look up the member for each batch."""
_ALL = -1
_ACKS = (_ALL, 0, 1)


@dataclass(slots=True, eq=False)
class Requests:
    """The requests of followers and clients, including the waiting requests."""

    _registry: Registry
    _isr: IsrChanges
    _deadlines: Deadlines = field(default_factory=Deadlines)

    def produce(
        self, now: Nanoseconds, asker: Asker, asked: ProduceRequest, *, out: list[Effect]
    ) -> None:
        """Append records. Respond when as many replicas have them as `acks` demands."""
        parked = ParkedProduce(asker=asker, results=[])
        awaited: list[tuple[Partition, Awaited]] = []
        for place, each in enumerate(asked.partitions):
            try:
                partition, end, result = self._append(each, asked, out)
            except RefusedError as refused:
                parked.results.append(self._produce_refused(each, refused))
                continue
            parked.results.append(result)
            awaited.append((partition, Awaited(offset=end, parked=parked, place=place)))
        for partition, _ in awaited:
            self.settle(partition, now, out, appended=True)
        wait = asked.acks == _ALL
        if Bug.ACK_BEFORE_COMMIT in self._registry.settings.bugs:
            wait = False  # The bug: records that only the leader has are acknowledged.
        if wait:
            self._park_uncommitted(parked, awaited)
        if parked.waiting:
            self._park(now, parked, asked.timeout_ms, out)
        else:
            out.append(parked.reply())

    def fetch(
        self, now: Nanoseconds, asker: Asker, asked: FetchRequest, *, out: list[Effect]
    ) -> None:
        """Read records. If there are enough, or if there is an error, respond at once."""
        partitions = self._having_nothing_for(asked)
        if partitions is None:
            results, enough = self._read(asked)
            if asked.replica_id >= 0:
                # After the read: followers get the new high watermark one round trip later.
                self._note_positions(now, asked, results, out=out)
            if enough or asked.max_wait_ms <= 0:
                out.append(Reply(asker=asker, message=FetchResponse(partitions=results)))
                return
            at = self._registry.at
            partitions = [at(each.topic, each.partition) for each in asked.partitions]
        elif asked.replica_id >= 0:
            for partition, each in zip(partitions, asked.partitions, strict=True):
                self._note_position(now, partition, each.fetch_offset, asked=asked, out=out)
        parked = ParkedFetch(asker=asker, asked=asked, partitions=partitions)
        for partition in partitions:
            partition.fetches.append(parked)
        self._park(now, parked, asked.max_wait_ms, out)

    def list_offsets(self, asked: ListOffsetsRequest) -> ListOffsetsResponse:
        """Return the offsets at which logs begin, end, or reach a given time."""
        found, seen = [], set[tuple[str, int]]()
        for each in asked.partitions:
            place = (each.topic, each.partition)
            error = ErrorCode.invalid_request  # Skip duplicates, because a search by time is slow.
            if place not in seen:
                seen.add(place)
                try:
                    partition = self._registry.at(each.topic, each.partition)
                    found.append(listed(partition, each, replica_id=asked.replica_id))
                    continue
                except RefusedError as refused:
                    error = refused.code
            found.append(ListedOffset(topic=each.topic, partition=each.partition, error_code=error))
        return ListOffsetsResponse(partitions=tuple(found))

    def epoch_ends(self, asked: OffsetsForLeaderEpochRequest) -> OffsetsForLeaderEpochResponse:
        """Answer with the end offsets of epochs."""
        found = []
        for each in asked.partitions:
            try:
                found.append(epoch_end(self._registry.at(each.topic, each.partition), each))
            except RefusedError as refused:
                found.append(
                    EpochEnd(topic=each.topic, partition=each.partition, error_code=refused.code)
                )
        return OffsetsForLeaderEpochResponse(partitions=tuple(found))

    def settle(
        self, partition: Partition, now: Nanoseconds, out: list[Effect], *, appended: bool = False
    ) -> None:
        """Raise the high watermark if possible, and answer the requests that waited for that.

        Args:
            partition: The replica whose log or followers advanced.
            now: The present time.
            out: Receives the responses.
            appended: Whether the replica's log grew, so that waiting followers can be answered.
        """
        leading = partition.leading
        if leading is None:
            return
        mark = leading.high_watermark(
            now, before=partition.high_watermark, eligible=self._registry.eligible
        )
        committed = mark > partition.high_watermark
        partition.high_watermark = mark
        # Check even if the high watermark is unchanged: a request may wait for a lower offset.
        if partition.produces.has_reached(mark):
            out.extend(partition.produces.committed(mark, enough_in_sync=leading.enough_in_sync))
        if partition.fetches and (appended or committed):
            self._wake(partition, out, followers=appended, consumers=committed)

    def stop(self, partition: Partition, error: ErrorCode, out: list[Effect]) -> None:
        """Answer all waiting requests of a partition that was deleted or has another leader now."""
        out.extend(partition.produces.failed(error))
        self._wake(partition, out, followers=True, consumers=True)

    def overdue(self, now: Nanoseconds, out: list[Effect]) -> None:
        """Respond to the requests that have waited up to their timeout."""
        late: list[str] = []
        for parked in self._deadlines.due(now):
            if isinstance(parked, ParkedFetch):
                self._answer(parked, self._read(parked.asked)[0], out)
                continue
            for place, folder in list(parked.waiting.items()):
                parked.settle(place, ErrorCode.request_timed_out)
                late.append(folder)
            out.append(parked.reply())
        self._forget_done(late)
        following = self._deadlines.next_ns()
        if following is not None:
            self._set_timer(now, following, out)

    def hung(self, connection: int) -> None:
        """Drop the waiting requests of a closed connection.

        The response to a dead follower's fetch must never reach the follower's next process, which
        may have a shorter log.
        """
        for parked in self._deadlines.all():
            if parked.asker.connection != connection:
                continue
            parked.done = True
            if isinstance(parked, ParkedFetch):
                self._unpark(parked)
            else:
                self._forget_done(parked.waiting.values())

    def _forget_done(self, folders: Iterable[str]) -> None:
        for folder in dict.fromkeys(folders):
            if partition := self._registry.partitions.get(folder):
                partition.produces.forget_done()

    def _append(
        self, each: ProducePartition, asked: ProduceRequest, out: list[Effect]
    ) -> tuple[Partition, int, ProducedPartition]:
        """Append one partition's batch; return the replica, the awaited offset and the result.

        With acks=all, the response must wait until the high watermark reaches the awaited offset.

        Raises:
            RefusedError: The batch is refused.
        """
        acks = asked.acks
        if acks not in _ACKS:
            raise RefusedError(ErrorCode.invalid_required_acks)
        if each.topic in INTERNAL_TOPICS and not asked.to_internal:
            raise RefusedError(
                ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {each.topic}"
            )
        partition = self._registry.at(each.topic, each.partition, each.topic_id)
        leading = partition.led_in(UNKNOWN)
        if acks == _ALL and not leading.enough_in_sync:
            raise RefusedError(ErrorCode.not_enough_replicas)
        log, state = partition.log, partition.state
        batch = accepted(each.records, max_bytes=state.settings.max_message_bytes)
        done: Kept | ErrorCode = log.producers.check(batch)
        if isinstance(done, ErrorCode):
            if done is not _NONE:
                raise RefusedError(done)
            mine = log.append_checked(batch, epoch=state.leader_epoch, out=out)
            first, end = mine.base_offset, mine.end_offset
        else:  # KIP-98: a duplicate. The producer did not get the first response.
            first, end = done.base_offset, done.end_offset
        result = ProducedPartition(
            topic=each.topic,
            partition=each.partition,
            error_code=_NONE,
            base_offset=first,
            log_start_offset=log.start_offset,
        )
        return partition, end, result

    def _park_uncommitted(
        self, parked: ParkedProduce, awaited: list[tuple[Partition, Awaited]]
    ) -> None:
        for partition, each in awaited:
            if each.offset > partition.high_watermark:
                parked.waiting[each.place] = partition.log.folder
                partition.produces.add(each)

    def _read(self, asked: FetchRequest) -> tuple[tuple[FetchedPartition, ...], bool]:
        """Read all partitions; return the results, and whether they suffice for a response."""
        results = []
        byte_count, hasty = 0, not asked.partitions
        max_bytes = min(asked.max_bytes, self._registry.settings.fetch_max_bytes)
        for each in asked.partitions:
            try:
                partition = self._registry.at(each.topic, each.partition, each.topic_id)
                result = read(
                    partition,
                    each,
                    asked,
                    max_bytes=max_bytes - byte_count,
                    first=not byte_count,
                )
            except RefusedError as refused:
                result = self._fetch_refused(each, refused)
            byte_count += len(result.records)
            hasty = hasty or _tells_otherwise(result)
            results.append(result)
        return tuple(results), hasty or byte_count >= asked.min_bytes

    def _having_nothing_for(self, asked: FetchRequest) -> list[Partition] | None:
        """Return the replicas if the reader already has all records. Then its fetch must wait.

        This check is faster than `read`, and gives the same result. Most fetches must wait.
        """
        broker = asked.replica_id
        if broker < CONSUMER or asked.max_wait_ms <= 0 or asked.min_bytes <= 0:
            return None
        if broker == CONSUMER:
            return self._having_no_more_for(asked)
        found = []
        for each in asked.partitions:
            partition = self._registry.partitions.get(f"{each.topic}-{each.partition}")
            if partition is None or partition.leading is None:
                return None
            found.append(partition)
            state, log = partition.state, partition.log
            remote = partition.leading.remotes.get(broker)
            if (
                remote is None
                or asked.replica_epoch < remote.broker_epoch
                or each.fetch_offset != log.end_offset
                or each.current_leader_epoch != state.leader_epoch
                or each.last_fetched_epoch not in (UNKNOWN, log.epochs.latest)
                or (each.topic_id is not state.topic_id and each.topic_id != state.topic_id)
            ):
                return None
        return found or None

    def _having_no_more_for(self, asked: FetchRequest) -> list[Partition] | None:
        """Return the replicas if a consumer has already read up to their high watermarks."""
        found = []
        for each in asked.partitions:
            partition = self._registry.partitions.get(f"{each.topic}-{each.partition}")
            if (
                partition is None
                or partition.leading is None
                or each.fetch_offset != partition.high_watermark
                or each.current_leader_epoch != partition.state.leader_epoch
                or each.last_fetched_epoch != UNKNOWN
                or each.fetch_offset < partition.log.start_offset
                or each.topic_id not in (partition.state.topic_id, None)
            ):
                return None
            found.append(partition)
        return found or None

    def _note_positions(
        self,
        now: Nanoseconds,
        asked: FetchRequest,
        results: tuple[FetchedPartition, ...],
        *,
        out: list[Effect],
    ) -> None:
        """Record how far a follower is, except for partitions that were refused or diverge."""
        for each, result in zip(asked.partitions, results, strict=True):
            if not _tells_otherwise(result):
                partition = self._registry.at(each.topic, each.partition)
                self._note_position(now, partition, each.fetch_offset, asked=asked, out=out)

    def _note_position(
        self,
        now: Nanoseconds,
        partition: Partition,
        offset: int,
        *,
        asked: FetchRequest,
        out: list[Effect],
    ) -> None:
        """Record how far a follower is. So the ISR may grow, and the high watermark may rise."""
        leading, broker = partition.leading, asked.replica_id
        assert leading is not None
        remote = leading.remotes[broker]
        remote.broker_epoch = asked.replica_epoch
        remote.fetches(offset, now=now, leader_end=partition.log.end_offset)
        if broker not in leading.state.isr:
            self._isr.fetched(partition, broker)
        self.settle(partition, now, out)

    def _wake(
        self, partition: Partition, out: list[Effect], *, followers: bool, consumers: bool
    ) -> None:
        for parked in list(partition.fetches):
            wanted = consumers if parked.asked.replica_id == CONSUMER else followers
            if wanted and not parked.done:
                results, enough = self._read(parked.asked)
                if enough:
                    self._answer(parked, results, out)

    def _answer(
        self, parked: ParkedFetch, results: tuple[FetchedPartition, ...], out: list[Effect]
    ) -> None:
        parked.done = True
        self._unpark(parked)
        out.append(Reply(asker=parked.asker, message=FetchResponse(partitions=results)))

    def _unpark(self, parked: ParkedFetch) -> None:
        for partition in parked.partitions:
            if parked in partition.fetches:
                partition.fetches.remove(parked)

    def _park(
        self,
        now: Nanoseconds,
        parked: ParkedFetch | ParkedProduce,
        wait_ms: int,
        out: list[Effect],
    ) -> None:
        deadline = now + (wait_ms if wait_ms > 0 else 0) * NANOSECONDS_A_MS
        if self._deadlines.add(deadline, parked):
            self._set_timer(now, deadline, out)

    def _set_timer(self, now: Nanoseconds, at_ns: Nanoseconds, out: list[Effect]) -> None:
        after = max(at_ns - now, 0)
        out.append(SetTimer(timer=PARKED_TIMER, after_ns=after, at_most_ns=after))

    def _produce_refused(self, each: ProducePartition, refused: RefusedError) -> ProducedPartition:
        """Return a refusal to append. If another broker leads, the refusal names it (KIP-951)."""
        leader, epoch = self._registry.leader_of(each.topic, each.partition)
        moved = refused.code is ErrorCode.not_leader_or_follower
        return ProducedPartition(
            topic=each.topic,
            partition=each.partition,
            error_code=refused.code,
            error_message=str(refused) or None,
            current_leader=leader if moved else UNKNOWN,
            current_leader_epoch=epoch if moved else UNKNOWN,
        )

    def _fetch_refused(self, each: FetchPartition, refused: RefusedError) -> FetchedPartition:
        """Return a response that refuses a fetch and names the leader (KIP-951).

        In this cluster, followers never serve reads (KIP-392).
        """
        leader, epoch = self._registry.leader_of(each.topic, each.partition)
        moved = refused.code in (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
        return FetchedPartition(
            topic=each.topic,
            partition=each.partition,
            topic_id=each.topic_id,
            error_code=refused.code,
            current_leader=leader if moved else UNKNOWN,
            current_leader_epoch=epoch if moved else UNKNOWN,
        )


def _tells_otherwise(result: FetchedPartition) -> bool:
    """Return whether a fetch was refused or found diverging logs.

    The offset in such a fetch does not show how far the follower's log agrees.
    """
    return result.error_code is not _NONE or result.diverging_end_offset != UNKNOWN
