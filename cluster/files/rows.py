"""This module converts the readers' results to Arrow batches of the run's tables.

The schemas are in `results.record.tables.LIVE`. If the files contain no value for a column, the
column is null. For example, all times are null, because files contain only times of the broker's
own clock.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from cluster.files.batches import Record, RecordBatch, records
from cluster.files.checkpoints import EpochStart, QuorumState
from cluster.files.damage import DamagedFileError
from cluster.files.group_offsets import position_of
from cluster.files.logs import LoggedLeadership, LoggedTruncation
from cluster.files.metadata import METADATA_TOPIC, Leadership
from cluster.files.quorum_log import LoggedTransition, LoggedVote
from results.record.contents import UNKNOWN_MS, damage, value_in
from results.record.headers import mark_of
from results.record.tables import LIVE

ROWS_A_BATCH = 65_536
_HELD_BYTES = 64 << 20
"""The maximum number of bytes in record values that wait for the check of their content."""
_MAX_VALUE = 0x7FFF_FFFF_FFFF_FFFF
_DIGITS = 19
"""The number of decimal digits of `_MAX_VALUE`."""
_INCARNATION = 0
"""A constant: files do not show which broker process wrote them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A replica of a partition on a node. Every row contains these fields."""

    topic: str
    topic_id: str | None
    partition: int
    node: str
    snapshot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """The state of one replica according to its files, as one row of `replica_states`.

    Attributes:
        replica: The replica.
        log_start_offset: The first valid offset. A segment may still contain earlier records.
        log_end_offset: The offset after the last complete batch.
        high_watermark: The high watermark in the checkpoint file. This high watermark may be up to
            5 s old if the broker did not stop cleanly.
        epochs: The leader epochs of the log.
    """

    replica: Replica
    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    epochs: Sequence[EpochStart]


@dataclass(slots=True)
class _RecordColumns:
    """The columns of `replica_records` that differ from row to row."""

    offset: list[int] = field(default_factory=list)
    leader_epoch: list[int] = field(default_factory=list)
    value: list[int | None] = field(default_factory=list)
    record_hash: list[int] = field(default_factory=list)
    producer_id: list[int] = field(default_factory=list)
    producer_epoch: list[int] = field(default_factory=list)
    sequence: list[int] = field(default_factory=list)
    control: list[bool] = field(default_factory=list)
    damage: list[int | None] = field(default_factory=list)
    waiting: list[tuple[int, Record]] = field(default_factory=list)
    """Row numbers and records whose content is not checked for damage yet."""
    held_bytes: int = 0

    @property
    def full(self) -> bool:
        """Whether the columns have enough rows or bytes for one Arrow batch."""
        return len(self.offset) >= ROWS_A_BATCH or self.held_bytes >= _HELD_BYTES

    def add(self, batch: RecordBatch, *, of_quorum: bool) -> None:
        control = batch.control
        unpacked = list(records(batch))
        for record in unpacked:
            if not (control or of_quorum):
                self.waiting.append((len(self.offset), record))
                self.held_bytes += len(record.value or b"")
            self.offset.append(record.offset)
            # A controller's record never holds a Logquake value, even if its bytes look like one.
            self.value.append(None if control or of_quorum else _value(record))
            self.record_hash.append(record.record_hash)
            self.sequence.append(batch.sequence_of(record.offset))
        rows = len(unpacked)
        self.leader_epoch += [batch.leader_epoch] * rows
        self.producer_id += [batch.producer_id] * rows
        self.producer_epoch += [batch.producer_epoch] * rows
        self.control += [control] * rows

    def look(self) -> None:
        """Compare each waiting record with the content that the client sent. Note all damage."""
        self.damage = [None] * len(self.offset)
        # In one run, either all messages have headers or none; the same holds for timestamps.
        held = [record for _, record in self.waiting]
        found = damage(
            [record.value for record in held],
            [record.key for record in held],
            [mark_of(record.headers) for record in held] if all(r.headers for r in held) else None,
            [UNKNOWN_MS if record.stamped else record.timestamp for record in held],
        )
        for (row, _), bits in zip(self.waiting, found.tolist(), strict=True):
            self.damage[row] = bits

    def rows(self, replica: Replica) -> pa.RecordBatch:
        self.look()
        varying: dict[str, Sequence[object]] = {
            "offset": self.offset, "leader_epoch": self.leader_epoch, "value": self.value,
            "record_hash": self.record_hash, "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch, "sequence": self.sequence,
            "control": self.control, "damage": self.damage,
        }  # fmt: skip
        return _batch("replica_records", varying, _names(replica), length=len(self.offset))


def replica_records(
    batches: Iterable[RecordBatch], replica: Replica, damage: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `replica_records` for a segment, about `ROWS_A_BATCH` at a time.

    Args:
        batches: The batches of the segment.
        replica: The replica to which the segment belongs.
        damage: A list to which one sentence for each undecodable batch is added.
    """
    columns = _RecordColumns()
    for batch in batches:
        try:
            columns.add(batch, of_quorum=replica.topic == METADATA_TOPIC)
        except DamagedFileError as broken:
            damage.append(str(broken))
        if columns.full:
            yield columns.rows(replica)
            columns = _RecordColumns()
    if columns.offset:
        yield columns.rows(replica)


def kept_commits(
    batches: Iterable[RecordBatch],
    log: Replica,
    topic_ids: Mapping[str, str],
    damage: list[str],
    *,
    whole: bool,
) -> pa.RecordBatch:
    """Return the rows of `kept_commits` for a segment of `__consumer_offsets`.

    Args:
        batches: The batches of the segment.
        log: The replica of `__consumer_offsets` to which the segment belongs.
        topic_ids: Topic ids by topic name.
        damage: A list to which one sentence for each undecodable batch is added.
        whole: Whether this segment is the whole log and begins at offset 0.
    """
    rows: list[dict[str, object]] = []
    for batch in batches:
        try:
            kept = [(each.offset, position_of(each)) for each in records(batch)]
        except DamagedFileError as broken:
            damage.append(str(broken))
            continue
        rows += [
            {
                "topic": position[0].topic,
                "topic_id": topic_ids.get(position[0].topic),
                "partition": position[0].partition,
                "snapshot": log.snapshot,
                "node": log.node,
                "group_id": position[0].group,
                "log_partition": log.partition,
                "log_offset": offset,
                "whole": whole,
                "offset": position[1].offset if position[1] else None,
                "committed_by": _op_of(position[1].metadata) if position[1] else None,
            }
            for offset, position in ([] if batch.control else kept)
            if position is not None
        ]
    return _from_dicts("kept_commits", rows)


def _op_of(metadata: str) -> int | None:
    """Return the id of the op that made a commit; Logquake's consumers send this id as metadata."""
    digits = metadata.rstrip("\0")  # confluent-kafka also sends the text's final zero byte.
    known = digits.isdecimal() and digits.isascii() and len(digits) < _DIGITS
    return int(digits) if known else None


def replica_states(states: Sequence[ReplicaState]) -> pa.RecordBatch:
    """Return rows of `replica_states`, with `checkpoint` as the source of high watermarks."""
    rows: list[dict[str, object]] = [
        {
            **_names(state.replica),
            "incarnation": _INCARNATION,
            "log_start_offset": state.log_start_offset,
            "log_end_offset": state.log_end_offset,
            "high_watermark": state.high_watermark,
            "high_watermark_source": None if state.high_watermark is None else "checkpoint",
            "epochs": [
                {"epoch": epoch.epoch, "start_offset": epoch.start_offset} for epoch in state.epochs
            ],
        }
        for state in states
    ]
    return _from_dicts("replica_states", rows)


def metadata_leadership(leaderships: Sequence[Leadership], *, node: str) -> pa.RecordBatch:
    """Return rows of `leadership` with source `metadata-log`, ordered by `log_offset`."""
    rows: list[dict[str, object]] = [
        {
            "topic": each.topic,
            "topic_id": each.topic_id,
            "partition": each.partition,
            "source": "metadata-log",
            "observer": node,
            "incarnation": _INCARNATION,
            "leader": each.leader,
            "leader_epoch": each.leader_epoch,
            "isr": each.isr,
            "log_offset": each.log_offset,
            "unclean": each.unclean,
        }
        for each in leaderships
    ]
    return _from_dicts("leadership", rows)


def logged_leadership(
    events: Sequence[LoggedLeadership], *, node: str, source: str, topic_ids: Mapping[str, str]
) -> pa.RecordBatch:
    """Return rows of `leadership` with source `state-change-log` or `server-log`."""
    rows: list[dict[str, object]] = [
        {
            "topic": each.topic,
            "topic_id": each.topic_id or topic_ids.get(each.topic),
            "partition": each.partition,
            "source": source,
            "observer": node,
            "incarnation": _INCARNATION,
            "leader": each.leader,
            "leader_epoch": each.leader_epoch,
            "isr": each.isr,
        }
        for each in events
    ]
    return _from_dicts("leadership", rows)


def logged_truncations(
    events: Sequence[LoggedTruncation], *, node: str, source: str, topic_ids: Mapping[str, str]
) -> pa.RecordBatch:
    """Return rows of `truncations`. `to_offset` is null, because log lines lack the old log end."""
    rows: list[dict[str, object]] = [
        {
            "topic": each.topic,
            "topic_id": topic_ids.get(each.topic),
            "partition": each.partition,
            "node": node,
            "incarnation": _INCARNATION,
            "from_offset": each.from_offset,
            "reason": each.reason,
            "source": source,
        }
        for each in events
    ]
    return _from_dicts("truncations", rows)


def quorum_states(
    state: QuorumState, *, node: str, broker: int | None, log_end_offset: int | None
) -> pa.RecordBatch:
    """Return the row of `quorum_states` for a node's `quorum-state` file.

    Args:
        state: The content of the file.
        node: The node that owns the file.
        broker: The node's broker id, or None if the id could not be read.
        log_end_offset: The log end offset of the node's metadata log.
    """
    row: dict[str, object] = {
        "node": node,
        "incarnation": _INCARNATION,
        "role": _role(state, broker),
        "epoch": state.epoch,
        "leader": state.leader,
        "voted_for": state.voted_for,
        "voted_directory": state.voted_directory,
        "log_end_offset": log_end_offset,
    }
    return _from_dicts("quorum_states", [row])


def logged_transitions(transitions: Sequence[LoggedTransition], *, node: str) -> pa.RecordBatch:
    """Return the rows of `quorum_states` for a controller's logged state changes, in log order.

    The rows have no times and no log end offsets. Rows of the same epoch stay in log order.
    """
    rows: list[dict[str, object]] = [
        {
            "node": node,
            "incarnation": _INCARNATION,
            "role": each.role,
            "epoch": each.epoch,
            "leader": each.leader,
            "voted_for": each.voted_for,
            "voted_directory": each.voted_directory,
        }
        for each in transitions
    ]
    return _from_dicts("quorum_states", rows)


def logged_votes(votes: Sequence[LoggedVote], *, node: str) -> pa.RecordBatch:
    """Return rows of `quorum_states`, without a role, for the votes that a controller granted."""
    rows: list[dict[str, object]] = [
        {
            "node": node,
            "incarnation": _INCARNATION,
            "epoch": each.epoch,
            "voted_for": each.voted_for,
            "voted_directory": each.voted_directory,
        }
        for each in votes
    ]
    return _from_dicts("quorum_states", rows)


def _role(state: QuorumState, broker: int | None) -> str | None:
    if broker is None:
        return None
    if state.leader is not None:
        return "leader" if state.leader == broker else "follower"
    return "voted" if state.voted_for is not None else "unattached"


def _names(replica: Replica) -> dict[str, object]:
    return {
        "topic": replica.topic,
        "topic_id": replica.topic_id,
        "partition": replica.partition,
        "snapshot": replica.snapshot,
        "node": replica.node,
    }


def _value(record: Record) -> int | None:
    """Return the number (value) that a Logquake client wrote into a record, or None.

    A number that does not fit into the column is not from a Logquake client.
    """
    value = value_in(record.value, None if record.value is not None else mark_of(record.headers))
    return value if value is not None and value <= _MAX_VALUE else None


def _batch(
    table: str, varying: Mapping[str, Sequence[object]], fixed: Mapping[str, object], *, length: int
) -> pa.RecordBatch:
    """Make an Arrow batch of a table from columns and from values that are the same in each row."""
    arrays = [
        pa.array(varying[column.name], type=column.type)
        if column.name in varying
        else pa.repeat(pa.scalar(fixed.get(column.name), type=column.type), length)
        for column in LIVE[table]
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=LIVE[table])


def _from_dicts(table: str, rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=LIVE[table])
