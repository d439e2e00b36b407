"""A leader's read-only responses: records, offsets, and ends of epochs."""

from kio.schema.errors import ErrorCode

from cluster.files.batches import read_segment, records
from cluster.reference.log.epochs import NONE
from cluster.reference.messages.data import (
    ANY_REPLICA,
    CONSUMER,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    UNKNOWN,
    EpochEnd,
    EpochPartition,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    ListedOffset,
    ListOffsetsPartition,
)
from cluster.reference.partition.leader import Leading
from cluster.reference.partition.partition import Partition
from cluster.reference.partition.produced import RefusedError

_NO_ERROR = ErrorCode.none
"""A copy of an enum member: it is slow to look up the member for each batch."""


def read(
    partition: Partition,
    asked: FetchPartition,
    request: FetchRequest,
    *,
    max_bytes: int,
    first: bool,
) -> FetchedPartition:
    """Read a partition for a fetch.

    Args:
        partition: The replica.
        asked: The requested position and epoch.
        request: The fetch. Followers read to the log's end, consumers to the high watermark.
        max_bytes: The most bytes that may still be added to the response.
        first: Whether the response has no records yet. Then one batch may exceed `max_bytes`.

    Raises:
        RefusedError: This partition, or this offset, cannot be read here.
    """
    log = partition.log
    if request.replica_id == ANY_REPLICA:
        partition.known_in(asked.current_leader_epoch)
    else:
        leading = partition.led_in(asked.current_leader_epoch)
        if request.replica_id != CONSUMER:
            _check_replica(leading, asked, request)
    offset, last_epoch = asked.fetch_offset, asked.last_fetched_epoch
    keeps_up = last_epoch == log.epochs.latest and offset <= log.end_offset
    if last_epoch != UNKNOWN and not keeps_up:
        # KIP-595: the reader's last record must be here, too, or the logs diverge.
        epoch, end = log.end_of(last_epoch)
        if (epoch, end) == NONE:
            raise RefusedError(ErrorCode.offset_out_of_range)
        if epoch < last_epoch or end < offset:
            return _fetched(partition, asked, diverging=(epoch, end))
    if not log.start_offset <= offset <= log.end_offset:
        raise RefusedError(ErrorCode.offset_out_of_range)
    data = log.read(
        offset,
        max_bytes=max(0, min(max_bytes, asked.partition_max_bytes)),
        until=partition.high_watermark if request.replica_id == CONSUMER else None,
        at_least_one=first,
    )
    return _fetched(partition, asked, data=data)


def epoch_end(partition: Partition, asked: EpochPartition) -> EpochEnd:
    """Return the largest epoch up to the asked one (KIP-279), and where it ends (KIP-101).

    Raises:
        RefusedError: This replica is not the leader in the epoch that the request names.
    """
    partition.led_in(asked.current_leader_epoch)
    epoch, end = partition.log.end_of(asked.leader_epoch)
    return EpochEnd(
        topic=asked.topic,
        partition=asked.partition,
        error_code=ErrorCode.none,
        leader_epoch=epoch,
        end_offset=end,
    )


def listed(partition: Partition, asked: ListOffsetsPartition, *, replica_id: int) -> ListedOffset:
    """Answer ListOffsets for one partition.

    Raises:
        RefusedError: This replica does not lead, or as a new leader it does not know yet which
            records are committed (KIP-207).
    """
    log = partition.log
    if replica_id == ANY_REPLICA:
        partition.known_in(asked.current_leader_epoch)
        end = log.start_offset if asked.timestamp == EARLIEST else log.end_offset
        return _listed(asked, end, UNKNOWN, partition.state.leader_epoch)
    leading = partition.led_in(asked.current_leader_epoch)
    if asked.timestamp == EARLIEST:
        return _listed(asked, log.start_offset, UNKNOWN, log.epochs.at(log.start_offset))
    if replica_id != CONSUMER:
        return _listed(asked, log.end_offset, UNKNOWN, partition.state.leader_epoch)
    if partition.high_watermark < leading.epoch_start:
        # A new leader may not know yet what the old one committed and consumers have read.
        raise RefusedError(ErrorCode.offset_not_available)
    if asked.timestamp == LATEST:
        return _listed(asked, partition.high_watermark, UNKNOWN, partition.state.leader_epoch)
    return _by_time(partition, asked)


def _check_replica(leading: Leading, asked: FetchPartition, request: FetchRequest) -> None:
    remote = leading.remotes.get(request.replica_id)
    if remote is None:
        # The requester is no replica in the assignment known here, which may be outdated.
        known = asked.current_leader_epoch != UNKNOWN
        raise RefusedError(
            ErrorCode.unknown_leader_epoch if known else ErrorCode.not_leader_or_follower
        )
    if UNKNOWN != request.replica_epoch < remote.broker_epoch:
        # KIP-903: the fetch is from an earlier incarnation.
        raise RefusedError(ErrorCode.not_leader_or_follower)


def _by_time(partition: Partition, asked: ListOffsetsPartition) -> ListedOffset:
    """Find the first record with this timestamp or a later one, or the newest record (KIP-734)."""
    committed = (
        each for each in partition.log.batches() if each.end_offset <= partition.high_watermark
    )
    if asked.timestamp == MAX_TIMESTAMP:
        batch = max(committed, key=lambda each: each.max_timestamp, default=None)
        wanted = batch.max_timestamp if batch else 0
    else:
        wanted = asked.timestamp
        batch = next((each for each in committed if each.max_timestamp >= wanted), None)
    for found in read_segment(batch.data).batches if batch else ():
        for record in records(found):
            if record.timestamp >= wanted:
                return _listed(asked, record.offset, record.timestamp, found.leader_epoch)
    return _listed(asked, UNKNOWN, UNKNOWN, UNKNOWN)


def _fetched(
    partition: Partition,
    asked: FetchPartition,
    *,
    data: bytes = b"",
    diverging: tuple[int, int] = NONE,
) -> FetchedPartition:
    plain = not data and diverging is NONE
    before = partition.nothing_new
    if (
        plain
        and before is not None
        and before.high_watermark == partition.high_watermark
        and before.log_start_offset == partition.log.start_offset
        and before.topic_id == asked.topic_id
    ):
        return before  # Most partitions of a request have nothing new.
    fetched = FetchedPartition(
        topic=asked.topic,
        partition=asked.partition,
        topic_id=asked.topic_id,
        error_code=_NO_ERROR,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.high_watermark,  # This cluster has no transactions.
        log_start_offset=partition.log.start_offset,
        records=data,
        diverging_epoch=diverging[0],
        diverging_end_offset=diverging[1],
    )
    if plain:
        partition.nothing_new = fetched
    return fetched


def _listed(asked: ListOffsetsPartition, offset: int, timestamp: int, epoch: int) -> ListedOffset:
    return ListedOffset(
        topic=asked.topic,
        partition=asked.partition,
        error_code=ErrorCode.none,
        offset=offset,
        timestamp=timestamp,
        leader_epoch=epoch,
    )
