"""The tables of a history, from the rows that were collected of it, a column at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.columns import NONE, Ints, nullable, repeat
from checkers.errors import HistoryError
from checkers.ingest import Tables
from checkers.ordering import ordered
from checkers.transactions import READ_COMMITTED
from results.record.tables import TABLES
from results.record.terms import Decision, Outcome, Phase, TransactionOutcome

Place = tuple[str, int]
"""Topic and partition."""

TOPIC_ID = "history"
"""Of all topics: histories do not tell any."""
FIRST_NUMBERED = 1 << 62
"""Values from here on are numbers of values that are no integers."""
_DECIDED = {
    Outcome.OK: (Decision.COMMIT, TransactionOutcome.COMMITTED),
    Outcome.FAIL: (Decision.ABORT, TransactionOutcome.ABORTED),
    Outcome.INFO: (Decision.COMMIT, TransactionOutcome.UNKNOWN),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A history as our record has it.

    Attributes:
        name: Its own, or its file's.
        tables: `ops`, `sends`, `polls`, `assignments`, `transactions`; their `run_id` is the name.
        places: Of its keys, in the order in which they came.
        names: Of values that were numbered.
    """

    name: str
    tables: Tables
    places: tuple[Place, ...]
    names: Mapping[int, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Rows:
    """What was collected of a history; tuples, because there may be millions.

    Attributes:
        times: Of the entries, in nanoseconds.
        indexes: Of the entries, as the history has them.
        wheres: Of the ops: where they stand in the file.
        ops: (entry that began it, process, f, entry that ended it or -1, outcome).
        sends: (row of the op, mop, place, offset, value).
        polls: (row of the op, mop, place, first pos, how many), one for each key of a poll.
        polled: Offset, value, offset, value, ...: the records of `polls` end to end.
        moves: (row of the op, place, kind), of `assignments`.
        places: Of the keys, by their numbers.
    """

    times: list[int] = field(default_factory=list)
    indexes: list[object] = field(default_factory=list)
    wheres: list[str] = field(default_factory=list)
    ops: list[tuple[int, int, str, int, Outcome]] = field(default_factory=list)
    sends: list[tuple[int, int, int, object, object]] = field(default_factory=list)
    polls: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    polled: list[object] = field(default_factory=list)
    moves: list[tuple[int, int, str]] = field(default_factory=list)
    places: dict[Place, int] = field(default_factory=dict)


def history_of(name: str, rows: Rows) -> History:
    """Return the history that was collected.

    Raises:
        HistoryError: An offset is no number, or a key was sent one value twice.
    """
    return _Tabled(name, rows).history()


class _Tabled:
    def __init__(self, name: str, rows: Rows) -> None:
        self._name = name
        self._rows = rows
        self._names: dict[str, int] = {}
        ops = _transposed(rows.ops, 5)
        self._begun, self._process = np.array(ops[0], np.int64), np.array(ops[1], np.int64)
        self._op_id = _identities(rows.indexes)[self._begun]
        self._f = ops[2]
        self._outcome = pa.array([each.value for each in ops[4]], pa.string())
        self._outcomes = ops[4]
        times = _in_order(rows.times)
        self._invoke_ns = times[self._begun]
        ended = np.array(ops[3], np.int64)
        self._complete_ns = np.where(ended < 0, NONE, times[np.maximum(ended, 0)])

    def history(self) -> History:
        tables = {
            "ops": self._ops(),
            "sends": self._sends(),
            "polls": self._polls(),
            "assignments": self._assignments(),
            "transactions": self._transactions(),
        }
        return History(
            name=self._name,
            tables={name: ordered(name, table) for name, table in tables.items()},
            places=tuple(self._rows.places),
            names={number: text for text, number in self._names.items()},
        )

    def _ops(self) -> pa.Table:
        count = len(self._begun)
        messages = np.zeros(count, np.int64)
        np.add.at(messages, [each[0] for each in self._rows.sends], 1)
        np.add.at(
            messages, [each[0] for each in self._rows.polls], [each[4] for each in self._rows.polls]
        )
        return self._table(
            "ops",
            count,
            op_id=self._op_id, process=self._process, worker=np.zeros(count, np.int64),
            f=pa.array(self._f, pa.string()), phase=repeat(Phase.MAIN.value, count),
            invoke_ns=self._invoke_ns, complete_ns=nullable(self._complete_ns),
            outcome=self._outcome, messages=messages,
        )  # fmt: skip

    def _sends(self) -> pa.Table:
        op, mop, place, offset, value = _transposed(self._rows.sends, 5)
        rows = np.array(op, np.int64)
        values, offsets = self._values(value), self._offsets(offset, rows)
        self._refuse_repeated(np.array(place, np.int64), values, rows)
        known = np.array([each is Outcome.OK for each in self._outcomes], np.bool_)
        return self._table(
            "sends",
            len(op),
            **self._op_copies(rows), **self._place_columns(place),
            mop=np.array(mop, np.int64), value=values, offset=nullable(offsets),
            acked=pa.array(known[rows] | (offsets >= 0), pa.bool_()),
            acks=repeat("all", len(op)), txn_id=self._op_id[rows],
        )  # fmt: skip

    def _polls(self) -> pa.Table:
        op, mop, place, pos, counts = (
            np.array(each, np.int64) for each in _transposed(self._rows.polls, 5)
        )
        run = np.repeat(np.arange(len(op)), counts)
        first = np.cumsum(counts) - counts
        polled = self._rows.polled
        rows = op[run]
        offsets, values = self._offsets(polled[::2], rows), self._values(polled[1::2])
        return self._table(
            "polls",
            len(run),
            **self._op_copies(rows), **self._place_columns(place[run]),
            mop=mop[run], pos=pos[run] + np.arange(len(run)) - first[run],
            offset=nullable(offsets), value=values, isolation=repeat(READ_COMMITTED, len(run)),
        )  # fmt: skip

    def _assignments(self) -> pa.Table:
        op, place, kind = _transposed(self._rows.moves, 3)
        rows = np.array(op, np.int64)
        return self._table(
            "assignments",
            len(op),
            op_id=self._op_id[rows], process=self._process[rows],
            kind=pa.array(kind, pa.string()), time_ns=self._invoke_ns[rows],
            **self._place_columns(place),
        )  # fmt: skip

    def _transactions(self) -> pa.Table:
        rows = np.unique(np.array([each[0] for each in self._rows.sends], np.int64))
        decided = [_DECIDED[self._outcomes[row]] for row in rows.tolist()]
        return self._table(
            "transactions",
            len(rows),
            txn_id=self._op_id[rows], op_id=self._op_id[rows],
            decision=pa.array([str(each[0]) for each in decided], pa.string()),
            outcome=pa.array([str(each[1]) for each in decided], pa.string()),
        )  # fmt: skip

    def _op_copies(self, rows: Ints) -> "dict[str, Ints | pa.Array[Any]]":
        return {
            "op_id": self._op_id[rows],
            "process": self._process[rows],
            "phase": repeat(Phase.MAIN.value, len(rows)),
            "invoke_ns": self._invoke_ns[rows],
            "complete_ns": nullable(self._complete_ns[rows]),
            "outcome": self._outcome.take(pa.array(rows, pa.int64())),
        }

    def _place_columns(self, places: Sequence[int] | Ints) -> "dict[str, Ints | pa.Array[Any]]":
        at = np.array(places, np.int64)
        topics = pa.array([topic for topic, _ in self._rows.places], pa.string())
        partitions = np.array([partition for _, partition in self._rows.places], np.int64)
        return {
            "topic": topics.take(pa.array(at, pa.int64())),
            "topic_id": repeat(TOPIC_ID, len(at)),
            "partition": partitions[at],
        }

    def _table(self, table: str, count: int, **columns: "Ints | pa.Array[Any]") -> pa.Table:
        """Return a table of the record; columns that are not given are null."""
        schema = TABLES[table]
        columns["run_id"] = repeat(self._name, count)
        arrays = [
            _array(columns[each.name]).cast(each.type)
            if each.name in columns
            else pa.nulls(count, each.type)
            for each in schema
        ]
        return pa.table(arrays, schema=schema)

    def _offsets(self, told: Sequence[object], rows: Ints) -> Ints:
        """Return offsets; nothing, and what is below 0, is `NONE`."""
        try:
            offsets = pa.array(told, pa.int64())
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as wrong:
            at = next(at for at, each in enumerate(told) if not _is_offset(each))
            where = self._rows.wheres[rows[at]]
            raise HistoryError(f"{where}: an offset cannot be {told[at]!r}") from wrong
        plain = offsets.fill_null(NONE).to_numpy(zero_copy_only=False)
        return np.asarray(np.maximum(plain, NONE), np.int64)

    def _values(self, told: Sequence[object]) -> Ints:
        try:
            values = pa.array(told, pa.int64())
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return self._numbered(told)
        plain = values.fill_null(NONE).to_numpy(zero_copy_only=False)
        small = (plain >= 0) & (plain < FIRST_NUMBERED)
        return plain if small.all() else self._numbered(told)

    def _numbered(self, told: Sequence[object]) -> Ints:
        return np.array([self._number(each) for each in told], np.int64)

    def _number(self, value: object) -> int:
        if type(value) is int and 0 <= value < FIRST_NUMBERED:
            return value
        text = str(value)
        return self._names.setdefault(text, FIRST_NUMBERED + len(self._names))

    def _refuse_repeated(self, places: Ints, values: Ints, rows: Ints) -> None:
        order = np.lexsort((rows, values, places))
        one, other = order[:-1], order[1:]
        again = (places[one] == places[other]) & (values[one] == values[other])
        if again.any():
            first, second = (int(each[again][0]) for each in (one, other))
            wheres = (self._rows.wheres[rows[each]] for each in (second, first))
            raise HistoryError("{}: it sends a value that {} sends to the same key".format(*wheres))


def _array(column: "Ints | pa.Array[Any]") -> "pa.Array[Any]":
    return column if isinstance(column, pa.Array) else pa.array(column, pa.int64())


def _is_offset(told: object) -> bool:
    return told is None or (type(told) is int and abs(told) < FIRST_NUMBERED)


def _transposed(rows: Sequence[tuple[Any, ...]], width: int) -> list[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width


def _identities(indexes: Sequence[object]) -> Ints:
    """Return the indexes of entries if they grow, else their places."""
    if all(type(each) is int and 0 <= each < FIRST_NUMBERED for each in indexes):
        told = np.array(indexes, np.int64)
        if (np.diff(told) > 0).all():
            return told
    return np.arange(len(indexes), dtype=np.int64)


def _in_order(times: Sequence[int]) -> Ints:
    """Return times that grow from entry to entry, by a nanosecond at least."""
    steps = np.arange(len(times), dtype=np.int64)
    return np.asarray(
        np.maximum.accumulate(np.maximum(np.array(times, np.int64), 0) - steps) + steps, np.int64
    )
