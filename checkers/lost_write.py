"""lost-write: the cluster acknowledged a record, and the record is missing afterwards.

Definition: a certainly committed value is lost in any of three cases:

1. The leader's final log does not contain the value.
2. A complete final read went past the value's known offset, but did not return the value.
3. Replica logs cannot be read, and a complete final read did not return the value at any offset.

Why it proves something: with acks=all, the acknowledgement means that every in-sync replica has the
record. A log only grows, so after recovery the leader's log must hold the record. The second case
is proved without the files of brokers: a reader passed the offset, but did not get the value. In
the third case, the final read asked for the end offset after every send had ended.

What would not prove it:

- A send that timed out. It may not have been written.
- An offset below the leader's log start, if the plan sets retention.
- A record on a compacted topic, if its key is unknown, or if a later record of the same key may
  have replaced it (`cleaned.py`).
- A log that could not be read to its recorded end, or an incomplete stream of polls. Such a finding
  is reported as untrusted.
- A final read that returned no record beyond the offset, if some partition had not recovered. Such
  a finding is reported as untrusted.
- The log of the last leader that answered ListOffsets, if a later epoch is known and some partition
  had not recovered. Then a finding is untrusted if another replica has the record, or could not be
  read.
- A record that an open transaction may hide from readers, if replica logs cannot be read.

With acks=1, perhaps only the leader has the record when it is acknowledged. The loss of the record
is allowed if a fault or an election can have caused it (`weak_acks.py`). A loss is also allowed if
a permitted unclean election may have lost the record, or if a power loss or a disk fault took the
record from every replica. After a recovery, none of these excuses applies to a record that the last
leader's log has, but a final read lacks. Such a record was not lost, so only the loss of its
transaction's marker can excuse the reader.

Reads that skip the offset of a lost record are a consequence of the loss. So such reads are
reported with the lost write, not as a separate anomaly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from checkers.acknowledger import Acked, acknowledgers, evidence_of, named, read_whole
from checkers.causes import cause_of_loss
from checkers.cleaned import kept, uncleaned
from checkers.cleaner_losses import abort_before_final_read
from checkers.client_reasons import final_logs, final_server, hold, offset_of
from checkers.columns import NEVER, NONE, Ints, Mask, equal, ints, select, texts, within
from checkers.cuts import may_have_dropped, told_cuts
from checkers.disk_losses import replicas_of
from checkers.dropped import earliest_acks, lost_in_span, marker_lost, written_since
from checkers.excuses import TAKES_ACKNOWLEDGED
from checkers.facts import FINAL, RunFacts
from checkers.findings import anomaly_at, findings, known, number_in, seconds, texts_in
from checkers.group import Group
from checkers.markers import marker_behind
from checkers.protocol import Chapter, Checker, Excuse, Findings, Labels, Premise, Promise, Proof
from checkers.reads import others, reads_of
from checkers.symptoms import OF_A_LOST_END, OF_LEADERS
from checkers.transactions import READ_COMMITTED
from checkers.unclean_elections import lacked_by, unclean_elections
from checkers.used_sequences import labels_of, reason_of
from checkers.weak_acks import may_be_dropped, nobody_knows
from checkers.witnesses import (
    claims_around,
    holds,
    nodes_with,
    skipped_by,
    vanished,
)
from checkers.written_epochs import written_epochs
from results.record.declared import Sight
from results.record.milestones import OPEN
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Evidence, Example, Words

NAME = "lost-write"
_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A certainly committed record that is missing.

    Attributes:
        from_log: Whether the leader's final log lacks the record.
        from_read: Whether a complete final read lacks the record.
        weak: Whether the send used acks=1.
        acked: Whether the send itself was acknowledged. If not, only its transaction committed.
        since_ns: The earliest time at which a broker may have acknowledged the send.
    """

    value: int
    offset: int
    op_id: int
    mop: int
    process: int
    sent_ns: int
    acked_ns: int
    from_log: bool
    from_read: bool
    weak: bool
    acked: bool
    since_ns: int


def lost_values(group: Group) -> Ints:
    """Return the lost values, in no particular order."""
    sends = group.committed
    return ints(sends, "value")[_missing_from_log(group) | _missing_from_read(group)]


def losses(group: Group) -> list[Loss]:
    """Return the losses of a partition, ordered by offset and value."""
    sends = group.committed
    from_log, from_read = _missing_from_log(group), _missing_from_read(group)
    lost = np.flatnonzero(from_log | from_read)
    columns = ("value", "offset", "op_id", "mop", "process", "invoke_ns", "complete_ns")
    told = (*(ints(sends, name) for name in columns), earliest_acks(group, sends))
    rows = zip(*(each[lost].tolist() for each in told), strict=True)
    weak = equal(sends, "acks", "1")[lost]
    acked = equal(sends, "acked", True)[lost]  # noqa: FBT003 - a value
    return sorted(
        (
            Loss(
                value=row[0], offset=row[1], op_id=row[2], mop=row[3], process=row[4],
                sent_ns=row[5], acked_ns=row[6], from_log=bool(log), from_read=bool(read),
                weak=bool(is_weak), acked=bool(is_acked), since_ns=row[7],
            )
            for row, log, read, is_weak, is_acked in zip(
                rows, from_log[lost], from_read[lost], weak, acked, strict=True
            )
        ),
        key=lambda loss: (loss.offset, loss.value),
    )  # fmt: skip


def retained(offsets: Ints, log_start: int) -> Mask:
    """Return a mask of the offsets that a log with this start offset must still hold."""
    # If a log starts above 0, retention may have removed a record of unknown offset.
    return np.asarray(offsets >= (log_start or NONE), dtype=np.bool_)


def _missing_from_log(group: Group) -> Mask:
    values, offsets = (ints(group.committed, name) for name in ("value", "offset"))
    log = group.final_log
    if log is None:
        return np.zeros(len(values), dtype=np.bool_)
    return ~within(values, log.values) & retained(offsets, group.log_start) & kept(group)


def _missing_from_read(group: Group) -> Mask:
    values = ints(group.committed, "value")
    missing = np.zeros(len(values), dtype=np.bool_)
    for polls, passed in _read_past(group):
        missing |= passed & ~within(values, ints(polls, "value"))
    return missing & uncleaned(group)


def _read_past(group: Group) -> Iterator[tuple[pa.Table, Mask]]:
    """Yield the complete final reads of each isolation level, and the sends that the reads passed.

    Yields:
        The records that the reads returned, and a mask of the rows of `committed`. The mask has the
        sends whose offsets the reads passed.
    """
    offsets = ints(group.committed, "offset")
    reads = group.table("final_reads")
    complete = select(reads, equal(reads, "complete", True))  # noqa: FBT003 - a value
    for isolation in sorted(set(texts(complete, "isolation"))):
        polls = select(group.final_polls, equal(group.final_polls, "isolation", isolation))
        highest = int(ints(polls, "offset").max(initial=NONE))
        past = (offsets >= group.log_start) & (offsets < highest)
        if not group.shows_logs:  # A record above `highest` is lost, or was not returned.
            past = retained(offsets, group.log_start) & ~held_back(group, isolation)
        yield polls, past


def held_back(group: Group, isolation: str) -> Mask:
    """Return a mask of the committed sends that an open transaction may hide from final reads.

    This applies only to read_committed readers, and only where the run recorded that the last
    stable offset stayed below the high watermark. If such a reader received a record earlier, the
    record is not in the mask, because a stable record stays stable.
    """
    offsets, reads = ints(group.committed, "offset"), group.table("final_reads")
    noted, polls = group.facts.milestone(OPEN), group.table("polls")
    if isolation != READ_COMMITTED or noted is None or group.place not in noted.detail:
        return np.zeros(len(offsets), dtype=np.bool_)
    end = int(ints(reads, "target_end")[equal(reads, "isolation", isolation)].min(initial=NEVER))
    given = ints(select(polls, equal(polls, "isolation", READ_COMMITTED)), "value")
    behind = (offsets >= end) | (offsets < 0)
    return np.asarray(behind & ~within(ints(group.committed, "value"), given), dtype=np.bool_)


def _broken(group: Group, loss: Loss) -> tuple[str, ...]:
    facts, log = group.facts, group.final_log
    sound = log is not None and log.whole and log.node not in facts.unreadable_nodes
    if loss.from_read:
        doubtful = not _passed(group, loss)
    else:
        doubtful = sound and _may_be_kept(group, loss.value)
    if doubtful and not facts.recovered:
        return (Premise.RECOVERED.value,)
    if (loss.from_log and sound) or (loss.from_read and not facts.cut_streams):
        return ()
    return (Premise.READABLE_LOGS.value,) if loss.from_log else (Premise.WHOLE_RECORD.value,)


def _may_be_kept(group: Group, value: int) -> bool:
    """Return whether a later leader than the one whose log was compared may have a value.

    The last answer to ListOffsets names the leader. A later leader may never have answered.
    """
    rows, copies = group.table("leadership"), group.logs.get(FINAL, {})
    told = [ints(rows, "leader_epoch")[ints(rows, "leader") >= 0]]
    told += [log.epochs for log in copies.values()]
    newest = max(int(each.max(initial=NONE)) for each in told)
    if group.leader is None or newest <= group.leader.epoch:
        return False
    read = {node for node, log in copies.items() if log.whole and read_whole(group, node)}
    return bool(nodes_with(list(copies.values()), value)) or bool(set(replicas_of(group)) - read)


def _passed(group: Group, loss: Loss) -> bool:
    """Return whether a final read returned a record beyond the lost record's offset.

    If the offset is unknown, this is unknown, too.
    """
    return 0 <= loss.offset < int(ints(group.final_polls, "offset").max(initial=NONE))


def _stood(group: Group, loss: Loss) -> bool:
    """Return whether the leader's log had the record when the final reads passed its offset.

    The ISR was full before the final reads, so each later election was clean. The reads were below
    the high watermark. So a record that the last leader's log has was there for the reads, too.
    """
    log, place = group.final_log, (np.array([loss.offset]), np.array([loss.value]))
    return group.facts.recovered and log is not None and bool(log.holds(*place)[0])


def _dropped(group: Group, loss: Loss) -> Labels:
    """Return the reasons for which a log may have lost the record."""
    excuses, broken, when = [], [], (loss.offset, loss.sent_ns, loss.acked_ns)
    if loss.weak and may_be_dropped(group, *when):
        excuses.append(Excuse.ACKS.value)
    elif loss.weak and nobody_knows(group, *when):
        broken.append(Premise.SHOWN_CAUSE.value)
    epoch = min(written_epochs(group, loss.offset, loss.value), default=NONE)
    until = lacked_by(group, loss.offset, loss.acked_ns)
    if unclean_elections(group).took_after(loss.offset, epoch, loss.sent_ns, until):
        excuses.append(Excuse.UNCLEAN.value)
    since_ns = written_since(group, loss.offset, loss.value, loss.since_ns)
    disks = lost_in_span(group, loss.offset, since_ns, loss.acked_ns)
    return (*excuses, *disks), tuple(broken)


def _labels(group: Group, loss: Loss) -> Labels:
    gone: Labels = ((), ()) if _stood(group, loss) else _dropped(group, loss)
    excuses, broken = [*gone[0]], [*_broken(group, loss), *gone[1]]
    if not loss.from_log and group.facts.plan.transactional:
        sends = group.table("sends")
        excuses += marker_lost(group, select(sends, ints(sends, "value") == loss.value))
    again = labels_of(group, [loss.value])
    return tuple(dict.fromkeys([*excuses, *again[0]])), tuple(dict.fromkeys([*broken, *again[1]]))


def _describe(group: Group, loss: Loss) -> Anomaly:
    logs = [log for _, log in sorted(group.logs.get(FINAL, {}).items())]
    found_on = nodes_with(logs, loss.value)
    record = Acked(
        value=loss.value, offset=loss.offset, sent_ns=loss.sent_ns,
        acked_ns=loss.acked_ns if loss.acked else NONE, weak=loss.weak, acked=loss.acked,
    )  # fmt: skip
    by = acknowledgers(group, record)
    proven = loss.from_log and not _broken(group, loss)
    cause = cause_of_loss(group, record, by) if proven else ""
    cuts = may_have_dropped(group, record) if loss.offset >= 0 else []
    replicas = [holds(group, log, loss.offset) for log in logs] if loss.offset >= 0 else []
    gone = vanished(group, loss.value)
    skips = skipped_by(group, loss.offset)
    evidence: Evidence = {
        "value": loss.value,
        "offset": known(loss.offset),
        "op_id": loss.op_id,
        "mop": loss.mop,
        "process": loss.process,
        "acknowledged_ns": known(record.acked_ns),
        "missing_from_leaders_log": loss.from_log,
        "missing_from_final_read": loss.from_read,
        **evidence_of(by),
        "leaders_around_then": claims_around(group, record.acked_ns) if loss.acked else [],
        "final_leader": group.leader.broker if group.leader else None,
        "final_leader_epoch": group.leader.epoch if group.leader else None,
        "replicas": replicas,
        "found_on": found_on,
        "truncations": [cut.text(loss.offset) for cut in cuts],
        "vanished": gone,
        "skipped_by": len(skips),
        "skipping_op_ids": skips[:_SHOWN],
    }
    subject = _first_clause(group, loss, named(by))
    sentence = "; ".join(
        [
            f"{subject}, {_where(group, loss, found_on, collected=bool(logs))}",
            *([f"at that offset: {', '.join(replicas)}"] if replicas else []),
            *(told_cuts(group, record) if cuts else []),
            *gone,
            *_shadow(skips),
        ]
    )
    anomaly = anomaly_at(group, NAME, sentence=sentence, evidence=evidence, offset=loss.offset)
    return replace(anomaly, cause=reason_of(group, loss.value) or cause)


def _shadow(skips: list[int]) -> list[str]:
    """Return a sentence about the reads that skipped the lost record. They are no extra anomaly."""
    if not skips:
        return []
    readers = "one read" if len(skips) == 1 else f"{len(skips)} reads"
    return [f"{readers} skipped that offset (op {', '.join(map(str, skips[:3]))})"]


def _first_clause(group: Group, loss: Loss, by: str) -> str:
    offset = f"offset {loss.offset}" if loss.offset >= 0 else "an unknown offset"
    told = f" (by {by})" if group.facts.shows(Sight.LEADER_EPOCHS) else ""
    if not loss.acked:
        return (
            f"{group.facts.name_of(loss.value)}, sent to {group.place} in op {loss.op_id}, whose"
            " transaction committed although its client got no"
            f" answer{told.replace('by', 'written by', 1)}"
        )
    return (
        f"{group.facts.name_of(loss.value)}, acknowledged at {offset} of {group.place}"
        f" at {seconds(loss.acked_ns)} to op {loss.op_id}{told}"
    )


def _where(group: Group, loss: Loss, found_on: list[str], *, collected: bool) -> str:
    if loss.from_log and not found_on:
        return "is in no replica's log"
    if loss.from_log:
        last = f" {group.leader.node}" if group.leader else ""
        there = ", ".join(found_on)
        return f"is missing from the log of the last leader{last}, but is in the log of {there}"
    if not _passed(group, loss):
        return "was not returned by the final reads, which reached the end of the partition"
    passed = "was not returned by the final read, which went beyond that offset"
    return f"{passed}, though it is in the log of {', '.join(found_on)}" if collected else passed


def _check(group: Group) -> Findings:
    return findings(
        int(_compared(group).sum()),
        losses(group),
        lambda loss: _describe(group, loss),
        lambda loss: _labels(group, loss),
        gaps=_gaps(group),
    )


def _compared(group: Group) -> Mask:
    """Return a mask of the committed sends that the leader's log or the final reads must have."""
    offsets = ints(group.committed, "offset")
    if group.final_log is not None:
        return retained(offsets, group.log_start) & kept(group)
    compared = np.zeros(len(offsets), dtype=np.bool_)
    for _, passed in _read_past(group):
        compared |= passed
    return compared & kept(group)


def _gaps(group: Group) -> tuple[str, ...]:
    """Return a gap if the leader's final log is missing.

    Reads cannot replace this log. Only the log shows the records after the last record that was
    read.
    """
    if group.final_log is not None or group.facts.snapshot != FINAL or not group.shows_logs:
        return ()  # A missing final snapshot is reported once, elsewhere.
    if group.leader is None:
        return (f"no leader of {group.place} was observed, so the log to compare with is unknown",)
    return (f"the log of {group.place} on {group.leader.node}, its last leader, is missing",)


def _applies(facts: RunFacts) -> bool:
    return not facts.no_acks and facts.keeps_known


_JUMPED_OVER = Words(
    one="acknowledged write was skipped by a final read",
    many="acknowledged writes were skipped by final reads",
    means="The logs hold the message, and a final read that continued after it did not return it.",
    promise="A final read returns every message that the log holds.",
    explains=dict.fromkeys(
        ("poll-skip", "int-poll-skip"), "a reader that skips the message continues after it"
    ),
)


def _why(group: Group, found: Anomaly) -> str:
    """Explain why a missing record counts as lost if `cause_of_loss` gave no cause.

    For example, a log holds the record, but a final read left the record out. Or a log could not be
    read to its end.
    """
    nodes, last = texts_in(found, "found_on"), group.leader.node if group.leader else ""
    unread = f"the log of {last}, the last leader," if last else "the last leader's log"
    if not nodes:
        read = [log.node for log in final_logs(group) if log.whole and read_whole(group, log.node)]
        if not group.shows_logs:
            return (
                "this system's replica logs cannot be read, so the run's record does not show"
                " whether a log still has it"
            )
        if not read:
            return (
                "no log could be read to its end, so the run's record does not show whether a"
                " log has it"
            )
        lack = "" if last in read else f"; {unread} was not read to its end, and may have it"
        return f"{hold(read, 'lack')} it{lack}"
    if last not in nodes or found.evidence.get("missing_from_leaders_log"):
        return (
            f"{hold(nodes)} it; {unread} was not read to its end, so the run's record does not"
            " show whether its leader lost it"
        )
    value = number_in(found, "value")
    there = offset_of(group, value)
    reads = others(reads_of(group, there, [value]), NONE)
    marker = marker_behind(group, there, value)
    if marker.startswith("no marker"):
        return f"{hold(nodes)} it at offset {there}, but {marker}"
    told = [f"{hold(nodes)} it at {there}", *filter(None, [reads, marker])]
    return (
        f"{final_server(group)} or the client omitted it from the final read:"
        f" {', and '.join(told)}{abort_before_final_read(group, value)}"
    )


def _told_as(examples: Sequence[Example]) -> Words | None:
    """Return other texts for the report if logs hold all records, and only final reads lack any."""
    held = [
        each.evidence.get("missing_from_leaders_log") is False
        and bool(each.evidence.get("found_on"))
        for each in examples
    ]
    return _JUMPED_OVER if held and all(held) else None


CHECKER = Checker(
    name=NAME,
    told_as=_told_as,
    why=_why,
    words=Words(
        one="acknowledged write was lost",
        many="acknowledged writes were lost",
        means=(
            "A broker confirmed that the message was stored, and afterwards it is not in "
            "the log."
        ),
        promise="An acknowledged message stays in the log.",
        explains={**OF_A_LOST_END, **OF_LEADERS},
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls", "final_reads", "leadership", "replica_records", "replica_states",
            "truncations", "assignments"),
    check=_check,
    applies=_applies,
    promise=Promise.STORED,
    compares="committed sends, searched for in the last leader's log or in the final reads",
    chapter=Chapter.CLIENTS,
    looks_for="a committed value that is not in the last leader's log. Or a value that a complete"
              " final read skipped. Or, if logs cannot be read, a value that a complete final"
              " read did not return",
    meanwhile=Proof.GONE,
    excuses=TAKES_ACKNOWLEDGED | {Excuse.SEQUENCE},
)  # fmt: skip
