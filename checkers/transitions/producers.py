"""Find producers whose epoch rose between two records of a partition.

The source is `replica_records` of one final log. The coordinator raises a producer's epoch when the
next producer with the same transactional id begins, or when a timeout aborts a transaction. Since
KIP-890, the coordinator also raises the epoch at the end of each transaction. An idempotent
producer raises its own epoch after an error.

What would not prove it: records of two producers, because these have two ids. The time of such a
transition is unknown, because records do not contain times on the run's clock.
"""

import numpy as np

from checkers.columns import equal, ints, runs_of, select, unique_pairs, words_of
from checkers.group import Group
from checkers.transitions.events import UNTIMED, Events


def find(group: Group, events: Events) -> None:
    """Add a transition for each producer epoch that follows a lower epoch in a log."""
    records = group.table("replica_records")
    if not records.num_rows:
        return
    final = select(
        records.select(["node", "snapshot", "producer_id", "producer_epoch"]),
        equal(records, "snapshot", group.facts.snapshot),
    )
    nodes = words_of(final, "node")
    node = group.leader.node if group.leader and group.leader.node in nodes else [*nodes, ""][0]
    mine = select(final, equal(final, "node", node))
    known = (ints(mine, "producer_id") >= 0) & (ints(mine, "producer_epoch") >= 0)
    producers, _ = unique_pairs(
        *(ints(mine, name)[known] for name in ("producer_id", "producer_epoch"))
    )
    raised = len(producers) - (len(runs_of(producers)) - 1)
    events.add_all("producer/epoch-raised", np.full(raised, UNTIMED, dtype=np.int64))
