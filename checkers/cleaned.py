"""What a cleaner may have taken out of a partition's log, and what it must leave there.

A cleaner keeps the last record of each key, and takes others: a record goes only if a later one of
its key is in the log to stay, or if it is a tombstone, which goes some time after it was cleaned
(`delete.retention.ms`). Records of aborted transactions go too; they are never the last of a key.

So of a committed record nothing can be asked if any later record of its key may have committed:

- one that certainly committed, or that the last leader's final log still holds;
- a tombstone, which may have gone since, wherever it is known to have stood; one whose place nobody
  knows may have stood anywhere.

A later record that is neither was cut off, and had to be superseded itself to be cleaned away.
Without that log, any later record counts that was ever told or read. Sends that certainly failed
never count, nor do values that nobody sent. A run whose keys are not known (`Plan.keys`), and one
whose streams are cut, may have lost anything to a cleaner.
"""

from dataclasses import dataclass

import numpy as np

from checkers.columns import NONE, Ints, Mask, equal, ints, present, select, stack, within
from checkers.facts import FINAL
from checkers.group import Group, ReplicaLog
from results.record.keys import are_tombstones, key_numbers
from results.record.terms import Outcome


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays have no one answer to ==.
class Latest:
    """How far up records of each key may stand that are in the log to stay.

    Attributes:
        offsets: By the key's number: the highest offset of such a record, -1 if there is none.
        tombstones: The same, of tombstones alone.
        adrift: Whether there may be a tombstone of the key that nobody knows the place of.
    """

    offsets: Ints
    tombstones: Ints
    adrift: Mask


def kept(group: Group) -> Mask:
    """Tell which rows of `committed` no cleaner may have taken."""
    return group.view(_kept)


def uncleaned(group: Group) -> Mask:
    """Tell which rows of `committed` were there all the time: kept, or still in all logs."""
    return np.asarray(~within(ints(group.committed, "value"), taken(group)), dtype=np.bool_)


def taken(group: Group) -> Ints:
    """Return the committed values that a cleaner may have taken where a reader came by.

    Each replica is cleaned by itself, and any of them may have led: so only what stands in all
    final logs was there all the time.
    """
    return group.view(_taken)


def stayed(group: Group) -> Ints:
    """Return the values that no replica's cleaner ever took."""
    return stack([ints(group.committed, "value")[kept(group)], group.view(_in_all_logs)])


def keys_in(group: Group, values: Ints) -> Ints:
    """Return the number of each value's key; 0 of what is none of a run's values."""
    return key_numbers(np.maximum(values, 0), group.facts.plan.keys)


def may_stand(group: Group, values: Ints) -> Mask:
    """Tell which values were sent and may have committed."""
    sends = group.table("sends")
    failed = equal(sends, "outcome", Outcome.FAIL.value)
    return np.asarray(within(values, ints(sends, "value")[~failed]) & (values >= 0), np.bool_)


def latest(group: Group) -> Latest:
    """Return how far up records of each key may stand."""
    return group.view(_latest)


def _latest(group: Group) -> Latest:
    offsets, values = _places(group)
    standing = may_stand(group, values)
    offsets, values = offsets[standing], values[standing]
    dead = are_tombstones(values)
    tombstones = _highest(group, offsets[dead], values[dead])
    log = group.final_log
    if log is not None:
        in_log = may_stand(group, log.values) & (log.controls != 1)
        sure = [ints(group.committed, name) for name in ("offset", "value")]
        offsets = stack([log.offsets[in_log], sure[0]])
        values = stack([log.values[in_log], sure[1]])
    sends = group.table("sends")
    open_sends = select(
        sends, present(sends, "value") & ~equal(sends, "outcome", Outcome.FAIL.value)
    )
    sent = ints(open_sends, "value")
    lost = sent[are_tombstones(sent) & ~within(sent, _places(group)[1])]
    adrift = np.zeros(group.facts.plan.keys, np.bool_)
    adrift[keys_in(group, lost)] = True
    return Latest(
        offsets=np.maximum(tombstones, _highest(group, offsets, values)),
        tombstones=tombstones,
        adrift=adrift,
    )


def _places(group: Group) -> tuple[Ints, Ints]:
    """Return offsets and values: where anything was told, read or found to stand."""
    return group.view(_all_places)


def _all_places(group: Group) -> tuple[Ints, Ints]:
    tables = [group.table(name) for name in ("sends", "polls", "replica_records")]
    offsets, values = (stack([ints(each, name) for each in tables]) for name in ("offset", "value"))
    known = (offsets >= 0) & (values >= 0)
    return offsets[known], values[known]


def _highest(group: Group, offsets: Ints, values: Ints) -> Ints:
    found = np.full(group.facts.plan.keys, NONE, np.int64)
    np.maximum.at(found, keys_in(group, values), offsets)
    return found


def _kept(group: Group) -> Mask:
    sends = group.committed
    if not group.facts.compacted:
        return np.ones(sends.num_rows, np.bool_)
    if not group.facts.plan.keys or group.facts.cut_streams:
        return np.zeros(sends.num_rows, np.bool_)
    values, offsets = ints(sends, "value"), ints(sends, "offset")
    keys, last = keys_in(group, values), latest(group)
    is_last = (offsets >= 0) & (offsets >= last.offsets[keys]) & ~last.adrift[keys]
    return np.asarray(is_last & ~are_tombstones(values), np.bool_)


def _taken(group: Group) -> Ints:
    values = ints(group.committed, "value")[~kept(group)]
    return values[~within(values, group.view(_in_all_logs))]


def _in_all_logs(group: Group) -> Ints:
    """Return the values that stand in the final log of each replica; none if not all were read."""
    logs = list(group.logs.get(FINAL, {}).values())
    found = logs[0].values if len(logs) >= group.facts.plan.replication else np.empty(0, np.int64)
    for log in logs[1:]:
        found = found[within(found, log.values)]
    return found


def holes(group: Group, log: ReplicaLog) -> int:
    """Return how many committed records a replica's log lacks below its end: the cleaner's work."""
    offsets, values = ints(group.committed, "offset"), ints(group.committed, "value")
    here = (offsets >= log.start) & (offsets < log.read_end) & ~within(values, log.values)
    return int(here.sum())
