"""What a share group delivered of a partition, and what its members made of it (KIP-932)."""

import numpy as np
import pyarrow as pa

from checkers.columns import Ints, Mask, equal, ints, order_of, runs_of, select, take
from checkers.facts import RunFacts
from checkers.group import Group
from checkers.protocol import Labels, Premise
from checkers.state_losses import losses
from results.record import shares
from results.record.shares import STATE_COPIES
from results.record.terms import Outcome, ShareAct

TABLES = ("shared", "leadership", "replica_states", "replica_records")
"""What both checks of it look at."""
_COPIES = ("offsets.topic.replication.factor", STATE_COPIES)
_FINAL = (ShareAct.ACCEPT.value, ShareAct.REJECT.value)


def delivered(group: Group) -> pa.Table:
    """Return the deliveries of a partition."""
    rows = group.table("shared")
    return select(rows, equal(rows, "act", ShareAct.DELIVER.value))


def confirmed(group: Group) -> pa.Table:
    """Return of each record the first confirmation that it is accepted, or rejected."""
    rows = group.table("shared")
    rows = select(rows, equal(rows, "outcome", Outcome.OK.value) & equal(rows, "act", *_FINAL))
    rows = take(rows, order_of(ints(rows, "offset"), ints(rows, "value"), ints(rows, "told_ns")))
    return take(rows, runs_of(ints(rows, "offset"), ints(rows, "value"))[:-1])


def rows_in(records: pa.Table, among: pa.Table) -> Ints:
    """Return of each record its row in a table that has each once; -1: it has none.

    Args:
        records: With offsets and values: an offset that was cut off may be given out again.
        among: The same, of other records.
    """
    places = {
        key: at
        for at, key in enumerate(
            zip(ints(among, "offset").tolist(), ints(among, "value").tolist(), strict=True)
        )
    }
    keys = zip(ints(records, "offset").tolist(), ints(records, "value").tolist(), strict=True)
    return np.array([places.get(key, -1) for key in keys], dtype=np.int64)


def is_in(records: pa.Table, among: pa.Table) -> Mask:
    """Tell which records are among others."""
    return np.asarray(rows_in(records, among) >= 0, dtype=np.bool_)


def labels_of(group: Group) -> Labels:
    """Return what allows that the group's state was lost, or takes the trust of that."""
    broken = (Premise.WHOLE_RECORD.value,) if group.facts.cut_streams else ()
    return tuple(losses(group, *_COPIES)), broken


def applies(facts: RunFacts) -> bool:
    """Tell whether a run has a share group."""
    return shares.has_shares(facts.plan)
