"""Converts new batches of a partition's replicas to rows. Unpacks equal batches only once."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from cluster.files.batches import RecordBatch
from cluster.files.rows import Replica, replica_records
from results.record.tables import LIVE

SNAPSHOT = "final"
"""The rows use this snapshot name, as if the brokers had stopped at this moment."""
_SCHEMA = LIVE["replica_records"]


def rows_of(
    place: tuple[str, int], news: Mapping[str, Sequence[RecordBatch]]
) -> dict[str, pa.Table | None]:
    """Return rows of `replica_records`, ordered by offset, for the batches of each node.

    Args:
        place: Topic and partition.
        news: The new batches of each node's log.

    Returns:
        The rows by node; None for a node with a batch that could not be unpacked.
    """
    keyed = {node: {_key(batch): batch for batch in batches} for node, batches in news.items()}
    having = [keys for keys in keyed.values() if keys]
    shared = having[0].keys() if len(having) > 1 else set[object]()
    for keys in having[1:]:
        shared = shared & keys.keys()
    in_order = [batch for key, batch in having[0].items() if key in shared] if shared else []
    once = _unpacked(place, "", in_order)
    found: dict[str, pa.Table | None] = {}
    for node, keys in keyed.items():
        own = [batch for key, batch in keys.items() if key not in shared]
        rows = _unpacked(place, node, own)
        if shared and keys and rows is not None:
            rows = None if once is None else _joined(rows, _of(node, once))
        found[node] = rows
    return found


def _key(batch: RecordBatch) -> object:
    """Return a key that is equal for batches with equal rows."""
    return (
        batch.base_offset, batch.leader_epoch, batch.attributes, batch.base_timestamp,
        batch.max_timestamp, batch.producer_id, batch.producer_epoch, batch.base_sequence,
        batch.count, bytes(batch.body),
    )  # fmt: skip


def _unpacked(place: tuple[str, int], node: str, batches: Sequence[RecordBatch]) -> pa.Table | None:
    replica = Replica(
        topic=place[0], topic_id=None, partition=place[1], node=node, snapshot=SNAPSHOT
    )
    damage: list[str] = []
    rows = [*replica_records(batches, replica, damage)]
    return None if damage else pa.Table.from_batches(rows, schema=_SCHEMA)


def _of(node: str, rows: pa.Table) -> pa.Table:
    column = pa.repeat(pa.scalar(node, pa.string()), rows.num_rows)
    return rows.set_column(_SCHEMA.get_field_index("node"), _SCHEMA.field("node"), column)


def _joined(own: pa.Table, shared: pa.Table) -> pa.Table:
    return pa.concat_tables([own, shared]).sort_by("offset") if own.num_rows else shared
