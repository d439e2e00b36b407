"""epoch-mismatch: a reader got a record with another leader epoch than the log has at that offset.

Definition: a poll returned an offset with the leader epoch of its batch. In the last leader's final
log, the record at that offset has another epoch.

Why it proves something: a leader writes its epoch into each batch that it appends. Each replica and
each reader fetches the batch unchanged (KIP-101, KIP-320). Readers get only committed records, and
a committed record is never replaced. So two epochs at one offset mean two different records, even
if the records have the same value. The record that was read was truncated, and then written or
fetched again. Otherwise, a broker or the client reported a wrong epoch.

What would not prove it: message formats before 0.11 have no epoch. The check needs Kafka 2.2 or
later. If the final log lacks the offset, the record was lost or deleted by retention. The anomaly
is allowed after an unclean election, and if the disks of all replicas lost the offset. In both
cases, another record may have got the offset. If both records have the same value, the anomaly is
allowed only if the client had time to send the value again. The unclean election must begin an
epoch after the one that was read. If the log's epoch is later, neither event must begin after it.
"""

from dataclasses import dataclass

import numpy as np

from checkers.acknowledger import Acked, may_be_resent
from checkers.announcements import announces
from checkers.changes import TOLD_LATE_NS
from checkers.client_reasons import Sent, fetched_after_ns, in_words, sent, servers
from checkers.columns import NEVER, NONE, first_match, ints
from checkers.disk_losses import first_known_ns, lost_on_disks
from checkers.epoch_starts import epoch_starts
from checkers.excuses import TAKES_RECORDS
from checkers.facts import FINAL, RunFacts
from checkers.findings import anomaly_at, findings, known, number_in, seconds
from checkers.group import Group, ReplicaLog
from checkers.protocol import (
    Chapter,
    Checker,
    Excuse,
    Findings,
    Labels,
    Premise,
    Promise,
    Proved,
)
from checkers.reads import reads_of
from checkers.replica_reasons import begun_by_ns, leader_text, leaders_of, sides, told_ns, verb
from checkers.unclean_elections import unclean_elections
from checkers.witnesses import truncations_of
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "epoch-mismatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """An offset with two different epochs.

    Attributes:
        offset: The offset.
        read, logged: The epoch that polls returned, and the log's epoch.
        op_id, read_ns: The first such op, and the time at which the op ended; -1 if unknown.
        value: The value that the op returned, -1 if unknown.
        polls: How often polls returned this offset with this epoch.
    """

    offset: int
    read: int
    logged: int
    op_id: int
    read_ns: int
    value: int
    polls: int


def _check(group: Group) -> Findings:
    log, polls = group.final_log, group.table("polls")
    if log is None:
        return Findings(rows=0)
    offsets, epochs = ints(polls, "offset"), ints(polls, "leader_epoch")
    logged = np.append(log.epochs, NONE)[first_match(offsets, log.offsets)]
    both = (epochs >= 0) & (logged >= 0)
    wrong = np.flatnonzero(both & (epochs != logged))
    ops, ends = ints(polls, "op_id")[wrong], ints(polls, "complete_ns")[wrong]
    order = np.argsort(ops, kind="stable")
    places = np.stack((offsets[wrong], epochs[wrong]))[:, order]
    (at, read), first, counts = np.unique(places, axis=1, return_index=True, return_counts=True)
    rows = zip(
        at, read, logged[wrong][order][first], ops[order][first], ends[order][first],
        ints(polls, "value")[wrong][order][first], counts, strict=True,
    )  # fmt: skip
    return findings(
        int(both.sum()),
        [
            Mismatch(
                offset=int(row[0]), read=int(row[1]), logged=int(row[2]), op_id=int(row[3]),
                read_ns=int(row[4]), value=int(row[5]), polls=int(row[6]),
            )
            for row in rows
        ],
        lambda each: _describe(group, log, each),
        lambda each: _labels(group, each),
    )  # fmt: skip


def _labels(group: Group, found: Mismatch) -> Labels:
    mine = sent(group, found.value)
    if mine is not None and _is_same(group, found, mine):
        return (), ()
    sent_ns = mine.sent_ns if mine else NONE
    # The leader of the log's epoch already lacked the record, if this epoch is the later one.
    until = found.logged if found.logged > found.read else NEVER
    unclean = unclean_elections(group).took_after(found.offset, found.read, sent_ns, until)
    excuses = [Excuse.UNCLEAN.value] if unclean else []
    known_ns = first_known_ns(group, found.offset, found.value)
    # A later leader than the one whose log was compared may never have answered ListOffsets.
    later = group.leader is not None and found.read > group.leader.epoch
    broken = (Premise.RECOVERED.value,) if later and not group.facts.recovered else ()
    missed_ns = begun_by_ns(group, until)
    return (*excuses, *lost_on_disks(group, found.offset, known_ns, missed_ns=missed_ns)), broken


def _is_same(group: Group, found: Mismatch, mine: Sent) -> bool:
    """Return whether the log has the value that was read, and this value was sent only once."""
    log = group.final_log
    at = log.at(found.offset) if log is not None else None
    here = log is not None and at is not None and int(log.values[at]) == found.value
    return here and _sent_once(group, mine, found.value)


def _sent_once(group: Group, mine: Sent, value: int) -> bool:
    record = Acked(value=value, offset=NONE, sent_ns=mine.sent_ns, acked_ns=mine.acked_ns)
    return not may_be_resent(group, record)


def _describe(group: Group, log: ReplicaLog, found: Mismatch) -> Anomaly:
    more = f" ({found.polls} polled records differ there)" if found.polls > 1 else ""
    return anomaly_at(
        group,
        NAME,
        sentence=f"op {found.op_id} got offset {found.offset} of {group.place} as a record of"
        f" epoch {found.read} at {seconds(found.read_ns)}, but in the log of the last"
        f" leader, {log.node}, it is a record of epoch {found.logged}{more}",
        evidence={
            "op_id": found.op_id,
            "read_epoch": found.read,
            "read_ns": known(found.read_ns),
            "log_epoch": found.logged,
            "log_of": log.node,
            "polls": found.polls,
        },
        offset=found.offset,
    )


def _applies(facts: RunFacts) -> bool:
    # Readers get epochs only since Kafka 2.1, and not from old message formats. 2.1 is left out.
    return announces(facts) and facts.plan.keeps_producer_ids


def _why(group: Group, found: Anomaly) -> str:
    read, logged = number_in(found, "read_epoch"), number_in(found, "log_epoch")
    held = [each for each in sides(group.logs.get(FINAL, {}), found.offset) if not each.lacks]
    holders = [node for each in held if each.epoch == logged for node in each.nodes]
    values = {each.value for each in held if each.epoch == logged}
    value = _read_value(group, found)
    same = values == {value} and all(each.epoch == logged for each in held)
    wrote = leader_text(group, logged)
    if same and (never := _never_of(group, found, value)):
        return Proved(
            f"{verb(holders, 'holds', 'hold')} the same value there, with epoch {logged}, and"
            f" {never}: {_namers(group, found, value)} reported a wrong epoch"
        )
    if read < logged:
        read_ns, first_ns = number_in(found, "read_ns"), _known_ns(group, logged)
        if 0 <= read_ns < first_ns:
            again = "the same value there again" if same else "another record there"
            sure = same and _next(group, read, logged)
            cuts = _cut_there(group, found.offset, read) if sure else ""
            late = same and first_ns <= read_ns + TOLD_LATE_NS and not cuts
            doubt = cuts or ", or the answer had an older epoch" * late
            seen = f"; that epoch was first observed at {seconds(first_ns)}, after the read"
            return f"{wrote} wrote {again}{doubt}{seen if first_ns < NEVER else ''}"
        if read_ns < 0:
            return f"{wrote} wrote at this offset after the read, or the answer had a wrong epoch"
        since_ns = fetched_after_ns(group, value, number_in(found, "op_id"), read_ns)
        when = "the record was read:" if since_ns >= first_ns else (
            "that read ended, but clients fetch ahead: this leader wrote at this offset after the"
            " fetch, or"
        )  # fmt: skip
        return (
            f"{wrote} already led when {when} the answer had an older epoch, or came from a"
            " replica that still had an older record"
        )
    holders = holders or [str(found.evidence.get("log_of"))]
    told = f"{verb(holders, 'holds', 'hold')} a record of epoch {logged} there"
    kept = [each for each in held if each.epoch == read]
    if kept:
        mine = [node for each in kept if each.value == value for node in each.nodes]
        those, one = (mine, "the record") if mine else (kept[0].nodes, "another record")
        still = f"{verb(those, 'holds', 'hold')} {one} of epoch {read}"
        return f"{told}, and {still}{' that was read' * bool(mine)}"
    return (
        f"{told}: the record that {leader_text(group, read)} had is in no log that was read, or"
        " the answer had a wrong epoch"
    )


def _namers(group: Group, found: Anomaly, value: int) -> str:
    """Return the brokers that may have sent readers a wrong epoch of a record."""
    op_id, reads = number_in(found, "op_id"), reads_of(group, found.offset, [value])
    polls = group.table("polls")
    there = (ints(polls, "offset") == found.offset) & (ints(polls, "value") == value)
    there &= ints(polls, "leader_epoch") == number_in(found, "read_epoch")
    ops = {op_id, *ints(polls, "op_id")[there].tolist()}
    # The named epoch is in doubt, so it does not show which broker named it.
    who = {
        each: in_words(servers(group, value, {each: reads.get(each, NONE)}, by_epoch=False))
        for each in sorted(ops)
    }
    first = who[op_id]
    others = sum(told != first for told in who.values())
    if not others:
        return f"{first} or the client"
    count = len(who) - others
    return f"{first} in {count} of {len(who)} reads, or the client"


def _never_of(group: Group, found: Anomaly, value: int) -> str:
    """Return evidence that a record cannot have the epoch that was read; "" if there is none."""
    read, logged = number_in(found, "read_epoch"), number_in(found, "log_epoch")
    began, mine = _began(group, read), sent(group, value)
    if began == NEVER:
        return f"no leader and no record of epoch {read} is known"
    if began > found.offset:
        return f"epoch {read} only begins at offset {began}"
    late = mine is not None and read < logged and mine.sent_ns >= _known_ns(group, logged)
    if mine is None or not late or not _sent_once(group, mine, value):
        return ""
    return f"it was sent only once, at {seconds(mine.sent_ns)}, when that epoch had already begun"


def _next(group: Group, epoch: int, last: int) -> bool:
    """Return whether `last` is the highest known epoch, and comes directly after `epoch`.

    A leader names the end of the last epoch that both logs have (KIP-279). The follower may drop
    records of any epoch after that epoch and before the leader's epoch.
    """
    told = ints(group.table("leadership"), "leader_epoch").tolist()
    known = [*told, *(each.epoch for each in group.view(epoch_starts))]
    return max(known, default=NONE) <= last == epoch + 1


def _cut_there(group: Group, offset: int, epoch: int) -> str:
    """Return a clause about the nodes that truncated records of an epoch at an offset; else ""."""
    ends = f"epoch {epoch} ends at offset {offset} there"
    cuts = [each for each in truncations_of(group, offset) if each.reason.endswith(ends)]
    nodes = sorted({each.node for each in cuts})
    if not nodes:
        return ""
    had = f"{verb(nodes, 'had a record', 'had records')} of epoch {epoch} there"
    return f": {had} and truncated it ({cuts[0].reason})"


def _known_ns(group: Group, epoch: int) -> int:
    """Return when an epoch was first observed in a poll or in an answer about leaders.

    An answer about leaders that names a later epoch counts, too.
    """
    polls = group.table("polls")
    read_ns = ints(polls, "complete_ns")[ints(polls, "leader_epoch") == epoch]
    return min(told_ns(group, epoch), int(read_ns[read_ns >= 0].min(initial=NEVER)))


def _read_value(group: Group, found: Anomaly) -> int:
    """Return the value that the reader got."""
    polls = group.table("polls")
    here = (ints(polls, "op_id") == number_in(found, "op_id")) & (
        ints(polls, "offset") == found.offset
    )
    given = ints(polls, "value")[
        here & (ints(polls, "leader_epoch") == number_in(found, "read_epoch"))
    ]
    return int(given[0]) if len(given) else NONE


def _began(group: Group, epoch: int) -> int:
    """Return the offset at which an epoch begins in the logs.

    The result is above all offsets if no leader and no record of the epoch is known. It is -1 if
    only a leader is known.
    """
    starts = [each.offset for each in group.view(epoch_starts) if each.epoch == epoch]
    if starts or not leaders_of(group, epoch):
        return min(starts, default=NEVER)
    return NONE


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="record was read with another leader epoch than the log has",
        many="records were read with other leader epochs than the log has",
        means=(
            "At the time of the read, another record was at this offset, and that record was later"
            " truncated and replaced. Or the answer to the reader named a wrong leader epoch."
        ),
        promise="A record that was read stays at its offset.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=(
        "sends",
        "polls",
        "assignments",
        "leadership",
        "replica_records",
        "replica_states",
        "truncations",
    ),
    sees=frozenset({Sight.REPLICA_LOGS, Sight.CHECKPOINTS, Sight.LEADER_EPOCHS}),
    check=_check,
    premises=(),
    applies=_applies,
    promise=Promise.LOG,
    compares="polled records whose epoch was compared with the last leader's log",
    chapter=Chapter.REPLICAS,
    looks_for="the leader epoch of each polled record, compared with the epoch at the same offset"
    " in the last leader's final log",
    waits="a late answer may still show which log is the leader's",
    excuses=TAKES_RECORDS,
)
