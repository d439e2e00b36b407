"""The order of each table's rows: the same whichever engine, however many files and tasks."""

from typing import Literal

import pyarrow as pa

_PLACE = ("topic", "topic_id", "partition")
_KEYS: dict[str, tuple[str, ...]] = {
    "ops": ("op_id", "invoke_ns", "complete_ns"),
    "sends": ("op_id", "mop", "value"),
    "polls": ("op_id", "mop", "pos", "offset", "value"),
    "arrivals": ("window_ns", "worker", "phase"),
    "availability": (*_PLACE, "window_ns"),
    "assignments": ("op_id", "time_ns", *_PLACE, "kind"),
    "transactions": ("txn_id", "op_id"),
    "final_reads": (*_PLACE, "isolation", "target_end", "reached"),
    "reservations": ("value_from", "value_to", "worker"),
    "faults": ("fault_id", "requested_ns"),
    "leadership": (*_PLACE, "source", "observer", "log_offset", "observed_ns", "asked_ns",
                   "leader_epoch", "leader"),
    "replica_records": (*_PLACE, "snapshot", "node", "offset", "leader_epoch", "record_hash"),
    "replica_states": (*_PLACE, "observed_ns", "node", "snapshot", "incarnation",
                       "log_end_offset"),
    "truncations": (*_PLACE, "observed_ns", "node", "from_offset", "to_offset", "source"),
    "quorum_states": ("observed_ns", "node", "incarnation", "epoch", "log_end_offset"),
}  # fmt: skip


def ordered(name: str, table: pa.Table) -> pa.Table:
    """Return the rows of a table in its order."""
    keys: list[tuple[str, Literal["ascending", "descending"]]] = [
        (key, "ascending") for key in _KEYS[name]
    ]
    return table.sort_by(keys) if table.num_rows > 1 else table
