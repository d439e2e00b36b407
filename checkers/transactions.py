"""Find transactions of unknown outcome that certainly committed, because a reader got a record.

A client whose commit timed out does not know the outcome. But a read_committed reader gets a
transaction's records only after the coordinator decided to commit. The decision applies to all
partitions at once. So if one record was read in any partition, the transaction was committed in all
partitions.
"""

from collections.abc import Iterable

import pyarrow as pa

from checkers.columns import distinct, equal, ints, present, select, within
from results.record.tables import TABLES
from results.record.terms import Outcome

KEY = ("topic", "topic_id", "partition", "value")
"""The columns that identify a send."""
SEND_COLUMNS = (*KEY, "op_id", "txn_id", "outcome")
POLL_COLUMNS = (*KEY, "isolation", "outcome")
READ_COMMITTED = "read_committed"
_PLAIN = pa.schema([TABLES["polls"].field(name) for name in POLL_COLUMNS])
_WANTED = pa.schema([TABLES["sends"].field(name) for name in (*KEY, "op_id")])
"""Schemas with plain strings. Large tables store strings in dictionaries, which cannot be joined
with plain strings."""


def unknown_sends(sends: pa.Table) -> pa.Table:
    """Return the sends of transactions with an unknown outcome.

    Args:
        sends: Rows with `SEND_COLUMNS`.
    """
    unknown = present(sends, "txn_id") & equal(sends, "outcome", Outcome.INFO.value)
    return select(sends, unknown & present(sends, "value"))


def witnessed(unknown: pa.Table, polls: Iterable[pa.Table]) -> frozenset[int]:
    """Return the op ids of transactions from which an ok read_committed poll returned records.

    Args:
        unknown: The result of `unknown_sends` for a whole run.
        polls: Rows with `POLL_COLUMNS`, in any number of parts.
    """
    found: set[int] = set()
    if not unknown.num_rows:
        return frozenset()
    values = distinct(ints(unknown, "value"))
    wanted = unknown.select([*KEY, "op_id"]).cast(_WANTED)
    for part in polls:
        near = select(part, within(ints(part, "value"), values))
        near = near.select(list(POLL_COLUMNS)).cast(_PLAIN)
        shown = equal(near, "isolation", READ_COMMITTED) & equal(near, "outcome", Outcome.OK.value)
        # A null topic_id matches nothing, so rows around a topic's deletion are not judged.
        hit = wanted.join(select(near, shown).select(list(KEY)), list(KEY), join_type="left semi")
        found |= set(ints(hit, "op_id").tolist())
    return frozenset(found)
