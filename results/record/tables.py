"""The columns of a record: one definition for writers, Parquet files, Spark and kernels.

`TABLES` are the tables of `record/*.parquet`. `LIVE` are the streams
`record/live/<table>.<writer>.arrows`, which are written during a run. In a stream, an op's
invocation and its completion are separate rows. So if the harness crashes, the record still
contains the invocations of open ops. Compaction joins the two rows, adds `run_id`, and closes open
ops with `info`.
"""

import pyarrow as pa

SCHEMA_VERSION = 1
BROKEN = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, OverflowError,
           MemoryError, NotImplementedError)  # fmt: skip
"""The exceptions that a reader of damaged or malicious bytes may raise."""

Columns = list[tuple[str, pa.DataType]]
"""Names and types of columns, in order."""

DAMAGE = ("damage", pa.int8())
"""Bits for the fields of a record that differ from the message sent (`results.record.contents`).
The column is 0 for an intact record and null for an unchecked record."""
LATER_COLUMNS = frozenset({"damage"})
"""Columns that old records do not have. They are null in old records."""
_OP_COPIES: Columns = [("process", pa.int64()), ("phase", pa.string())]
_PARTITION: Columns = [("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32())]
_INT_LIST = pa.list_(pa.int32())
EPOCHS = pa.list_(pa.struct([("epoch", pa.int32()), ("start_offset", pa.int64())]))

_ASSIGNMENTS: Columns = [
    ("op_id", pa.int64()), ("process", pa.int64()), ("kind", pa.string()),
    ("time_ns", pa.int64()), *_PARTITION, ("offset", pa.int64()),
]  # fmt: skip
_COMMITS: Columns = [
    ("op_id", pa.int64()), ("process", pa.int64()), ("act", pa.string()),
    ("asked_ns", pa.int64()), ("told_ns", pa.int64()), *_PARTITION, ("offset", pa.int64()),
    ("outcome", pa.string()), ("error", pa.string()), ("committed_by", pa.int64()),
]  # fmt: skip
_TRANSFORMS: Columns = [
    # A message that a pipeline's member read from an input, and the value it sent as a result.
    ("op_id", pa.int64()), *_PARTITION, ("offset", pa.int64()), ("value", pa.int64()),
    ("result", pa.int64()),
]  # fmt: skip
_SHARED: Columns = [
    # Events of records in a share group: deliveries and acknowledgements. As far as the client
    # knows, a delivered record was acquired after `acquired_after_ns`.
    ("op_id", pa.int64()), ("process", pa.int64()), ("act", pa.string()),
    ("asked_ns", pa.int64()), ("told_ns", pa.int64()), *_PARTITION, ("offset", pa.int64()),
    ("value", pa.int64()), ("delivery_count", pa.int32()), ("acquired_after_ns", pa.int64()),
    ("outcome", pa.string()), ("error", pa.string()),
]  # fmt: skip
_TRANSACTIONS: Columns = [
    ("txn_id", pa.int64()), ("op_id", pa.int64()), ("transactional_id", pa.string()),
    ("producer_id", pa.int64()), ("producer_epoch", pa.int32()), ("decision", pa.string()),
    ("outcome", pa.string()),
]  # fmt: skip
_FINAL_READS: Columns = [
    *_PARTITION, ("isolation", pa.string()), ("target_end", pa.int64()), ("reached", pa.int64()),
    ("complete", pa.bool_()),
]  # fmt: skip
_RESERVATIONS: Columns = [
    ("worker", pa.int32()),
    ("value_from", pa.int64()),
    ("value_to", pa.int64()),
]
_FAULTS: Columns = [
    ("fault_id", pa.int64()), ("kind", pa.string()), ("spec", pa.string()),
    ("targets", pa.list_(pa.string())), ("requested_ns", pa.int64()), ("confirmed_ns", pa.int64()),
    ("healed_ns", pa.int64()), ("effect", pa.string()), ("heal_effect", pa.string()),
]  # fmt: skip
_LEADERSHIP: Columns = [
    *_PARTITION, ("asked_ns", pa.int64()), ("observed_ns", pa.int64()), ("source", pa.string()),
    ("observer", pa.string()), ("incarnation", pa.int32()), ("leader", pa.int32()),
    ("leader_epoch", pa.int32()), ("isr", _INT_LIST), ("high_watermark", pa.int64()),
    # For the source `metadata-log` only: the row's offset in that log, which gives its order (its
    # times are unusable), and whether the leader came from outside the ISR and the ELR (KIP-966).
    ("log_offset", pa.int64()), ("unclean", pa.bool_()),
]  # fmt: skip
_REPLICA_RECORDS: Columns = [
    *_PARTITION, ("snapshot", pa.string()), ("node", pa.string()), ("offset", pa.int64()),
    ("leader_epoch", pa.int32()), ("value", pa.int64()), ("record_hash", pa.int64()),
    ("producer_id", pa.int64()), ("producer_epoch", pa.int32()), ("sequence", pa.int32()),
    ("control", pa.bool_()), DAMAGE,
]  # fmt: skip
_REPLICA_STATES: Columns = [
    *_PARTITION, ("observed_ns", pa.int64()), ("snapshot", pa.string()), ("node", pa.string()),
    ("incarnation", pa.int32()), ("log_start_offset", pa.int64()), ("log_end_offset", pa.int64()),
    ("high_watermark", pa.int64()), ("high_watermark_source", pa.string()),
    ("high_watermark_ns", pa.int64()), ("last_stable_offset", pa.int64()), ("epochs", EPOCHS),
]  # fmt: skip
_KEPT_COMMITS: Columns = [
    *_PARTITION, ("snapshot", pa.string()), ("node", pa.string()), ("group_id", pa.string()),
    # The record's partition and offset in `__consumer_offsets`, and whether that log has no gap
    # from offset 0 on, i.e. was not compacted.
    ("log_partition", pa.int32()), ("log_offset", pa.int64()), ("whole", pa.bool_()),
    ("offset", pa.int64()), ("committed_by", pa.int64()),
]  # fmt: skip
_TRUNCATIONS: Columns = [
    *_PARTITION, ("observed_ns", pa.int64()), ("node", pa.string()), ("incarnation", pa.int32()),
    ("from_offset", pa.int64()), ("to_offset", pa.int64()), ("reason", pa.string()),
    ("source", pa.string()),
]  # fmt: skip
_QUORUM_STATES: Columns = [
    ("observed_ns", pa.int64()), ("node", pa.string()), ("incarnation", pa.int32()),
    ("role", pa.string()), ("epoch", pa.int32()), ("leader", pa.int32()), ("voted_for", pa.int32()),
    ("voted_directory", pa.string()), ("high_watermark", pa.int64()),
    ("log_end_offset", pa.int64()),
]  # fmt: skip
_AVAILABILITY: Columns = [
    *_PARTITION, ("window_ns", pa.int64()), ("attempted", pa.int64()), ("ok", pa.int64()),
]  # fmt: skip
_ARRIVALS: Columns = [
    ("worker", pa.int32()), ("window_ns", pa.int64()), ("phase", pa.string()),
    ("offered", pa.int64()), ("missed", pa.int64()),
]  # fmt: skip
_SEND_INTENT: Columns = [
    ("op_id", pa.int64()), ("mop", pa.int32()), *_PARTITION, ("value", pa.int64()),
    ("acks", pa.string()), ("transactional_id", pa.string()), ("txn_id", pa.int64()),
]  # fmt: skip
_SEND_RESULT: Columns = [
    ("op_id", pa.int64()), ("mop", pa.int32()), ("offset", pa.int64()), ("outcome", pa.string()),
    ("acked", pa.bool_()), ("error", pa.string()),
]  # fmt: skip
_POLLED: Columns = [
    ("op_id", pa.int64()), ("mop", pa.int32()), ("pos", pa.int32()), *_PARTITION,
    ("offset", pa.int64()), ("value", pa.int64()), ("leader_epoch", pa.int32()),
    ("isolation", pa.string()), DAMAGE,
]  # fmt: skip

_INVOCATION: Columns = [
    ("op_id", pa.int64()), ("process", pa.int64()), ("worker", pa.int32()), ("f", pa.string()),
    ("phase", pa.string()), ("invoke_ns", pa.int64()),
]  # fmt: skip
_COMPLETION: Columns = [
    ("op_id", pa.int64()), ("complete_ns", pa.int64()), ("outcome", pa.string()),
    ("error", pa.string()),
]  # fmt: skip

_WHOLE: dict[str, Columns] = {
    "assignments": _ASSIGNMENTS, "commits": _COMMITS, "transactions": _TRANSACTIONS,
    "final_reads": _FINAL_READS, "reservations": _RESERVATIONS, "faults": _FAULTS,
    "leadership": _LEADERSHIP,
    "replica_records": _REPLICA_RECORDS, "replica_states": _REPLICA_STATES,
    "truncations": _TRUNCATIONS, "quorum_states": _QUORUM_STATES, "kept_commits": _KEPT_COMMITS,
    "transforms": _TRANSFORMS, "shared": _SHARED,
}  # fmt: skip
"""Tables whose live rows are complete. Compaction only adds `run_id`. In `faults`, it also keeps
only the last row of each `fault_id`, because each step of a fault writes the fault again."""

LIVE: dict[str, pa.Schema] = {
    "op_invocations": pa.schema(_INVOCATION),
    "op_completions": pa.schema(_COMPLETION),
    "send_invocations": pa.schema(_SEND_INTENT),
    "send_completions": pa.schema(_SEND_RESULT),
    "polled": pa.schema(_POLLED),
    "arrivals": pa.schema(_ARRIVALS),
    **{name: pa.schema(columns) for name, columns in _WHOLE.items()},
}  # fmt: skip
"""Live streams. `arrivals` counts, for each window of 100 ms, how many operations were due at the
plan's rate, and for how many no process was free."""

_RUN: Columns = [("run_id", pa.string())]
TABLES: dict[str, pa.Schema] = {
    "ops": pa.schema([
        *_RUN, ("op_id", pa.int64()), ("process", pa.int64()), ("worker", pa.int32()),
        ("f", pa.string()), ("phase", pa.string()), ("invoke_ns", pa.int64()),
        ("complete_ns", pa.int64()), ("outcome", pa.string()), ("error", pa.string()),
        # Number of messages sent or read (for a txn: sent) or acknowledged; added by compaction.
        ("messages", pa.int64()),
    ]),
    "sends": pa.schema([
        *_RUN, ("op_id", pa.int64()), ("mop", pa.int32()), *_PARTITION, ("value", pa.int64()),
        ("offset", pa.int64()), ("outcome", pa.string()), ("acked", pa.bool_()),
        ("acks", pa.string()), ("error", pa.string()), ("transactional_id", pa.string()),
        ("txn_id", pa.int64()), *_OP_COPIES, ("invoke_ns", pa.int64()), ("complete_ns", pa.int64()),
    ]),
    "polls": pa.schema([
        *_RUN, *_POLLED, *_OP_COPIES, ("invoke_ns", pa.int64()), ("complete_ns", pa.int64()),
        ("outcome", pa.string()),
    ]),
    "arrivals": pa.schema([*_RUN, *_ARRIVALS]),
    "availability": pa.schema([*_RUN, *_AVAILABILITY]),
    **{name: pa.schema([*_RUN, *columns]) for name, columns in _WHOLE.items()},
}  # fmt: skip
"""The tables of `record/*.parquet` by name, one file for each table."""


def is_of(schema: pa.Schema, table: str) -> bool:
    """Return whether all columns belong to a live table; an old run may have fewer columns."""
    known = LIVE.get(table, pa.schema([]))
    names = schema.names
    return len(set(names)) == len(names) and all(
        name in known.names and schema.field(name).type == known.field(name).type for name in names
    )
