"""precommitted-read: a transaction read a record that was not committed yet.

Definition: a read_committed transaction read a value that it sent itself. Or it read a value of
another transaction whose marker comes after the reader's own marker, in the log of the partition.

Why it proves something: Kafka hides the records of a transaction from every read_committed reader
until the commit, even from a consumer of the same client. The commit is the last step of an op. So
the marker of a transaction that was read comes before the marker of its reader.

What would not prove it: a read_uncommitted reader, or a read of the value by a later op. The order
of two markers proves nothing if a marker may have been lost, or may belong to another op. Jepsen's
judge knows only reads of a transaction's own values.
"""

import numpy as np

from checkers.columns import NONE, equal, first_match, ints, present, runs_of, select, take
from checkers.dependencies import EarlyRead, early_reads
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, number_in
from checkers.group import Group
from checkers.group_reasons import ends_of, fetched_from, op_span
from checkers.protocol import Chapter, Checker, Findings, Promise, Proof, Proved
from checkers.reads import left_out_aborted
from checkers.transactions import READ_COMMITTED
from results.record.terms import AnomalyClass, Judge
from results.record.verdict import Anomaly, Words

NAME = "precommitted-read"
_Read = tuple[int, int, int]


def _precommitted(group: Group) -> list[_Read]:
    """Return (offset, value, op id) for each value that the same op sent and read."""
    sends, polls = group.table("sends"), group.table("polls")
    sends = select(sends, present(sends, "value"))
    at = first_match(ints(polls, "value"), ints(sends, "value"))
    writers = np.append(ints(sends, "op_id"), NONE)[at]
    own = (at >= 0) & (writers == ints(polls, "op_id")) & equal(polls, "isolation", READ_COMMITTED)
    rows = take(polls, np.flatnonzero(own))
    columns = (ints(rows, name).tolist() for name in ("offset", "value", "op_id"))
    return sorted(set(zip(*columns, strict=True)))


def _read_on(group: Group) -> int:
    """Return how many sends were followed by a read of the partition in the same op."""
    sends, polls = group.table("sends"), group.table("polls")
    told = select(polls, equal(polls, "isolation", READ_COMMITTED))
    ops, places = ints(told, "op_id"), ints(told, "mop")
    last = np.lexsort((places, ops))
    ends = runs_of(ops[last])[1:] - 1
    at = first_match(ints(sends, "op_id"), ops[last][ends])
    latest = np.append(places[last][ends], NONE)[at]
    return int((present(sends, "txn_id") & (latest >= ints(sends, "mop"))).sum())


def _check(group: Group) -> Findings:
    # A cleaner may have removed a marker, so that a later one seems to end the transaction.
    blind = group.facts.judge is Judge.JEPSEN or group.facts.compacted
    compared, early = (0, []) if blind else group.view(early_reads)
    reads: list[_Read | EarlyRead] = [*_precommitted(group), *early]
    found = findings(_read_on(group) + compared, reads, lambda read: _describe(group, read))
    return could_not_show(
        found,
        "no transaction read from a partition that it had sent to, so a read of uncommitted records"
        " could not be detected",
        given=bool(present(group.table("sends"), "value").any()),
    )


def _describe(group: Group, read: _Read | EarlyRead) -> Anomaly:
    if isinstance(read, EarlyRead):
        return anomaly_at(
            group,
            NAME,
            sentence=read.text(group),
            evidence={
                "value": read.value,
                "offset": read.offset,
                "op_id": read.reader,
                "writer_op_id": read.writer,
                "writer_marker": read.writer_marker,
                "reader_marker": read.reader_marker,
            },
            offset=read.offset,
        )
    offset, value, op_id = read
    return anomaly_at(
        group,
        NAME,
        sentence=f"op {op_id} read {group.facts.name_of(value)} at offset {offset} of"
        f" {group.place} before the commit of its own transaction, which had sent it",
        evidence={"value": value, "offset": offset, "op_id": op_id},
        offset=offset,
    )


def _applies(facts: RunFacts) -> bool:
    return facts.plan.transactional or facts.history


def _why(group: Group, found: Anomaly) -> str:
    if "writer_op_id" in found.evidence:
        return Proved(found.sentence)
    offset = number_in(found, "offset")
    who = fetched_from(group, op_span(group, "polls", number_in(found, "op_id")), offset)
    marker = int(ends_of(group.final_log, np.array([offset])).markers[0])
    behind = f" (its marker is at offset {marker})" if marker >= 0 else ""
    aborted = left_out_aborted(group, number_in(found, "op_id"))
    client = ", or the client fetched without read_committed"
    if aborted:  # A client drops aborted records only with read_committed.
        client = (
            f"; the client did fetch read_committed: op {aborted[0]} skipped the aborted record"
            f" at offset {aborted[1]}"
        )
    said = (
        f"{f'{who},' if who else 'a broker'} served the record while its transaction was"
        f" open{behind}, and thus above the last stable offset{client}"
    )
    return Proved(said) if who else said


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="uncommitted write was read by a transaction",
        many="uncommitted writes were read by transactions",
        means="A read_committed transaction got a value before the value was committed.",
        promise="A read_committed transaction does not read uncommitted records.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls", "leadership", "replica_records", "replica_states", "truncations"),
    check=_check,
    applies=_applies,
    promise=Promise.TRANSACTIONS,
    compares="sends of transactions that later read from the same partition; values that one"
    " transaction sent and another one read",
    chapter=Chapter.TRANSACTIONS,
    of_histories=True,
    looks_for="values that an op read (read_committed) and that it sent itself, or that another"
    " transaction sent whose marker comes after the reader's marker",
    meanwhile=Proof.TOLD,
)
