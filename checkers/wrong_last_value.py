"""wrong-last-value: in a compacted log, a reader does not end with the last value of a key.

Definition: the last certainly committed record of a key, by offset, is missing. The record is
missing from a replica's final log, or from a complete read_committed final read. That log or read
ends with an older record of the key, or has no record of the key. If the missing record is a
tombstone, only an older record is an anomaly: the deleted value is back.

Why it proves something: a cleaner removes a record only if a later record of the key stays. The
cleaner removes a tombstone only after all records that the tombstone deletes
(https://kafka.apache.org/documentation/#compaction). Records of aborted transactions do not replace
other records. So the last committed record of each key is in every replica's log, as far as that
log reaches. If that record was a tombstone, no older record of the key is left. This is true in
each replica, at whatever time the replica's cleaner runs.

What would not prove it:

- A record that a later record of the key may have replaced, if the later record may be committed
  (`cleaned`). A tombstone with an unknown offset counts as such a later record.
- A record above the high watermark of a replica that was not in sync.
- A log that could not be read to its end.
- A record that an unclean election, or a loss on the disks of all replicas, may have removed.

A tombstone stays only for `delete.retention.ms`. A reader or a replica that comes later keeps the
old value and never learns that this value was deleted. So a deleted value is an anomaly only in two
cases:

- In a replica's log, if this replica certainly had the tombstone. The replica wrote the tombstone
  as leader, or its log contained the tombstone early enough. The replica must not have lost the
  tombstone again by a truncation or disk fault. After a reassignment or a wipe, no log proves the
  anomaly, because any replica may have been created after the tombstone was removed.
- In a read, while the leader's log still has the tombstone.

The check cannot see a record that was lost and replaced before the run ended, because such a record
looks like a cleaned record. The check cannot see a deleted value in a follower's log if tombstones
are removed at once (a retention of 0). The check also cannot see such a value if the run shifts the
brokers' clocks, because these clocks decide when tombstones are removed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from checkers.acknowledger import moved
from checkers.cleaned import holes, keys_in, latest, may_stand, retention_ns
from checkers.client_reasons import final_server, hold, nodes_at
from checkers.columns import NONE, Ints, Mask, equal, first_match, ints, present, select, within
from checkers.dropped import earliest_acks, lost_in_span, marker_lost, written_since
from checkers.excuses import TAKES_RECORDS
from checkers.facts import FINAL, RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, known, number_in, texts_in
from checkers.group import Group, ReplicaLog, claimed_mark, final_isr
from checkers.protocol import (
    Chapter,
    Checker,
    During,
    Excuse,
    Findings,
    Labels,
    Premise,
    Promise,
)
from checkers.transactions import READ_COMMITTED
from checkers.unclean_elections import took_value_at
from results.record.keys import are_tombstones
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "wrong-last-value"
READ = "the final read"
_FAR = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class View:
    """The remaining records of a partition in one place.

    Attributes:
        name: The node that has the log, or `READ` for the final read.
        offsets, values: The records that may be committed, by ascending offset.
        end: Every committed record below this offset must remain, unless a cleaner removed it.
    """

    name: str
    offsets: Ints
    values: Ints
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A key whose last record is not the last committed record.

    Attributes:
        key: The key's number.
        value, offset: The last committed record.
        dead: Whether that record is a tombstone.
        shown, shown_at: The record that was found instead. -1 if there is no such record.
        places: The places with the wrong record: nodes, and `READ`.
    """

    key: int
    value: int
    offset: int
    dead: bool
    shown: int
    shown_at: int
    places: tuple[str, ...]


def _last_of(group: Group, offsets: Ints, values: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(offsets, kind="stable")
    places = np.full(group.facts.plan.keys, NONE, np.int64)
    found = np.full(group.facts.plan.keys, NONE, np.int64)
    keys = keys_in(group, values[order])
    # If an index repeats, numpy keeps the last assignment.
    places[keys], found[keys] = offsets[order], values[order]
    return places, found


def _logs(group: Group) -> list[ReplicaLog]:
    """Return the final logs that were read to their ends."""
    unreadable = group.facts.unreadable_nodes
    logs = group.logs.get(FINAL, {})
    return [log for node, log in sorted(logs.items()) if log.whole and node not in unreadable]


def _views(group: Group) -> Iterator[View]:
    in_sync = final_isr(group) if group.facts.recovered else frozenset[str]()
    for log in _logs(group):
        mine = may_stand(group, log.values)
        leads = group.leader is not None and group.leader.node == log.node
        mark = claimed_mark(group, FINAL, log.node)
        end = log.end if leads or log.node in in_sync else min(mark, log.end)
        yield View(name=log.node, offsets=log.offsets[mine], values=log.values[mine], end=end)
    reads = group.table("final_reads")
    done = equal(reads, "isolation", READ_COMMITTED) & equal(reads, "complete", True)  # noqa: FBT003 - a value
    if not done.any():
        return
    polls = group.final_polls
    polls = select(polls, equal(polls, "isolation", READ_COMMITTED))
    values = ints(polls, "value")
    mine = may_stand(group, values)
    yield View(
        name=READ,
        offsets=ints(polls, "offset")[mine],
        values=values[mine],
        end=int(ints(reads, "target_end")[done].min()),
    )


def _due(group: Group) -> tuple[Ints, Ints]:
    """Return the offset and value of each key's last committed record; -1 without such a record."""
    offsets, values = (ints(group.committed, name) for name in ("offset", "value"))
    placed = offsets >= group.log_start
    return _last_of(group, offsets[placed], values[placed])


def _hidden(group: Group) -> int:
    """Return how many keys are unchecked only because a tombstone's offset is unknown."""
    (due_at, due_value), later = group.view(_due), latest(group)
    alive = (due_at >= 0) & ~are_tombstones(due_value) & (later.tombstones <= due_at)
    return int((alive & (later.adrift > due_at)).sum())


def _wrong(group: Group, view: View) -> tuple[int, list[Wrong]]:
    """Return how many keys were checked in one place, and the keys with a wrong last record."""
    due_at, due_value = group.view(_due)
    shown_at, shown = _last_of(group, view.offsets, view.values)
    there, older = (due_at >= 0) & (due_at < view.end), (shown_at >= 0) & (shown_at < due_at)
    dead, later = are_tombstones(due_value), latest(group)
    # Another tombstone may have deleted it, and may itself be cleaned by now.
    may_go = dead | (np.maximum(later.tombstones, later.adrift) > due_at)
    lacks = there & (shown_at < due_at) & ~may_go
    if view.name == READ:
        log = group.final_log
        sure = np.zeros_like(dead) if log is None else dead & log.holds(due_at, due_value)
    else:
        # A cleaner that removed the last record from this log has also removed all older ones.
        sure = _had(group, view.name, due_at, due_value)
    lacks |= there & older & sure
    rows = [
        Wrong(
            key=key, value=int(due_value[key]), offset=int(due_at[key]), dead=bool(dead[key]),
            shown=int(shown[key]), shown_at=int(shown_at[key]), places=(view.name,),
        )
        for key in np.flatnonzero(lacks).tolist()
    ]  # fmt: skip
    return int((there & (sure | ~may_go)).sum()), rows


def _had(group: Group, node: str, offsets: Ints, values: Ints) -> Mask:
    """Return a mask of the records that a replica's log certainly had and never lost."""
    if moved(group):
        return np.zeros(len(offsets), np.bool_)
    cuts = group.table("truncations")
    lost = [
        *ints(cuts, "from_offset")[equal(cuts, "node", node)].tolist(),
        *(
            loss.first_taken
            for loss in group.facts.disk_losses
            if loss.concerns(group.topic, group.partition) and node in loss.nodes
        ),
    ]
    had = _was_in_time(group, node, offsets, values) | _wrote(group, node, offsets, values)
    return np.asarray(had & (offsets < min(lost, default=_FAR)), np.bool_)


def _wrote(group: Group, node: str, offsets: Ints, values: Ints) -> Mask:
    """Return a mask of the records that a replica wrote as leader. Epochs of copies show this."""
    told = group.table("leadership")
    leaders, epochs = (ints(told, name) for name in ("leader", "leader_epoch"))
    mine = [broker for broker in np.unique(leaders).tolist() if f"n{broker}" == node]
    led = epochs[within(leaders, np.array(mine, np.int64)) & (epochs >= 0)]
    wrote = np.zeros(len(offsets), np.bool_)
    for name in ("polls", "replica_records"):
        copies = group.table(name)
        own = within(ints(copies, "leader_epoch"), led)
        at = first_match(values, ints(copies, "value")[own])
        wrote |= np.append(ints(copies, "offset")[own], NONE)[at] == offsets
    return wrote


def _was_in_time(group: Group, node: str, offsets: Ints, values: Ints) -> Mask:
    """Return a mask of the records that a log had before a cleaner could remove a tombstone."""
    facts, states = group.facts, group.table("replica_states")
    if facts.plan.shifts_clocks:
        return np.zeros(len(offsets), np.bool_)
    told = equal(states, "node", node) & present(states, "observed_ns")
    times, ends = ints(states, "observed_ns")[told], ints(states, "log_end_offset")[told]
    order = np.argsort(times, kind="stable")
    reached = np.append(NONE, np.maximum.accumulate(ends[order]))
    sends = group.committed
    at = first_match(values, ints(sends, "value"))
    sent_ns = np.append(ints(sends, "invoke_ns"), NONE)[at]
    until_ns = sent_ns + retention_ns(facts)
    return np.asarray(reached[np.searchsorted(times[order], until_ns)] > offsets, np.bool_)


def _found(group: Group) -> tuple[int, list[Wrong]]:
    """Return how many keys were checked in all places, and the keys with a wrong last record."""
    looks = [_wrong(group, view) for view in _views(group)]
    found: dict[tuple[int, int, int], Wrong] = {}
    for each in (each for _, some in looks for each in some):
        name = (each.offset, each.value, each.shown)
        before = found[name].places if name in found else ()
        found[name] = Wrong(
            key=each.key, value=each.value, offset=each.offset, dead=each.dead, shown=each.shown,
            shown_at=each.shown_at, places=(*before, *each.places),
        )  # fmt: skip
    return sum(rows for rows, _ in looks), [found[name] for name in sorted(found)]


def _check(group: Group) -> Findings:
    logs = _logs(group)
    rows, wrong = _found(group)
    cleaned = any(holes(group, log) for log in logs)
    found = findings(
        rows if cleaned or wrong or not logs else 0,
        wrong,
        lambda each: _describe(group, each),
        lambda each: _labels(group, each),
    )
    nothing = "each key may end with a tombstone" if cleaned else "no log cleaner removed a record"
    why = f"{nothing}, so a wrong last value could not be detected"
    found = could_not_show(found, why, given=bool(logs) and group.committed.num_rows > 0)
    if not cleaned or not (many := _hidden(group)):
        return found
    keys = "1 key" if many == 1 else f"{many} keys"
    why = f"a tombstone at an unknown offset may have deleted {keys}, so a missing last"
    return replace(found, unshown=(*found.unshown, f"{why} value could not be detected there"))


def _labels(group: Group, wrong: Wrong) -> Labels:
    mine = select(group.committed, ints(group.committed, "value") == wrong.value)
    acked_ns = int(ints(mine, "complete_ns").max(initial=NONE))
    since_ns = int(earliest_acks(group, mine).max(initial=NONE))
    since_ns = written_since(group, wrong.offset, wrong.value, since_ns)
    excuses = list(lost_in_span(group, wrong.offset, since_ns, acked_ns))
    if took_value_at(group, wrong.offset, [wrong.value]):
        excuses.append(Excuse.UNCLEAN.value)
    if READ in wrong.places:
        excuses += marker_lost(group, mine)
    premises = (
        (Premise.WHOLE_RECORD, group.facts.cut_streams),
        (Premise.RECOVERED, wrong.places == (READ,) and not group.facts.recovered),
    )
    return (
        tuple(dict.fromkeys(excuses)),
        tuple(premise.value for premise, broken in premises if broken),
    )


def _describe(group: Group, wrong: Wrong) -> Anomaly:
    name = group.facts.name_of
    what = f"the tombstone {name(wrong.value)}" if wrong.dead else name(wrong.value)
    instead = "no record of that key is there"
    if wrong.shown_at >= 0:
        instead = f"the last one there is the older {name(wrong.shown)} at offset {wrong.shown_at}"
    nodes = [each for each in wrong.places if each != READ]
    where = [f"the log of {node}" for node in nodes] + [READ] * (READ in wrong.places)
    return anomaly_at(
        group,
        NAME,
        sentence=f"the last committed record of key {wrong.key} of {group.place} is {what} at"
        f" offset {wrong.offset}; {' and '.join(where)}"
        f" {'lacks' if len(where) == 1 else 'lack'} it: {instead}",
        evidence={
            "key": wrong.key,
            "value": wrong.value,
            "offset": wrong.offset,
            "tombstone": wrong.dead,
            "shown_value": known(wrong.shown),
            "shown_offset": known(wrong.shown_at),
            "nodes": nodes,
            "read": READ in wrong.places,
            "found_on": nodes_at(group, wrong.offset, wrong.value),
        },
        offset=wrong.offset,
    )


def _why(group: Group, found: Anomaly) -> str:
    has, lacks = texts_in(found, "found_on"), texts_in(found, "nodes")
    offset = number_in(found, "offset")
    if not lacks:
        return (
            f"{hold(has)} it at offset {offset}: {final_server(group)} or the client omitted it"
            if has
            else "no log that was read shows whether a broker still has it"
        )
    cut = group.truncated(np.array([offset]))[0]
    how = (
        (
            "a replica truncated its log there, so the record was truncated, or a log cleaner"
            " removed it"
        )
        if cut
        else (
            "no replica recorded a truncation there: a log cleaner removed the record, or it was"
            " never written"
        )
    )
    if has:
        return f"{hold(has)} it at offset {offset}, and {hold(lacks, 'lack')} it; {how}"
    return f"no log that was read holds it; {how}"


def _applies(facts: RunFacts) -> bool:
    return facts.plan.keys > 0 and not facts.no_acks


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="key does not end with its last value",
        many="keys do not end with their last values",
        means="A log was compacted, and a reader that reads it to its end gets an older value of"
              " a key, or none.",
        promise="Compaction keeps the last value of each key, and what a tombstone deleted stays"
        " deleted.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls", "final_reads", "leadership", "replica_records", "replica_states",
            "truncations", "assignments"),
    check=_check,
    applies=_applies,
    promise=Promise.STORED,
    compares="keys of compacted logs, each with its last committed record",
    during=During.AT_END,
    chapter=Chapter.CLIENTS,
    looks_for="in a compacted log: a replica's log or a complete final read lacks the last"
              " committed record of a key, and ends with an older one or none. If it is a"
              " tombstone: an older record is the last there",
    waits="a cleaner may still run, and a later record of the key may still come",
    excuses=TAKES_RECORDS,
    follows={
        "lost-write": "a key whose last record is lost ends with an older one",
        "unseen": "a key whose last record no reader gets ends with an older one",
    },
)  # fmt: skip
