"""Find the dependencies between ops, i.e. the edges of a graph, from the rows of one partition.

A write-write edge goes from the op that sent a value to the op that sent the next value in the
version order. A write-read edge goes from the op that sent a value to each ok op that read it. An
op that reads its own write, or writes twice in a row, does not depend on itself.

Under the contract, a send that certainly failed has no edges. A read of such a send is `G1a`. A
read_uncommitted reader does not wait for a transaction's end, so it does not depend on the
transaction. Jepsen's judge uses every sender. Jepsen's histories have no read_uncommitted readers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.client_reasons import doubt
from checkers.columns import (
    NEVER,
    NONE,
    Ints,
    equal,
    first_match,
    ints,
    nullable,
    order_of,
    present,
    repeat,
    runs_of,
    schema_of,
    select,
    stack,
    take,
    unique_pairs,
)
from checkers.facts import RunFacts
from checkers.group import Group
from checkers.group_reasons import ends_of, fetched_from, followers_serve, op_span
from checkers.protocol import Derivation
from checkers.transactions import READ_COMMITTED
from checkers.uncommitted_read import SEEN_WITHIN_NS
from checkers.version_order import version_order
from results.record.terms import Judge, Outcome, Source

WW, WR = 0, 1
"""Kinds of dependencies: write-write, write-read."""
_PLACE = pa.dictionary(pa.int32(), pa.string())
DEPENDENCIES = schema_of(
    source=pa.int64(), target=pa.int64(), kind=pa.int64(), value=pa.int64(), offset=pa.int64(),
    next_offset=pa.int64(), server=pa.int64(), server_epoch=pa.int64(), rest=pa.int64(),
    early=pa.string(), place=_PLACE,
)  # fmt: skip
"""The columns of a dependency: a row for each pair of ops and each kind, at the lowest offset.

`source` and `target` are op ids. The source wrote `value` at `offset`. For `WW`, the target wrote
at `next_offset`. For `WR`, `early` is the evidence that the target read the value before the
source's commit; `early` is almost always null. For `WR`, `server` and `server_epoch` are the broker
that led during the whole read, and its epoch. If the target did not get the next record of the
source's transaction, `rest` is that record's offset. `place` is the partition's name.
"""
PARTICIPANTS = schema_of(
    op_id=pa.int64(), process=pa.int64(), invoke_ns=pa.int64(), complete_ns=pa.int64()
)
"""The columns of an op that sent or read a record.

`complete_ns` is null if the op did not end with `ok`. If an op has no end, no op is known to come
after it. An op has one row for each of its partitions.
"""


def dependencies(group: Group) -> pa.Table:
    """Return the dependencies that a partition's rows show (columns `DEPENDENCIES`)."""
    sends = _writers(group)
    parts = [_write_read(group, sends)]
    if group.facts.ww_deps:
        parts.append(_write_write(group, sends))
    columns = [stack(each) for each in zip(*parts, strict=True)]
    kept, last = _kept(*columns[:3], offsets=columns[4])
    lasts = columns[4][last]
    columns = [column[kept] for column in columns]
    columns += [*_served(group, sends, columns), _rest(group, sends, columns, lasts)]
    names = DEPENDENCIES.names[:-2]
    arrays = {name: nullable(each) for name, each in zip(names, columns, strict=True)}
    place = repeat(group.place, len(columns[0])).dictionary_encode()
    early = _early(group, columns)
    return pa.table({**arrays, "early": early, "place": place}, schema=DEPENDENCIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyRead:
    """A read_committed read of a record before its transaction committed.

    Attributes:
        writer, reader: The ops that sent and read the record.
        value, offset: The record.
        writer_marker, reader_marker: The offsets of the markers of both ops.
    """

    writer: int
    reader: int
    value: int
    offset: int
    writer_marker: int
    reader_marker: int

    def text(self, group: Group) -> str:
        """Return the evidence as a clause."""
        served = fetched_from(group, op_span(group, "polls", self.reader), self.offset)
        return (
            f"op {self.reader} read offset {self.offset} of {group.place} before op {self.writer}"
            f" committed: the marker of op {self.writer}, at offset {self.writer_marker}, comes"
            f" after the marker of its reader, at offset {self.reader_marker}"
            f"{f'; {served}, served the record' if served else ''}"
        )


def early_reads(group: Group) -> tuple[int, list[EarlyRead]]:
    """Return how many reads have both markers, and the reads that came before the commit.

    An op reads before it commits. Markers show the order of commits in one log. If the writer's
    marker comes after the reader's marker, the reader read the record before the writer's commit.
    Each marker must belong to its own op. The logs must have lost nothing at the offset of the
    reader's marker. For each pair of ops, the result has the record with the lowest offset.
    """
    sends, log = _writers(group), group.final_log
    txns = select(sends, present(sends, "txn_id"))
    if log is None or not txns.num_rows:
        return 0, []
    columns = _write_read(group, txns)
    kept, _ = _kept(*columns[:3], offsets=columns[4])
    source, target, _, values, offsets = (column[kept] for column in columns[:5])
    stand = first_match(ints(txns, "value"), log.values)
    stand = np.where(stand >= 0, np.append(log.offsets, NONE)[stand], NONE)
    ops, begun, own = ints(txns, "op_id"), ints(txns, "invoke_ns"), ends_of(log, stand).markers
    mine, theirs = (np.append(own, NONE)[first_match(each, ops)] for each in (target, source))
    found = []
    for row in np.flatnonzero((mine >= 0) & (theirs > mine)).tolist():
        ends = ((int(target[row]), int(mine[row])), (int(source[row]), int(theirs[row])))
        sent_ns = int(begun[first_match(source[row : row + 1], ops)[0]])
        if any(_shared(group, txns, *each) for each in ends):
            continue
        if doubt(group, int(mine[row]), sent_ns):
            continue
        early = EarlyRead(
            writer=int(source[row]), reader=int(target[row]), value=int(values[row]),
            offset=int(offsets[row]), writer_marker=int(theirs[row]), reader_marker=int(mine[row]),
        )  # fmt: skip
        found.append(early)
    return int(((mine >= 0) & (theirs >= 0)).sum()), found


def _early(group: Group, columns: Sequence[Ints]) -> "pa.StringArray":
    """Return, for each read, evidence that the read came before the record's commit, or null."""
    told = {(each.writer, each.reader): each for each in group.view(early_reads)[1]}
    edges = zip(*(column.tolist() for column in columns[:3]), strict=True)
    found = (told.get((source, target)) if kind == WR else None for source, target, kind in edges)
    said = [each.text(group) if each else None for each in found]
    return pa.array(said, type=pa.string())


def _shared(group: Group, sends: pa.Table, op_id: int, marker: int) -> bool:
    """Return whether a marker may end a transaction that belongs to another op than the given op.

    The result is true if the producer's last record before the marker belongs to another op. In
    that case, the given op's own marker is missing.
    """
    log = group.final_log
    at = log.at(marker) if log is not None else None
    if log is None or at is None:
        return True
    mine = np.flatnonzero(
        (log.producer_ids[:at] == log.producer_ids[at]) & (log.controls[:at] != 1)
    )
    value = log.values[mine[-1:]]
    of = np.append(ints(sends, "op_id"), NONE)[first_match(value, ints(sends, "value"))]
    return not (len(of) and int(of[0]) == op_id)


def _served(group: Group, sends: pa.Table, columns: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Return, for each read, the broker that led during the whole read, and the epoch; else -1.

    Leader epochs only increase. The leader itself reported the record's epoch before the read and
    after the read. Until some time after the read, no source reported a later epoch.
    """
    source, target, kinds, _, offsets = columns[:5]
    polls, log = group.table("polls"), group.final_log
    rows = select(group.table("leadership"), present(group.table("leadership"), "observed_ns"))
    epochs, times = ints(rows, "leader_epoch"), ints(rows, "observed_ns")
    told = select(rows, equal(rows, "source", Source.LIST_OFFSETS) & (epochs >= 0))
    led, brokers = ints(told, "leader_epoch"), ints(told, "leader")
    known = log is not None and len(log.offsets) and not followers_serve(group)
    # If one epoch has two leaders, the server is unknown.
    if log is None or not known or len(unique_pairs(led, brokers)[0]) != len(np.unique(led)):
        unknown = np.full(len(source), NONE, dtype=np.int64)
        return unknown, unknown
    by_asked, by_seen = np.argsort(ints(told, "asked_ns")), np.argsort(times)
    asked_ns, least = ints(told, "asked_ns")[by_asked], led[by_asked][::-1]
    wrote, read = (
        first_match(op, ints(table, "op_id")) for op, table in ((source, sends), (target, polls))
    )
    begun = np.append(ints(sends, "invoke_ns"), NONE)[wrote]  # No op reads a value before its send.
    begun = np.maximum(begun, np.append(ints(polls, "invoke_ns"), NONE)[read])
    ended = np.append(ints(polls, "complete_ns"), NONE)[read]
    newest = np.append(np.maximum.accumulate(epochs[by_seen]), NONE)
    newest = newest[np.searchsorted(times[by_seen], ended + SEEN_WITHIN_NS, side="right") - 1]
    first_ns = np.append(_firsts(told), NEVER)[first_match(newest, np.unique(led))]
    after = np.append(np.minimum.accumulate(least)[::-1], NONE)[np.searchsorted(asked_ns, ended)]
    at = np.minimum(np.searchsorted(log.offsets, offsets), len(log.offsets) - 1)
    sure = (kinds == WR) & (ended >= 0) & (first_ns <= begun) & (newest == after) & (newest >= 0)
    sure &= (log.offsets[at] == offsets) & (log.epochs[at] == newest)
    leaders = np.append(brokers, NONE)[first_match(newest, led)]
    return np.where(sure, leaders, NONE), np.where(sure, newest, NONE)


def _firsts(told: pa.Table) -> Ints:
    """Return, for each epoch in ascending order, the time at which an answer first named it."""
    order = np.lexsort((ints(told, "observed_ns"), ints(told, "leader_epoch")))
    epochs = ints(told, "leader_epoch")[order]
    return ints(told, "observed_ns")[order][runs_of(epochs)[:-1]]


def _rest(group: Group, sends: pa.Table, columns: Sequence[Ints], lasts: Ints) -> Ints:
    """Return, for each read, the offset of the transaction's next unread record, or -1."""
    source, _, kinds = columns[:3]
    log, nothing = group.final_log, np.full(len(source), NONE, dtype=np.int64)
    if log is None or not len(log.offsets):
        return nothing
    at = first_match(lasts, log.offsets)
    values, offsets = np.append(log.values[1:], NONE), np.append(log.offsets[1:], NONE)
    owner = np.append(ints(sends, "op_id"), NONE)[first_match(values, ints(sends, "value"))]
    in_txn = np.append(present(sends, "txn_id"), False)[first_match(values, ints(sends, "value"))]
    more = (kinds == WR) & (at >= 0) & (values[at] >= 0) & (owner[at] == source) & in_txn[at]
    return np.where(more, offsets[at], NONE)


def participants(group: Group) -> pa.Table:
    """Return the ops that sent to or read from a partition (columns `PARTICIPANTS`)."""
    rows = pa.concat_tables(_ops(group.table(name)) for name in ("sends", "polls"))
    _, first = np.unique(ints(rows, "op_id"), return_index=True)
    return take(rows, first)


def _ops(rows: pa.Table) -> pa.Table:
    """Return the ops of a table's rows, with the columns `PARTICIPANTS`."""
    rows = rows.select([*PARTICIPANTS.names, "outcome"])
    rows = select(rows, present(rows, "op_id"))
    rows = take(rows, runs_of(ints(rows, "op_id"))[:-1])
    ended = equal(rows, "outcome", Outcome.OK.value)
    complete = np.where(ended, ints(rows, "complete_ns"), NONE)
    at = PARTICIPANTS.names.index("complete_ns")
    return rows.select(PARTICIPANTS.names).set_column(at, "complete_ns", nullable(complete))


def _writers(group: Group) -> pa.Table:
    sends = group.table("sends")
    wrote = present(sends, "value") & present(sends, "op_id")
    if group.facts.judge is not Judge.JEPSEN:
        wrote &= ~equal(sends, "outcome", Outcome.FAIL.value)
    return select(sends, wrote)


def _write_write(group: Group, sends: pa.Table) -> tuple[Ints, ...]:
    order = group.view(version_order)
    at = first_match(order.values, ints(sends, "value"))
    ops = np.where(at >= 0, np.append(ints(sends, "op_id"), NONE)[at], NONE)
    source, target = ops[:-1], ops[1:]
    linked = (source >= 0) & (target >= 0) & (source != target)
    # As a target, a value at several offsets (`duplicate`) counts only at its last offset.
    linked &= order.last_index(order.values[1:]) == np.arange(1, len(ops))
    columns = (source, target, order.values[:-1], order.offsets[:-1], order.offsets[1:])
    source, target, values, offsets, following = (column[linked] for column in columns)
    return source, target, np.full(len(source), WW, dtype=np.int64), values, offsets, following


def _write_read(group: Group, sends: pa.Table) -> tuple[Ints, ...]:
    polls = group.table("polls").select(["op_id", "outcome", "value", "offset", "isolation"])
    polls = select(polls, equal(polls, "outcome", Outcome.OK.value) & present(polls, "op_id"))
    at = first_match(ints(polls, "value"), ints(sends, "value"))
    target, values, offsets = (ints(polls, name) for name in ("op_id", "value", "offset"))
    source = np.append(ints(sends, "op_id"), NONE)[at]
    linked = (at >= 0) & (source != target)
    if group.facts.judge is not Judge.JEPSEN:
        plain = np.append(~present(sends, "txn_id"), False)[at]
        linked &= plain | equal(polls, "isolation", READ_COMMITTED)
    source, target, values, offsets = (
        column[linked] for column in (source, target, values, offsets)
    )
    kinds, following = (np.full(len(source), each, dtype=np.int64) for each in (WR, NONE))
    return source, target, kinds, values, offsets, following


def _kept(source: Ints, target: Ints, kind: Ints, *, offsets: Ints) -> tuple[Ints, Ints]:
    """Return the rows with the lowest and the highest offset of each pair of ops and each kind."""
    order = order_of(source, target, kind)
    back = offsets[order[1:]] < offsets[order[:-1]]
    for key in (source, target, kind):
        back &= key[order[1:]] == key[order[:-1]]
    if back.any():  # The rows are mostly sorted by offset.
        order = np.lexsort((offsets, kind, target, source))
    bounds = runs_of(source[order], target[order], kind[order])
    return order[bounds[:-1]], order[bounds[1:] - 1]


def seeks_cycles(facts: RunFacts) -> bool:
    """Return whether the ops of a run can depend on each other in a cycle.

    Without transactions, each op either writes to one partition or reads. In such a run, only the
    order of sends in real time can be wrong. `offset-order` reports that.
    """
    return facts.plan.transactional or facts.history or facts.judge is Judge.JEPSEN


DEPENDENCIES_DERIVATION = Derivation(
    name="dependencies",
    schema=DEPENDENCIES,
    tables=("sends", "polls", "leadership", "replica_records", "replica_states", "truncations"),
    derive=dependencies,
    applies=seeks_cycles,
)
PARTICIPANTS_DERIVATION = Derivation(
    name="participants",
    schema=PARTICIPANTS,
    tables=("sends", "polls"),
    derive=participants,
    applies=seeks_cycles,
)
