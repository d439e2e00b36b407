"""What a cleaner may have taken out of a partition's log, and what it must leave there.

A cleaner keeps the last record of each key, and takes others: a record goes only if a later one of
its key is in the log to stay, or if it is a tombstone, which goes some time after it was cleaned
(`delete.retention.ms`). Records of aborted transactions go too; they are never the last of a key.

So of a committed record nothing can be asked if any later record of its key may have committed:

- one that certainly committed, or that the last leader's final log still holds;
- a tombstone, which may have gone since, wherever it is known to have stood. A tombstone with an
  unknown offset may have stood in any unexplained gap. So may a second copy of one that was sent
  again: of a tombstone without an answer, and of any if the producer is not idempotent. But the
  last leader's final log does not hold one copy of a tombstone if a later one is gone.

An unexplained gap of the last leader's final log is an offset at which it holds nothing, and at
which no writer or reader was told of a record. Above the last gap no cleaner took anything that
nobody knows; and a tombstone stands above all that was acknowledged before it was sent. One that
was cut off was never committed, and a cleaner stops at the last stable offset. Before 3.1.0 it
stopped only at open transactions (KAFKA-13194), and an unclean election or a fault of disks cuts
off what was committed: then a tombstone may have stood anywhere.

A later record that is neither was cut off, and had to be superseded itself to be cleaned away.
Without that log, any later record counts that was ever told or read. Sends that certainly failed
never count, nor do values that nobody sent. A run whose keys are not known (`Plan.keys`), and one
whose streams are cut, may have lost anything to a cleaner.
"""

from dataclasses import dataclass

import numpy as np

from checkers.columns import NONE, Ints, Mask, distinct, equal, ints, present, stack, within
from checkers.facts import FINAL
from checkers.group import Group, ReplicaLog
from checkers.unclean_elections import unclean_elections
from results.record.keys import are_tombstones, key_numbers
from results.record.terms import Outcome

_FAR = int(np.iinfo(np.int64).max)
_FIRST_BOUNDED = (3, 1)
"""Cleaners of versions before may take what lies above the high watermark."""
_TELL = ("sends", "polls")
"""Tables that tell what stood at an offset, whether or not it stands there still."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays have no one answer to ==.
class Latest:
    """How far up records of each key may stand that are in the log to stay.

    Attributes:
        offsets: By the key's number: the highest offset of such a record, -1 if there is none.
        tombstones: The same, of tombstones alone that are known to have stood somewhere.
        adrift: The same, of tombstones alone with an unknown offset, or perhaps an unknown copy:
            where one may have stood.
    """

    offsets: Ints
    tombstones: Ints
    adrift: Ints


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
    """Return the number of each value's key."""
    return key_numbers(values, group.facts.plan.keys)


def may_stand(group: Group, values: Ints) -> Mask:
    """Tell which values were sent and may have committed."""
    sends = group.table("sends")
    open_sends = present(sends, "value") & ~equal(sends, "outcome", Outcome.FAIL.value)
    return within(values, ints(sends, "value")[open_sends])


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
        in_log = may_stand(group, log.values)
        sure = [ints(group.committed, name) for name in ("offset", "value")]
        offsets = stack([log.offsets[in_log], sure[0]])
        values = stack([log.values[in_log], sure[1]])
    adrift = _adrift(group)
    highest = _highest(group, offsets, values)
    return Latest(
        offsets=np.maximum.reduce([tombstones, adrift, highest]),
        tombstones=tombstones,
        adrift=adrift,
    )


def _adrift(group: Group) -> Ints:
    """Return how far up a tombstone of each key, or a copy, may have stood unknown to anybody."""
    sends = group.table("sends")
    values, offsets = ints(sends, "value"), ints(sends, "offset")
    lost = may_stand(group, values) & are_tombstones(values)
    lost &= ~within(values, _places(group)[1]) | _may_stand_twice(group)
    told = np.flatnonzero(present(sends, "complete_ns"))
    told = told[np.argsort(ints(sends, "complete_ns")[told], kind="stable")]
    below = np.append(NONE, np.maximum.accumulate(offsets[told]))
    begun = ints(sends, "invoke_ns")[lost]
    before = below[np.searchsorted(ints(sends, "complete_ns")[told], begun)]
    gap = _last_gap(group)
    return _highest(group, np.where(gap > before, gap, NONE), values[lost])


def _may_stand_twice(group: Group) -> Mask:
    """Tell which sends may have a copy above the known one, and both may be gone."""
    sends, log, facts = group.table("sends"), group.final_log, group.facts
    again = equal(sends, "outcome", Outcome.INFO.value)
    if not facts.idempotent:
        again = np.ones_like(again)
    if log is not None:
        again = again & ~within(ints(sends, "value"), log.values)
    return np.asarray(again & facts.retries, np.bool_)


def _last_gap(group: Group) -> int:
    """Return the highest offset at which a record may have stood that nobody knows of, if any."""
    log = group.final_log
    if (
        log is None
        or not log.whole
        or log.node in group.facts.unreadable_nodes
        or group.facts.disk_losses
        or group.facts.weak_acks  # What was told may have been cut off again.
        or unclean_elections(group).seen
        or group.facts.plan.version_numbers < _FIRST_BOUNDED
    ):
        return _FAR
    known = stack([log.offsets, *(ints(group.table(name), "offset") for name in _TELL)])
    known = distinct(known[known < log.end])
    above = known == np.arange(log.end - len(known), log.end)
    return log.end - 1 - int(above.sum())


def _places(group: Group) -> tuple[Ints, Ints]:
    """Return offsets and values: where anything was told, read or found to stand."""
    return group.view(_all_places)


def _all_places(group: Group) -> tuple[Ints, Ints]:
    tables = [group.table(name) for name in ("sends", "polls", "replica_records")]
    offsets, values = (stack([ints(each, name) for each in tables]) for name in ("offset", "value"))
    known = offsets >= 0
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
    is_last = (offsets >= 0) & (offsets >= last.offsets[keys])
    return np.asarray(is_last & ~are_tombstones(values), np.bool_)


def _taken(group: Group) -> Ints:
    values = ints(group.committed, "value")[~kept(group)]
    return values[~within(values, group.view(_in_all_logs))]


def _in_all_logs(group: Group) -> Ints:
    """Return the values that stand in the final log of each replica; none if not all were read."""
    logs = list(group.logs.get(FINAL, {}).values())
    if len(logs) < group.facts.plan.replication:
        return np.empty(0, np.int64)
    found = logs[0].values
    for log in logs:
        found = found[within(found, log.values)]
    return found


def holes(group: Group, log: ReplicaLog) -> int:
    """Return how many committed records a replica's log lacks below its end: the cleaner's work."""
    offsets, values = ints(group.committed, "offset"), ints(group.committed, "value")
    here = (offsets >= log.start) & (offsets < log.read_end) & ~within(values, log.values)
    return int(here.sum())
