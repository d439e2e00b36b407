"""This module reads clean and unclean elections from the log `__cluster_metadata-0`.

The controllers' log is Kafka's own history of leaders, epochs and in-sync replicas. The segments
and snapshots of this log have the same format as other log segments. The times of records are from
the controllers' wall clocks, and never define an order. The offset in the log defines the order.

The log of one node may contain uncommitted records. For example, a controller that was cut off may
have written records that it later truncated. A record is certainly committed once a majority of
nodes have it.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from cluster.files.batches import Record, RecordBatch, records
from cluster.files.damage import DamagedFileError
from cluster.files.messages import (
    LEADER_UNCHANGED,
    Message,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode_message,
)

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = str(UUID(int=1))

_LEADER_CHANGE_TYPE = 2
_CONTROL_KEY = struct.Struct(">hh")
_LEADER_CHANGE_HEAD = struct.Struct(">hi")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumLeader:
    """A control record that a newly elected controller writes at the start of its epoch.

    Attributes:
        leader: The controller's node id.
    """

    leader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One record of the metadata log.

    Attributes:
        offset: The offset in the metadata log.
        epoch: The quorum's epoch in which the record was written.
        message: The decoded content of the record.
    """

    offset: int
    epoch: int
    message: Message | QuorumLeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """A partition's leader and in-sync replicas after one change in the metadata log.

    Attributes:
        topic: The topic's name.
        topic_id: A UUID of 36 characters.
        partition: The partition's number.
        leader: The leader's broker id, or -1 without a leader.
        leader_epoch: The leader epoch increases with each election, and when the partition loses
            its leader.
        isr: The in-sync replicas; None for the quorum's own partition.
        elr: Eligible leader replicas (KIP-966). These replicas are outside the ISR but have all
            committed records, so the election of such a replica is clean.
        unclean: Whether the new leader was outside the previous ISR and ELR.
        log_offset: The offset of this change in the metadata log.
    """

    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...] | None
    elr: tuple[int, ...]
    unclean: bool
    log_offset: int


def log_entries(batches: Iterable[RecordBatch], damage: list[str]) -> Iterator[LogEntry]:
    """Decode the relevant records of a metadata log or snapshot, in log order.

    Args:
        batches: The batches of a segment, from `cluster.files.batches.read_segment`.
        damage: A list that receives one sentence for each unreadable record or batch.
    """
    for batch in batches:
        try:
            unpacked = list(records(batch))
        except DamagedFileError as broken:
            damage.append(str(broken))
            continue
        for record in unpacked:
            try:
                message = _quorum_leader(record) if batch.control else _message(record)
            except DamagedFileError as broken:
                damage.append(f"offset {record.offset}: {broken}")
                continue
            if message is not None:
                yield LogEntry(offset=record.offset, epoch=batch.leader_epoch, message=message)


class Partitions:
    """The partitions' state, computed by replaying a metadata log.

    Entries must come in log order.
    """

    def __init__(self) -> None:
        self._topics: dict[UUID, str] = {}
        self._partitions: dict[tuple[UUID, int], Leadership] = {}

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of the existing topics, by name."""
        return {name: str(topic_id) for topic_id, name in self._topics.items()}

    def replay(self, entry: LogEntry, *, at: int | None = None) -> Leadership | None:
        """Apply an entry, and return the new state of the entry's partition.

        Args:
            entry: The next entry of the log, or of the snapshot before the log's beginning.
            at: The offset for the returned row, if it differs from the entry's offset. The offsets
                inside a snapshot are not log offsets. For entries of a snapshot, the caller passes
                the log offset before the snapshot's end.

        Returns:
            None if the entry is not about a known partition or the quorum's leader.
        """
        offset = entry.offset if at is None else at
        match entry.message:
            case QuorumLeader(leader=leader):
                return _quorum_row(entry, leader, offset)
            case TopicRecord(name=name, topic_id=UUID() as topic_id):
                self._topics[topic_id] = name
            case RemoveTopicRecord(topic_id=UUID() as topic_id):
                self._remove(topic_id)
            case PartitionRecord(topic_id=UUID() as topic_id) as created:
                return self._keep(topic_id, self._created(topic_id, created, offset))
            case PartitionChangeRecord(topic_id=UUID() as topic_id) as change:
                before = self._partitions.get((topic_id, change.partition_id))
                return before and self._keep(topic_id, _changed(before, change, offset))
            case _:
                pass
        return None

    def _keep(self, topic_id: UUID, row: Leadership) -> Leadership:
        self._partitions[topic_id, row.partition] = row
        return row

    def _remove(self, topic_id: UUID) -> None:
        self._topics.pop(topic_id, None)
        gone = [key for key in self._partitions if key[0] == topic_id]
        for key in gone:
            del self._partitions[key]

    def _created(self, topic_id: UUID, created: PartitionRecord, offset: int) -> Leadership:
        return Leadership(
            topic=self._topics.get(topic_id, ""),
            topic_id=str(topic_id),
            partition=created.partition_id,
            leader=created.leader,
            leader_epoch=created.leader_epoch,
            isr=tuple(created.isr),
            elr=tuple(created.eligible_leader_replicas or ()),
            unclean=False,
            log_offset=offset,
        )


def _changed(before: Leadership, change: PartitionChangeRecord, offset: int) -> Leadership:
    """Apply a change as Kafka's `PartitionRegistration.merge` does.

    A change that names a leader increases the leader epoch.
    """
    elected = change.leader != LEADER_UNCHANGED
    leader = int(change.leader) if elected else before.leader
    elr = change.eligible_leader_replicas
    return replace(
        before,
        leader=leader,
        leader_epoch=before.leader_epoch + int(elected),
        isr=before.isr if change.isr is None else tuple(change.isr),
        elr=before.elr if elr is None else tuple(elr),
        unclean=elected and _is_unclean(before, leader),
        log_offset=offset,
    )


def _is_unclean(before: Leadership, leader: int) -> bool:
    return leader >= 0 and leader not in (before.isr or ()) and leader not in before.elr


def _quorum_row(entry: LogEntry, leader: int, offset: int) -> Leadership:
    return Leadership(
        topic=METADATA_TOPIC,
        topic_id=METADATA_TOPIC_ID,
        partition=0,
        leader=leader,
        leader_epoch=entry.epoch,
        isr=None,
        elr=(),
        unclean=False,
        log_offset=offset,
    )


def _message(record: Record) -> Message | None:
    return None if record.value is None else decode_message(record.value)


def _quorum_leader(record: Record) -> QuorumLeader | None:
    """Decode a leader change control record; return None for another control record."""
    try:
        _, kind = _CONTROL_KEY.unpack_from(record.key or b"")
        if kind != _LEADER_CHANGE_TYPE:
            return None
        _, leader = _LEADER_CHANGE_HEAD.unpack_from(record.value or b"")
    except struct.error as broken:
        raise DamagedFileError(f"a control record cannot be read: {broken}") from broken
    return QuorumLeader(leader=leader)
