"""The deliveries of a share group from a partition, and its members' acknowledgements (KIP-932)."""

import numpy as np
import pyarrow as pa

from checkers.changes import HANDLES, MEMORY, PROCESSOR
from checkers.columns import (
    NEVER,
    NONE,
    Ints,
    Mask,
    equal,
    ints,
    order_of,
    present,
    runs_of,
    select,
    take,
)
from checkers.facts import RunFacts
from checkers.group import Group
from checkers.protocol import Labels, Premise
from checkers.reigns import GROUPS, LATE_NS, SHARES
from checkers.state_losses import losses
from results.record import shares
from results.record.terms import Outcome, ShareAct, Source

TABLES = ("shared", "leadership", "replica_states", "replica_records")
"""The tables that both checks on deliveries read."""
_HOLDING = frozenset({
    "pause", "slow-disk", "disk-full", "read-only", HANDLES, PROCESSOR, MEMORY,
})  # fmt: skip
"""The faults during which a broker may know a change of leader, but not yet apply this change."""
_FINAL = (ShareAct.ACCEPT.value, ShareAct.REJECT.value)


def delivered(group: Group) -> pa.Table:
    """Return the deliveries of a partition."""
    rows = group.table("shared")
    return select(rows, equal(rows, "act", ShareAct.DELIVER.value))


def confirmed(group: Group) -> pa.Table:
    """Return, for each record, the first confirmation that the record was accepted or rejected."""
    rows = group.table("shared")
    rows = select(rows, equal(rows, "outcome", Outcome.OK.value) & equal(rows, "act", *_FINAL))
    rows = take(rows, order_of(ints(rows, "offset"), ints(rows, "value"), ints(rows, "told_ns")))
    return take(rows, runs_of(ints(rows, "offset"), ints(rows, "value"))[:-1])


def in_force_ns(group: Group, done: pa.Table) -> Ints:
    """Return the time from which every leader of the partition must respect each confirmation.

    A replaced leader may still deliver records until it learns about its replacement. The share
    coordinator refuses only the writes of such a leader. So every broker must have learned the
    leader epoch of the confirmation, or a later epoch. The time is `NEVER` if this is unknown
    for some broker.
    """
    told_ns, place = ints(done, "told_ns"), (group.topic, group.partition)
    epochs = np.full(done.num_rows, NONE, dtype=np.int64)
    for reign in group.facts.reigns:
        if (reign.topic, reign.partition) == place:
            begun = reign.from_ns <= told_ns + LATE_NS
            epochs = np.where(begun, np.maximum(epochs, reign.epoch), epochs)
    known_ns = {epoch: _known_ns(group, epoch) for epoch in set(epochs.tolist())}
    return np.maximum(told_ns, [known_ns[epoch] for epoch in epochs.tolist()]).astype(np.int64)


def _known_ns(group: Group, epoch: int) -> int:
    """Return the time by which every broker had learned a leader epoch or a later one."""
    rows = group.table("leadership")
    rows = select(rows, equal(rows, "source", Source.METADATA.value) & present(rows, "observed_ns"))
    rows = select(rows, ints(rows, "leader_epoch") >= epoch)
    known_ns = 0 if epoch >= 0 else NEVER
    for node in (f"n{broker}" for broker in group.facts.brokers):
        mine = select(rows, equal(rows, "observer", node))
        told_ns = int(ints(mine, "observed_ns").min(initial=NEVER))
        known_ns = max(known_ns, _applied_ns(group.facts, node, told_ns))
    return known_ns


def _applied_ns(facts: RunFacts, node: str, told_ns: int) -> int:
    """Return the time from which a broker certainly has the role that its answer shows.

    The answer may come before the broker takes the role. A pause, a slow disk or a lack of a
    resource can delay the change of role until the end of the fault.
    """
    if told_ns >= NEVER:
        return NEVER
    applied_ns = told_ns + LATE_NS
    for fault in sorted(facts.disturbances, key=lambda each: each.begun_ns):
        holds = fault.kind in _HOLDING and node in fault.nodes
        if holds and fault.begun_ns <= applied_ns:
            applied_ns = max(applied_ns, min(fault.ended_ns, NEVER - LATE_NS) + LATE_NS)
    return applied_ns


def rows_in(records: pa.Table, among: pa.Table) -> Ints:
    """Return the row number of each record in another table; -1 if the record is not in that table.

    Args:
        records: Rows with offset and value. After a truncation, the same offset may be reused
            for another value.
        among: The other table, in which each pair of offset and value occurs once.
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
    """Return a mask of the records that also occur in another table."""
    return np.asarray(rows_in(records, among) >= 0, dtype=np.bool_)


def labels_of(group: Group, known_ns: int = NONE, missed_ns: int = NEVER) -> Labels:
    """Return the excuses for the loss of a share group's state, and the broken premises.

    Args:
        group: The run's rows of one partition.
        known_ns: When the state was known to be in the log; -1 if unknown.
        missed_ns: When the state was missing.
    """
    broken = (Premise.WHOLE_RECORD.value,) if group.facts.cut_streams else ()
    return tuple(losses(group, GROUPS, SHARES, known_ns=known_ns, missed_ns=missed_ns)), broken


def applies(facts: RunFacts) -> bool:
    """Return whether a run has a share group."""
    return shares.has_shares(facts.plan)
