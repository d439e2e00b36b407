"""Descriptions of the record's tables and columns, for the reference.

`tables.py` declares the columns. A column means the same in most tables, so it has one description
here. A key `TABLE.COLUMN` describes a column that has another meaning in that table.
"""

from collections.abc import Mapping
from enum import StrEnum

from results.record.contents import HEADERS, KEY, PAYLOAD, TIME
from results.record.terms import (
    AssignmentKind,
    Decision,
    F,
    GroupAct,
    Isolation,
    Outcome,
    Phase,
    ShareAct,
    Source,
    TransactionOutcome,
)

TABLES: Mapping[str, str] = {
    "ops": "One row for each operation of a client.",
    "sends": "One row for each message that an operation sent.",
    "polls": "One row for each message that an operation read.",
    "arrivals": "For each 100 ms: how many operations were due, and how many found no free"
    " process.",
    "availability": "For each partition and time window: how many sends were under way, and how"
    " many succeeded.",
    "assignments": "The partitions that a consumer got or lost, and the consumer's seeks.",
    "commits": "One row for each commit of a group's offset, and for each fetch of this offset.",
    "transactions": "One row for each transaction, with its decision and its outcome.",
    "final_reads": "How each final read of a partition ended.",
    "reservations": "The message numbers (values) that each worker may use.",
    "faults": "One row for each fault: when it was requested, confirmed and healed, and what was"
    " measured.",
    "leadership": "The leaders of partitions, as brokers reported them to observers.",
    "replica_records": "Every record in the log of every replica, read from the brokers' files.",
    "replica_states": "The start and end of each replica's log, and its high watermark.",
    "truncations": "Each truncation of a replica's log.",
    "quorum_states": "The states that each voter of the controllers' quorum reported.",
    "kept_commits": "Committed offsets of groups, read from the brokers' files.",
    "transforms": "The input and the output records of a pipeline.",
    "shared": "The deliveries and acknowledgements of each record of a share group.",
    "op_invocations": "The beginning of each operation.",
    "op_completions": "The end of each operation.",
    "send_invocations": "Each message, recorded before it was handed to the producer.",
    "send_completions": "The result of sending each message.",
    "polled": "Each message, recorded when it was read.",
}
"""A description of each table and each stream."""

COLUMNS: Mapping[str, str] = {
    "act": "The request, or the event of the record.",
    "acked": "Whether the broker acknowledged the message.",
    "acks": "The producer's `acks` setting: `0`, `1` or `all`.",
    "acquired_after_ns": "The member acquired the record after this time. Null for an"
    " acknowledgement.",
    "asked_ns": "The time at which the client sent the request.",
    "assignments.offset": "Where the consumer starts to read. Null means the beginning, or in a"
    " group the committed offset.",
    "assignments.op_id": "The operation during which the client learned of the change.",
    "attempted": "The number of sends that were under way in the window.",
    "commits.offset": "The committed offset. Null if the group has none, or if no response came.",
    "commits.op_id": "The operation that committed or requested the offset.",
    "committed_by": "The operation that committed the offset, from the commit's metadata. Null if"
    " unknown.",
    "complete": "Whether the read reached its target.",
    "complete_ns": "The time at which the operation ended. Null if it never ended.",
    "confirmed_ns": "The time at which a measurement showed the fault's effect. Null if none did.",
    "control": "Whether the record is a control record, such as a transaction marker.",
    "damage": "The fields that differ from the message sent, as a sum:"
    f" payload {PAYLOAD}, key {KEY}, headers {HEADERS}, time stamp {TIME}. 0 for an intact record,"
    " null for an unchecked one.",
    "decision": "The client's decision about its transaction.",
    "delivery_count": "How often the group has delivered the record, including this time. Null for"
    " an acknowledgement.",
    "effect": "The measured effect of the fault, as JSON.",
    "epoch": "The epoch of the quorum.",
    "epochs": "The replica's leader epochs, each with the offset where it starts.",
    "error": "The error's name and message. Null if there was no error.",
    "f": "The type of the operation, Jepsen's `f`.",
    "fault_id": "The number of the fault in the run.",
    "faults.kind": "The kind of fault.",
    "from_offset": "The new end of the log: records from this offset on were removed.",
    "group_id": "The consumer group.",
    "heal_effect": "The measured effect of the heal, as JSON.",
    "healed_ns": "The time at which a measurement showed that the fault was undone. Null if"
    " none did.",
    "high_watermark": "The high watermark. Null if unknown.",
    "high_watermark_ns": "The time at which the high watermark was read.",
    "high_watermark_source": "`fetch`: from the broker's response. `checkpoint`: from a file.",
    "incarnation": "1 for the node's first start, 2 for its second. 0 for a row from a file.",
    "invoke_ns": "The time at which the operation began.",
    "isolation": "The isolation level of the consumer.",
    "isr": "The in-sync replicas, as broker ids. Null if unknown.",
    "kept_commits.offset": "The committed offset. Null if the commit was deleted.",
    "kept_commits.log_offset": "The offset of the commit in `__consumer_offsets`.",
    "kind": "How the consumer got or lost the partition.",
    "last_stable_offset": "The offset before which a read_committed reader may read.",
    "leader": "The leader's id. -1 or null: no leader.",
    "leader_epoch": "The leader epoch. Null if unknown.",
    "leadership.asked_ns": "The time at which the observer sent the request. Null for a row from"
    " a file.",
    "leadership.log_offset": "The row's offset in the metadata log. It orders rows of the source"
    " `metadata-log`.",
    "log_end_offset": "The end of the log: the offset of the next record.",
    "log_partition": "The partition of `__consumer_offsets` that holds the commit.",
    "log_start_offset": "The start of the log: the smallest offset that the log may still hold.",
    "messages": "How many messages the operation sent, read or acknowledged. In a transaction: how"
    " many it sent.",
    "missed": "The number of operations for which no process was free.",
    "mop": "The index of the micro-operation in its operation, from 0.",
    "node": "The node.",
    "observed_ns": "The time at which the response came. Null for a row from a file.",
    "observer": "The node that reported the row.",
    "offered": "The number of operations that were due in the window at the planned rate.",
    "offset": "The message's offset. Null if the client does not know it.",
    "ok": "The number of sends that succeeded in the window.",
    "op_id": "The operation. The id is unique in the run.",
    "outcome": "How the operation ended. `fail`: certainly without effect. `info`: its effect is"
    " unknown.",
    "partition": "The number of the partition.",
    "phase": "The phase of the run in which the operation began.",
    "pos": "The index of the message in the poll's result, from 0.",
    "process": "The number of the logical client. It changes after an operation that ends as"
    " `info`.",
    "producer_epoch": "The producer epoch. Null if unknown, -1 if there is none.",
    "producer_id": "The producer id. Null if unknown, -1 if there is none.",
    "reached": "The offset that the read reached.",
    "reason": "The reason that the broker logged.",
    "record_hash": "A hash of key, value, headers and time stamp. Equal records have equal hashes.",
    "replica_records.offset": "The record's offset.",
    "requested_ns": "The time at which the fault was requested.",
    "result": "The number (value) of the message that the pipeline sent for the input.",
    "role": "The node's role in the quorum. Null for a row that only reports a vote.",
    "run_id": "The run: `NAME/TIME-SEED`.",
    "sequence": "The producer's sequence number. -1 if there is none.",
    "snapshot": "The step, or the moment, at which the row was collected. Null for a row that was"
    " observed during the run.",
    "source": "Where the row comes from.",
    "spec": "The fault as scheduled, and its result, as JSON.",
    "target_end": "The offset to reach.",
    "targets": "The nodes that the fault hit.",
    "time_ns": "The time at which the client learned of the change.",
    "to_offset": "The old end of the log. Null if the broker's log file does not contain it.",
    "told_ns": "The time at which the client got the response. Null if none came.",
    "topic": "The topic.",
    "topic_id": "The id of the topic. A topic that is deleted and created again gets a new id.",
    "transactional_id": "The transactional id. Null without a transaction.",
    "transactions.outcome": "The outcome that the coordinator reported.",
    "transforms.value": "The number (value) of the input message.",
    "truncations.source": "The log file that reports the truncation: `server-log` or"
    " `state-change-log`.",
    "txn_id": "The transaction: the number of its operation. Null without a transaction.",
    "unclean": "Whether the leader was in neither the ISR nor the eligible leader replicas"
    " (KIP-966). Null if the source does not show it.",
    "value": "The message's number (value). It is unique in the run. Null for a record that"
    " Logquake did not send.",
    "value_from": "The first value of the range.",
    "value_to": "The end of the range, exclusive.",
    "voted_directory": "The log directory id of the candidate that the node voted for (KIP-853).",
    "voted_for": "The candidate that the node voted for. Null without a vote.",
    "whole": "Whether the log of the commit is complete from offset 0 on, i.e. was not compacted.",
    "window_ns": "The start of the window.",
    "worker": "The number of the worker: the operating system's process that runs the client.",
}
"""A description of each column. `TABLE.COLUMN` overrides `COLUMN`."""

TERMS: Mapping[str, type[StrEnum]] = {
    "commits.act": GroupAct,
    "decision": Decision,
    "f": F,
    "isolation": Isolation,
    "assignments.kind": AssignmentKind,
    "leadership.source": Source,
    "outcome": Outcome,
    "phase": Phase,
    "shared.act": ShareAct,
    "transactions.outcome": TransactionOutcome,
}
"""The terms that a column may contain, if the column allows only certain terms."""


def column_description(table: str, column: str) -> str:
    """Return the description of a column; an empty string if there is none."""
    return COLUMNS.get(f"{table}.{column}") or COLUMNS.get(column, "")


def terms_of(table: str, column: str) -> tuple[str, ...]:
    """Return the terms that a column of a table may contain; empty if any text is possible."""
    terms = TERMS.get(f"{table}.{column}") or TERMS.get(column)
    return tuple(each.value for each in terms) if terms else ()
