"""G1a: a reader got the value of a failed send or of an aborted transaction.

Definition: a reader read the value of a plain send that failed definitely. A plain send belongs to
no transaction. A value of an aborted transaction also counts, if a read_committed reader read it.

Why it proves something: a plain send fails definitely only in two cases. The client never passed
the message to a broker, or the broker refused the message before the append. A transaction counts
as aborted if its client decided to abort and never asked for a commit. No coordinator may commit
such a transaction. Brokers must hide the records of such a transaction from read_committed readers.

What would not prove it: a read_uncommitted reader may get records that are aborted later. If the
client asked for a commit, the transaction proves nothing, whether or not the client got an answer.
If a transaction reads its own write, only `precommitted-read` reports that.
"""

from collections.abc import Set
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from checkers.client_reasons import (
    doubt,
    hold,
    leader_of,
    log_with,
    nodes_at,
    sent,
    server,
    value_at,
    written_by,
)
from checkers.columns import NEVER, NONE, equal, first_match, ints, present, runs_of, select, texts
from checkers.dropped import marker_lost
from checkers.excuses import TAKES_RECORDS
from checkers.facts import FINAL
from checkers.findings import anomaly_at, could_not_show, findings, number_in
from checkers.group import Group
from checkers.group_reasons import as_leaders, coordinators
from checkers.late_records import late_end
from checkers.markers import marker_behind
from checkers.protocol import Chapter, Checker, Findings, Labels, Promise, Proof, Proved
from checkers.reads import left_out_aborted, others, reads_of
from checkers.reigns import TRANSACTIONS
from checkers.transactions import READ_COMMITTED
from checkers.witnesses import nodes_with
from results.record.terms import AnomalyClass, Outcome
from results.record.verdict import Anomaly, Words

NAME = "G1a"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedRead:
    """The value of a failed send or of an aborted transaction, if a reader got this value.

    Attributes:
        writer: The op that sent the value.
        transactional: Whether the op was a transaction.
        offset: The offset at which the first reader (lowest op id) got the value.
        readers: The ops that read the value.
        read_ns: When the first of them ended; the largest integer if unknown.
    """

    value: int
    writer: int
    transactional: bool
    offset: int
    readers: tuple[int, ...]
    read_ns: int


def _aborted_reads(group: Group) -> list[AbortedRead]:
    sends, polls = group.table("sends"), group.table("polls")
    failed = equal(sends, "outcome", Outcome.FAIL.value) & present(sends, "value")
    sends = select(sends, failed)
    at = first_match(ints(polls, "value"), ints(sends, "value"))
    hit = at >= 0
    at, polls = at[hit], select(polls, hit)
    transactional = present(sends, "txn_id")[at]
    writers, readers = ints(sends, "op_id")[at], ints(polls, "op_id")
    ended_ns = np.where(present(polls, "complete_ns"), ints(polls, "complete_ns"), NEVER)
    told = equal(polls, "isolation", READ_COMMITTED) & (writers != readers)
    wrong = np.flatnonzero(~transactional | told)
    wrong = wrong[np.argsort(at[wrong], kind="stable")]
    cuts = runs_of(at[wrong])
    first = wrong[cuts[:-1]]
    columns = (ints(polls, "value"), writers, transactional, ints(polls, "offset"))
    rows = zip(*(column[first].tolist() for column in columns), pairwise(cuts), strict=True)
    return sorted(
        (
            AbortedRead(
                value=value,
                writer=writer,
                transactional=in_txn,
                offset=offset,
                readers=tuple(np.unique(readers[wrong[one:end]]).tolist()),
                read_ns=int(ended_ns[wrong[one:end]].min()),
            )
            for value, writer, in_txn, offset, (one, end) in rows
        ),
        key=lambda read: (read.offset, read.value),
    )


def _could_be_read(group: Group) -> int:
    """Return the number of failed sends whose values a reader could have read by mistake."""
    sends, polls = group.table("sends"), group.table("polls")
    failed = select(sends, equal(sends, "outcome", Outcome.FAIL.value) & present(sends, "value"))
    in_txn = int(present(failed, "txn_id").sum())
    tables = (polls, group.table("final_reads"))
    promised = any(equal(table, "isolation", READ_COMMITTED).any() for table in tables)
    return in_txn * promised + (failed.num_rows - in_txn) * bool(polls.num_rows)


def _check(group: Group) -> Findings:
    found = findings(
        _could_be_read(group),
        _aborted_reads(group),
        lambda read: _describe(group, read),
        lambda read: _labels(group, read),
    )
    why = "no send failed, so an aborted read could not be detected"
    if group.facts.plan.transactional:
        why = (
            "no plain send failed, and no read_committed reader could have got an aborted value,"
            " so an aborted read could not be detected"
        )
    return could_not_show(found, why, given=bool(group.table("polls").num_rows))


def _labels(group: Group, read: AbortedRead) -> Labels:
    if not read.transactional:
        return (), ()
    sends = group.table("sends")
    send = select(sends, ints(sends, "value") == read.value)
    return marker_lost(group, send, missed_ns=read.read_ns), ()


def _describe(group: Group, read: AbortedRead) -> Anomaly:
    fate = "the transaction was aborted" if read.transactional else "the send certainly failed"
    more = len(read.readers) - 1
    who = f"op {read.readers[0]}" + (f" and {more} more" if more else "")
    return anomaly_at(
        group,
        NAME,
        sentence=f"{group.facts.name_of(read.value)}, which op {read.writer} sent to {group.place},"
        f" was read at offset {read.offset} by {who}, though {fate}",
        evidence={
            "value": read.value,
            "offset": read.offset,
            "writer": read.writer,
            "transactional": read.transactional,
            "readers": list(read.readers[:10]),
            "count_of_readers": len(read.readers),
            "on": nodes_with(list(group.logs.get(FINAL, {}).values()), read.value),
        },
        offset=read.offset,
    )


def _why(group: Group, found: Anomaly) -> str:
    """Explain, for a report, which broker or client delivered a value although the send failed."""
    value, offset = number_in(found, "value"), number_in(found, "offset")
    if found.evidence.get("transactional"):
        return _why_aborted(group, found)
    failed = f"its client reported {_error(group, value)}"
    there = log_with(group, offset, value)
    if there is not None:
        log, at = there
        producer, _, sequence = written_by(log, at)
        under = f" as sequence {sequence} of producer {producer}" if producer >= 0 else ""
        return (
            f"{failed}, although {leader_of(group, int(log.epochs[at]))} stored it{under}:"
            f" {hold(nodes_at(group, offset, value))} it"
        )
    reads = reads_of(group, offset, [value])
    who = server(group, value, reads)
    to = f"op {min(reads)}" if len(reads) == 1 else f"{len(reads)} reads"
    mine, stood = sent(group, value), value_at(group, offset)
    why_not = doubt(group, offset, mine.sent_ns if mine else NONE)
    if stood < 0 or why_not:
        also = f"; {why_not}" if why_not else ""
        return (
            f"{failed}, and no log that was read holds the record: {who} or the client"
            f" returned it{also}"
        )
    right = others(reads_of(group, offset, [stood]), NONE, what="that").replace("other ", "")
    return Proved(
        f"{who} or the client returned it to {to}: the logs hold {group.facts.name_of(stood)} at"
        f" this offset{f', and {right}' if right else ''}; no log was truncated there"
    )


def _error(group: Group, value: int) -> str:
    sends = group.table("sends")
    rows = np.flatnonzero(ints(sends, "value") == value)
    error = texts(sends.slice(int(rows[0]), 1), "error")[0] if len(rows) else ""
    return error or "that the send failed"


def _why_aborted(group: Group, found: Anomaly) -> str:
    """Explain, for a report, which broker may have exposed a record of an aborted transaction.

    If read_committed reads correctly skipped the record, the sentence gives their number.
    """
    value, offset = number_in(found, "value"), number_in(found, "offset")
    polls = group.table("polls")
    committed = select(polls, equal(polls, "isolation", READ_COMMITTED))
    offsets, op_ids = ints(committed, "offset"), ints(committed, "op_id")
    below, above = (set(op_ids[mask].tolist()) for mask in (offsets < offset, offsets > offset))
    got = set(op_ids[offsets == offset].tolist())
    without = len((below & above) - got)
    if not without and (late := _late(group, offset, value)):
        return late
    marker = marker_behind(group, offset, value)
    ends = f"; {marker}" if marker else ""
    if without:
        given = reads_of(group, offset, [value])
        who = server(group, value, {op: ended for op, ended in given.items() if op in got})
        many = "one other read" if without == 1 else f"{without} other reads"
        return (
            f"{who} or the client returned it as committed: {many} (read_committed) skipped"
            f" it{_knew_aborted(group, min(got, default=NONE))}{ends}"
        )
    return (
        "its producer never asked for a commit, and no read_committed read skipped the record:"
        f" {_coordinator(group, value, got)} ended the transaction as committed, or each broker"
        f" that served the record wrongly treated the record as committed{ends}"
    )


def _late(group: Group, offset: int, value: int) -> str:
    """Explain how a record was appended after its own transaction had ended; else return ""."""
    found = log_with(group, offset, value)
    if found is None or not (ended := late_end(group, *found)):
        return ""
    log, at = found
    behind = np.flatnonzero(log.producer_ids[at:] == log.producer_ids[at]) + at
    markers = log.offsets[behind[log.controls[behind] == 1]]
    next_ = f"; the next marker of its producer, at {int(markers[0])}," if len(markers) else ""
    return Proved(
        f"{leader_of(group, int(log.epochs[at]))} appended it behind the end of its own transaction"
        f" (KAFKA-14402): {ended}{next_}{' decides for it' if next_ else ''}"
    )


def _coordinator(group: Group, value: int, readers: Set[int]) -> str:
    """Return, for a report, the coordinator that may have ended a value's transaction."""
    sends, polls = group.table("sends"), group.table("polls")
    mine = select(sends, (ints(sends, "value") == value) & present(sends, "transactional_id"))
    read_ns = ints(polls, "complete_ns")[np.isin(ints(polls, "op_id"), list(readers))]
    span = (int(ints(mine, "invoke_ns").max(initial=NONE)), int(min(read_ns, default=NONE)))
    if mine.num_rows != 1 or not 0 <= span[0] <= span[1]:
        return "a coordinator"
    led = coordinators(group.facts, TRANSACTIONS, texts(mine, "transactional_id")[0], span)
    return f"its coordinator, {as_leaders(led)}," if led else "a coordinator"


def _knew_aborted(group: Group, op_id: int) -> str:
    """Return a clause if the reader's client skipped another aborted record; otherwise ""."""
    out = left_out_aborted(group, op_id)
    if out is None:
        return ""
    who = f"op {op_id} itself" if out[0] == op_id else f"the same client, in op {out[0]},"
    return f", and {who} skipped the aborted record at offset {out[1]}"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="failed or aborted write was read",
        many="failed or aborted writes were read",
        means="A reader got a value whose send failed, or whose transaction was aborted.",
        promise="Values of failed sends are never read, and values of aborted transactions are"
                " never read by read_committed readers.",
        explains={"precommitted-read": "a record that is read too early may be the reader's own"},
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls", "assignments", "final_reads", "leadership", "replica_records",
            "replica_states", "truncations"),
    check=_check,
    promise=Promise.LOG,
    compares="failed sends, searched for in the polled records",
    chapter=Chapter.TRANSACTIONS,
    of_histories=True,
    looks_for="values of failed sends in all polls; values of aborted transactions in the polls"
              " of read_committed readers",
    meanwhile=Proof.TOLD,
    excuses=TAKES_RECORDS,
)  # fmt: skip
