"""Find transactions of unknown outcome that certainly committed, because a reader got a record.

A client whose commit timed out does not know the outcome. But a read_committed reader gets a
transaction's records only after the coordinator decided to commit. The decision applies to all
partitions at once. So if one record was read in any partition, the transaction was committed in all
partitions.

If a partition lost the marker of an abort but kept the records, the producer's next marker decides
for both transactions. So a read proves nothing if it ended after such a loss began, and the record
was sent before the loss was over.
"""

from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa

from checkers.columns import NONE, Mask, distinct, equal, ints, present, select, within
from checkers.facts import DiskLoss, UncleanOrder
from results.record.plan import Plan
from results.record.tables import TABLES
from results.record.terms import Outcome

KEY = ("topic", "topic_id", "partition", "value")
"""The columns that identify a send."""
SEND_COLUMNS = (*KEY, "op_id", "txn_id", "outcome", "invoke_ns")
POLL_COLUMNS = (*KEY, "isolation", "outcome", "complete_ns")
READ_COMMITTED = "read_committed"
_PLAIN = pa.schema([TABLES["polls"].field(name) for name in POLL_COLUMNS])
_WANTED = pa.schema([TABLES["sends"].field(name) for name in (*KEY, "op_id")])
"""Schemas with plain strings. Large tables store strings in dictionaries, which cannot be joined
with plain strings."""
Doubt = tuple[str, int, int, int]
"""A partition that may have lost markers: topic ("" for all), partition, begin and end of that."""


def unknown_sends(sends: pa.Table) -> pa.Table:
    """Return the sends of transactions with an unknown outcome.

    Args:
        sends: Rows with `SEND_COLUMNS`.
    """
    unknown = present(sends, "txn_id") & equal(sends, "outcome", Outcome.INFO.value)
    return select(sends, unknown & present(sends, "value"))


def doubts(plan: Plan, losses: Collection[DiskLoss], orders: Iterable[UncleanOrder]) -> list[Doubt]:
    """Return the partitions that may lack markers: by disk losses, or by unclean elections.

    One loss is enough. The hit node may have been the whole ISR, and then the others truncate their
    copies of the marker.
    """
    found = [(each.topic, each.partition, each.began_ns, each.seen_ns) for each in orders]
    if plan.unclean_elections:  # The times of such elections are not known.
        found.append(("", NONE, 0, NONE))
    costly = [each for each in losses if each.first_taken < each.end_before]
    for place in {(each.topic, each.partition) for each in costly}:
        mine = [each for each in costly if each.concerns(*place)]
        healed_ns = [each.healed_ns for each in mine]
        over_ns = max(healed_ns) if min(healed_ns) >= 0 else NONE
        found.append((*place, min(each.began_ns for each in mine), over_ns))
    return found


def witnessed(
    unknown: pa.Table, polls: Iterable[pa.Table], doubtful: Iterable[Doubt] = ()
) -> frozenset[int]:
    """Return the op ids of transactions from which an ok read_committed poll returned records.

    Args:
        unknown: The result of `unknown_sends` for a whole run.
        polls: Rows with `POLL_COLUMNS`, in any number of parts.
        doubtful: The result of `doubts`.
    """
    found: set[int] = set()
    if not unknown.num_rows:
        return frozenset()
    values, doubtful = distinct(ints(unknown, "value")), tuple(doubtful)
    wanted = unknown.select([*KEY, "op_id"]).cast(_WANTED)
    for part in polls:
        near = select(part, within(ints(part, "value"), values))
        near = near.select(list(POLL_COLUMNS)).cast(_PLAIN)
        shown = equal(near, "isolation", READ_COMMITTED) & equal(near, "outcome", Outcome.OK.value)
        shown &= ~_in_doubt(unknown, near, doubtful)
        # A null topic_id matches nothing, so rows around a topic's deletion are not judged.
        hit = wanted.join(select(near, shown).select(list(KEY)), list(KEY), join_type="left semi")
        found |= set(ints(hit, "op_id").tolist())
    return frozenset(found)


def _in_doubt(unknown: pa.Table, polls: pa.Table, doubtful: Iterable[Doubt]) -> Mask:
    ended_ns, sent_ns = ints(polls, "complete_ns"), ints(unknown, "invoke_ns")
    found = np.zeros(polls.num_rows, dtype=np.bool_)
    for topic, partition, since_ns, over_ns in doubtful:
        here = equal(unknown, "topic", topic) & (ints(unknown, "partition") == partition)
        early = (here | (topic == "")) & ((sent_ns <= over_ns) | (over_ns < 0))
        late = (ended_ns < 0) | (ended_ns >= since_ns)
        found |= late & within(ints(polls, "value"), ints(unknown, "value")[early])
    return found
