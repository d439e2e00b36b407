"""Find which records of a partition a log cleaner may have removed, and which it must have kept.

A cleaner keeps the last record of each key and removes others. A cleaner removes a record in two
cases: a later record of its key stays in the log, or the record is an old tombstone. A tombstone is
removed some time after it was cleaned (`delete.retention.ms`). Records of aborted transactions are
removed too. Such a record never counts as the last record of a key.

So a check cannot expect a committed record if a later record of its key may have committed:

- The later record certainly committed, or the last leader's final log still holds that record.
- The later record is a tombstone with a known offset. The tombstone may have been removed after
  that.
- The later record is a tombstone with an unknown offset. This tombstone may have been in any
  unexplained gap.
- The later record is a second copy of a retried tombstone. A second copy is possible if the send
  had no answer, or if the producer is not idempotent. The cleaner never removes a later copy while
  the last leader's final log holds an earlier copy.

An unexplained gap is an offset that is empty in the last leader's final log, and that no writer or
reader reported. Above the last gap, no unknown record was removed. A tombstone is above every
record that was acknowledged before the tombstone was sent. A truncated tombstone never committed,
and a cleaner stops at the last stable offset. Before 3.1.0, a cleaner stopped only at open
transactions (KAFKA-13194). Unclean elections and disk faults remove committed records. With acks 0
or 1, even an acknowledged record may have been truncated. In these cases, and without a complete
final log, a tombstone may have been at any offset.

Any other later record was truncated, or was replaced by a still later record of the key. Without
the final log, every later record that was reported or read counts. Sends that certainly failed
never count, and values that were never sent do not count. If the keys are unknown (`Plan.keys`) or
the run's streams are cut, a cleaner may have removed any record.
"""

from dataclasses import dataclass

import numpy as np

from checkers.columns import (
    NEVER,
    NONE,
    Ints,
    Mask,
    distinct,
    equal,
    first_match,
    ints,
    present,
    stack,
    within,
)
from checkers.facts import FINAL, RunFacts
from checkers.group import Group, ReplicaLog
from checkers.unclean_elections import unclean_elections
from results.record.keys import are_tombstones, key_numbers
from results.record.terms import Outcome
from results.record.tuning import number_of

_RETENTION, _DAY_MS = "log.cleaner.delete.retention.ms", 86_400_000
_FIRST_BOUNDED = (3, 1)
"""The first version in which cleaners never remove records above the high watermark."""
_TELL = ("sends", "polls")
"""The tables that report which value an offset held at some time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class Latest:
    """For each key, the highest offset that may have held a record which stays in the log.

    Attributes:
        offsets: For each key number, the highest offset of such a record; -1 if there is none.
        tombstones: For each key number, the highest known offset of a tombstone; -1 if none.
        adrift: For each key number, the highest possible offset of a tombstone or second copy whose
            offset is unknown; -1 if there is none.
    """

    offsets: Ints
    tombstones: Ints
    adrift: Ints


def kept(group: Group) -> Mask:
    """Return a mask of the rows of `committed` that no cleaner may have removed."""
    return group.view(_kept)


def uncleaned(group: Group) -> Mask:
    """Return a mask of the rows of `committed` that no cleaner removed.

    For each of these rows, either no cleaner may have removed the record, or all final logs still
    hold it.
    """
    return np.asarray(~within(ints(group.committed, "value"), taken(group)), dtype=np.bool_)


def taken(group: Group) -> Ints:
    """Return the committed values that a cleaner may have removed before a reader read them.

    Each broker cleans its own replica, and each broker may have led. So such a value was certainly
    readable all the time only if all final logs hold it.
    """
    return group.view(_taken)


def stayed(group: Group) -> Ints:
    """Return the values that no replica's cleaner ever removed."""
    return stack([ints(group.committed, "value")[kept(group)], group.view(_in_all_logs)])


def superseded(group: Group, offsets: Ints, values: Ints) -> Mask:
    """Return a mask of the earlier copies of messages that a cleaner may have removed.

    All copies of a message have the same key. A cleaner may have removed an earlier copy if two
    conditions are met: the last leader's final log has a later copy, and a final log lacks the
    earlier copy or was not read. Without the last leader's final log, a later copy among the given
    copies is enough for the first condition.

    Args:
        group: The run's rows of one partition.
        offsets: The offsets of copies, ascending.
        values: The value of each copy.
    """
    last, logs = group.final_log, group.logs.get(FINAL, {}).values()
    places = (offsets, values) if last is None else (last.offsets, last.values)
    at = first_match(values, places[1][::-1])
    later = np.append(places[0][::-1], NONE)[at] > offsets
    everywhere = np.full(len(offsets), len(logs) >= group.facts.plan.replication)
    for log in logs:
        row = np.searchsorted(log.offsets, offsets)
        held = [np.append(each, NONE)[row] for each in (log.offsets, log.values)]
        everywhere &= (held[0] == offsets) & (held[1] == values)
    return np.asarray(later & ~everywhere, np.bool_)


def keys_in(group: Group, values: Ints) -> Ints:
    """Return the key numbers of values."""
    return key_numbers(values, group.facts.plan.keys)


def may_stand(group: Group, values: Ints) -> Mask:
    """Return a mask of the values that were sent and may have committed."""
    sends = group.table("sends")
    open_sends = present(sends, "value") & ~equal(sends, "outcome", Outcome.FAIL.value)
    return within(values, ints(sends, "value")[open_sends])


def latest(group: Group) -> Latest:
    """Return, for each key, the highest possible offset of a record that stays in the log."""
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
    """Return, for each key, the highest offset that a tombstone of unknown offset may have."""
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
    """Return a mask of the sends that may have two copies, both missing from the final log."""
    sends, log, facts = group.table("sends"), group.final_log, group.facts
    again = equal(sends, "outcome", Outcome.INFO.value)
    if not facts.idempotent:
        again = np.ones_like(again)
    if log is not None:
        again = again & ~within(ints(sends, "value"), log.values)
    return np.asarray(again & facts.retries, np.bool_)


def _last_gap(group: Group) -> int:
    """Return the highest offset that an unreported record may have had."""
    log = group.final_log
    if (
        log is None
        or not log.whole
        or log.node in group.facts.unreadable_nodes
        or group.facts.disk_losses
        or group.facts.weak_acks  # Reported records may have been truncated.
        or unclean_elections(group).seen
        or group.facts.plan.version_numbers < _FIRST_BOUNDED
    ):
        return NEVER
    known = stack([log.offsets, *(ints(group.table(name), "offset") for name in _TELL)])
    known = distinct(known[known < log.end])
    above = known == np.arange(log.end - len(known), log.end)
    return log.end - 1 - int(above.sum())


def _places(group: Group) -> tuple[Ints, Ints]:
    """Return all known pairs of offset and value, from acknowledgements, reads and logs."""
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
    """Return the values that are in the final logs of all replicas; empty if a log was not read."""
    logs = list(group.logs.get(FINAL, {}).values())
    if len(logs) < group.facts.plan.replication:
        return np.empty(0, np.int64)
    found = logs[0].values
    for log in logs:
        found = found[within(found, log.values)]
    return found


def holes(group: Group, log: ReplicaLog) -> int:
    """Return how many committed records a log lacks between its start and its end.

    A cleaner removed these records, or they were lost.
    """
    offsets, values = ints(group.committed, "offset"), ints(group.committed, "value")
    here = (offsets >= log.start) & (offsets < log.read_end) & ~within(values, log.values)
    return int(here.sum())


def retention_ns(facts: RunFacts) -> int:
    """Return the minimum time for which a log keeps tombstones and markers, in nanoseconds."""
    told = (number_of(each.get(_RETENTION, "")) for each in facts.plan.settings)
    return min((each for each in told if each is not None), default=_DAY_MS) * 1_000_000
