"""Find the read operations that received given records of a partition."""

from collections.abc import Mapping, Sequence

import numpy as np

from checkers.columns import NONE, Ints, equal, ints, present, select, unique_pairs, within
from checkers.group import Group
from checkers.transactions import READ_COMMITTED
from results.record.terms import Outcome


def rows_with(column: Ints, number: int, order: Ints) -> Ints:
    """Return the rows in which a column contains the given number.

    Args:
        column: The column.
        number: The number to find.
        order: The row numbers, sorted by the column.
    """
    first, end = (np.searchsorted(column, number, side, order) for side in ("left", "right"))
    return order[first:end]


def _polls_by_offset(group: Group) -> Ints:
    return np.argsort(ints(group.table("polls"), "offset"), kind="stable")


def reads_of(group: Group, offset: int, values: Sequence[int]) -> dict[int, int]:
    """Return the end time of each op that received, at this offset, one of the values."""
    polls = group.table("polls")
    rows = rows_with(ints(polls, "offset"), offset, group.view(_polls_by_offset))
    rows = rows[np.isin(ints(polls, "value")[rows], values)]
    columns = (ints(polls, name)[rows].tolist() for name in ("op_id", "complete_ns"))
    return dict(zip(*columns, strict=True))


def reads_among(group: Group, offsets: Ints, values: Ints) -> tuple[Ints, Ints, dict[int, int]]:
    """Return the ops that received any of the given records.

    Args:
        group: The run's rows of one partition.
        offsets: The offsets of the records, ascending.
        values: The values of the records.

    Returns:
        Two columns that form pairs: the index of a record, and an op that received the record. Each
        pair occurs once. A third result maps each op to the op's end time.
    """
    polls, order = group.table("polls"), group.view(_polls_by_offset)
    at = ints(polls, "offset")
    first, _ = np.searchsorted(at, offsets[[0, -1]], "left", order).tolist()
    _, end = np.searchsorted(at, offsets[[0, -1]], "right", order).tolist()
    rows = order[first:end]
    place = np.searchsorted(offsets, at[rows])
    given = (offsets[place] == at[rows]) & (values[place] == ints(polls, "value")[rows])
    ops = ints(polls, "op_id")[rows][given]
    ended_ns = dict(
        zip(ops.tolist(), ints(polls, "complete_ns")[rows][given].tolist(), strict=True)
    )
    return *unique_pairs(place[given], ops), ended_ns


def others(reads: Mapping[int, int], op_id: int, before_ns: int = NONE, *, what: str = "it") -> str:
    """Return a phrase that says how many other reads returned a record; "" if none did.

    Args:
        reads: The result of `reads_of`.
        op_id: The read that differs from the others.
        before_ns: Report also how many reads had ended by this time.
        what: A phrase for the records that the reads returned.
    """
    rest = [ended_ns for op, ended_ns in reads.items() if op != op_id]
    if not rest:
        return ""
    early = sum(0 <= each <= before_ns for each in rest)
    many = "one other read" if len(rest) == 1 else f"{len(rest)} other reads"
    return f"{many} returned {what}" + (f", {early} of them before" if early and rest[1:] else "")


def left_out_aborted(group: Group, op_id: int) -> tuple[int, int] | None:
    """Return a read that left out an aborted record, as (op, offset of the record).

    Such a read proves that the client fetched with read_committed, because a client drops aborted
    records only in this mode. The function tries the given op first, then other ops of its process.

    Args:
        group: The run's rows of one partition.
        op_id: The op of a read.

    Returns:
        The op and the offset. None if no read left out an aborted record.
    """
    polls, log = group.table("polls"), group.final_log
    ops, process = ints(polls, "op_id"), ints(polls, "process")
    mine = np.unique(process[(ops == op_id) & (process >= 0)])
    if log is None or len(mine) != 1:
        return None
    sends = group.table("sends")
    failed = equal(sends, "outcome", Outcome.FAIL.value) & present(sends, "txn_id")
    values = ints(select(sends, failed & present(sends, "value")), "value")
    aborted = log.offsets[within(log.values, values)]
    read = (process == mine[0]) & equal(polls, "isolation", READ_COMMITTED)
    read &= equal(polls, "outcome", Outcome.OK.value) & (ints(polls, "offset") >= 0)
    for each in sorted(set(ops[read].tolist()), key=lambda other: (other != op_id, other)):
        given = ints(polls, "offset")[read & (ops == each)]
        inside = aborted[(aborted > given.min()) & (aborted < given.max())]
        out = inside[~within(inside, given)]
        if len(out):
            return each, int(out[0])
    return None
