"""Build the tables of a history, column by column, from the rows that were collected."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.columns import NONE, Ints, distinct, nullable, order_of
from checkers.errors import HistoryError
from checkers.ingest import Tables
from checkers.ordering import ordered
from checkers.transactions import READ_COMMITTED
from results.record.tables import TABLES
from results.record.terms import Decision, Outcome, Phase, TransactionOutcome

Place = tuple[str, int]
"""Topic and partition."""

TOPIC_ID = "history"
"""The id of all topics, because histories have no topic ids."""
FIRST_NUMBERED = 1 << 62
"""The first number for values that are not integers, or that are negative or too large."""
_OK = 0
_NO_MOVES = ((), (), ())
_FEW = 127
"""The maximum number of strings that can be coded in a byte."""
_DECIDED = {
    Outcome.OK: (Decision.COMMIT, TransactionOutcome.COMMITTED),
    Outcome.FAIL: (Decision.ABORT, TransactionOutcome.ABORTED),
    Outcome.INFO: (Decision.COMMIT, TransactionOutcome.UNKNOWN),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A history in the format of the run's record.

    Attributes:
        name: The history's own name, or the name of its file.
        tables: `ops`, `sends`, `polls`, `assignments`, `transactions`; their `run_id` is the name.
        places: The places of the history's keys, in the order in which they first appear.
        names: The names of values that got numbers.
    """

    name: str
    tables: Tables
    places: tuple[Place, ...]
    names: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class Columns:
    """The ops of a history in columns, collected by `checkers/histories/columns.py`.

    Attributes:
        times: The times of the entries, in nanoseconds.
        indexes: The indexes of the entries in the history; None if any entry has no index.
        begun, process, f, ended, outcome: For each op: its first entry, its process, the number of
            its `f` in `words`, its last entry (-1 if open), and the number of its outcome in
            `OUTCOMES`.
        words: The `f` of ops.
        sent: (row of the op, mop, place, offset, value) of the sends.
        polled: (row of the op, mop, place, index of the first record in the poll, count, row of the
            first record in `records`), one for each key of a poll.
        records: (offset, value) of all polled records.
        moves: (row of the op, place, kind), for `assignments`.
        places: The places of the keys, in the order of their numbers.
        names: The names of values that got numbers.
    """

    times: Ints
    indexes: Ints | None
    begun: Ints
    process: Ints
    f: Ints
    ended: Ints
    outcome: Ints
    words: tuple[str, ...]
    sent: tuple[Ints, ...]
    polled: tuple[Ints, ...]
    records: tuple[Ints, Ints]
    moves: tuple[tuple[int, int, str], ...]
    places: tuple[Place, ...]
    names: Mapping[int, str] = field(default_factory=dict)


OUTCOMES = (Outcome.OK, Outcome.FAIL, Outcome.INFO)
"""The outcomes, in the order of their numbers."""


def history_of(
    name: str, columns: Columns, where: Callable[[int], str] = "op {}".format
) -> History:
    """Return the history built from collected columns.

    Args:
        name: The history's own name, or the name of its file.
        columns: The history's ops in columns.
        where: A function that takes an op's row, and returns the op's position in the file.

    Raises:
        HistoryError: One value was sent twice to a key.
    """
    return _Tabled(name, columns).history(where)


class _Tabled:
    """A builder of a history's tables. In each table, the rows are sorted by place and op."""

    def __init__(self, name: str, columns: Columns) -> None:
        self._name, self._columns = name, columns
        times = _in_order(columns.times)
        self._op_id = _identities(columns.indexes, len(times))[columns.begun]
        self._process, self._outcome = columns.process, columns.outcome
        self._invoke_ns = times[columns.begun]
        ended = columns.ended
        self._complete_ns = np.where(ended < 0, NONE, times[np.maximum(ended, 0)])
        self._by_id = np.argsort(self._op_id, kind="stable")
        self._rank = np.empty(len(self._by_id), np.int64)
        self._rank[self._by_id] = np.arange(len(self._by_id))
        self._place_rank = _ranks(columns.places)

    def history(self, where: Callable[[int], str]) -> History:
        self._refuse_repeated(where)
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
            places=self._columns.places,
            names=self._columns.names,
        )

    def _ops(self) -> pa.Table:
        count, rows = len(self._op_id), self._by_id
        op, _, _, _, records, _ = self._columns.polled
        sent = np.bincount(self._columns.sent[0], minlength=count)
        polled = np.bincount(op, weights=records, minlength=count)
        return self._table(
            "ops",
            count,
            op_id=self._op_id[rows], process=self._process[rows], worker=np.zeros(count, np.int64),
            f=_spelt(self._columns.f[rows], self._columns.words),
            phase=_all(Phase.MAIN.value, count), invoke_ns=self._invoke_ns[rows],
            complete_ns=nullable(self._complete_ns[rows]),
            outcome=_spelt(self._outcome[rows], OUTCOMES),
            messages=(sent + polled.astype(np.int64))[rows],
        )  # fmt: skip

    def _sends(self) -> pa.Table:
        order = self._in_turn(self._columns.sent)
        rows, mop, place, offsets, values = (each[order] for each in self._columns.sent)
        return self._table(
            "sends",
            len(rows),
            **self._op_copies(rows), **self._place_columns(place),
            mop=mop, value=values, offset=nullable(offsets),
            acked=pa.array((self._outcome[rows] == _OK) | (offsets >= 0), pa.bool_()),
            acks=_all("all", len(rows)), txn_id=self._op_id[rows],
        )  # fmt: skip

    def _polls(self) -> pa.Table:
        order = self._in_turn(self._columns.polled)
        op, mop, place, pos, counts, starts = (each[order] for each in self._columns.polled)
        run = np.repeat(np.arange(len(op)), counts)
        within = np.arange(len(run)) - (np.cumsum(counts) - counts)[run]
        offsets, values = (each[starts[run] + within] for each in self._columns.records)
        return self._table(
            "polls",
            len(run),
            **self._op_copies(op[run]), **self._place_columns(place[run]),
            mop=mop[run], pos=pos[run] + within,
            offset=nullable(offsets), value=values, isolation=_all(READ_COMMITTED, len(run)),
        )  # fmt: skip

    def _assignments(self) -> pa.Table:
        op, place, kind = (
            zip(*self._columns.moves, strict=True) if self._columns.moves else _NO_MOVES
        )
        rows = np.array(op, np.int64)
        return self._table(
            "assignments",
            len(op),
            op_id=self._op_id[rows], process=self._process[rows],
            kind=pa.array(kind, pa.string()), time_ns=self._invoke_ns[rows],
            **self._place_columns(np.array(place, np.int64)),
        )  # fmt: skip

    def _transactions(self) -> pa.Table:
        rows = distinct(np.sort(self._columns.sent[0]))
        decisions, outcomes = zip(*(_DECIDED[each] for each in OUTCOMES), strict=True)
        return self._table(
            "transactions",
            len(rows),
            txn_id=self._op_id[rows], op_id=self._op_id[rows],
            decision=_spelt(self._outcome[rows], decisions),
            outcome=_spelt(self._outcome[rows], outcomes),
        )  # fmt: skip

    def _in_turn(self, deeds: tuple[Ints, ...]) -> Ints:
        """Return the order of rows by place and op id.

        Sorting these rows is cheaper than sorting the finished table. The table has many columns,
        and a row for each record.
        """
        rows, _, places, *_ = deeds
        return order_of(self._place_rank[places], self._rank[rows])

    def _op_copies(self, rows: Ints) -> "dict[str, Ints | pa.Array[Any]]":
        return {
            "op_id": self._op_id[rows],
            "process": self._process[rows],
            "phase": _all(Phase.MAIN.value, len(rows)),
            "invoke_ns": self._invoke_ns[rows],
            "complete_ns": nullable(self._complete_ns[rows]),
            "outcome": _spelt(self._outcome[rows], OUTCOMES),
        }

    def _place_columns(self, places: Ints) -> "dict[str, Ints | pa.Array[Any]]":
        topics = list(dict.fromkeys(topic for topic, _ in self._columns.places))
        number = {topic: at for at, topic in enumerate(topics)}
        topic_of = np.array([number[topic] for topic, _ in self._columns.places], np.int64)
        partition_of = np.array([partition for _, partition in self._columns.places], np.int64)
        return {
            "topic": _spelt(topic_of[places], topics),
            "topic_id": _all(TOPIC_ID, len(places)),
            "partition": partition_of[places],
        }

    def _table(self, table: str, count: int, **columns: "Ints | pa.Array[Any]") -> pa.Table:
        """Return a table of the record, with coded strings. Columns that are not given are null."""
        schema = TABLES[table]
        columns["run_id"] = _all(self._name, count)
        arrays = [
            _array(columns[each.name], each.type)
            if each.name in columns
            else pa.nulls(count, each.type)
            for each in schema
        ]
        return pa.table(arrays, names=schema.names)

    def _refuse_repeated(self, where: Callable[[int], str]) -> None:
        """Raise an error if one value was sent twice to a key."""
        rows, _, places, _, values = self._columns.sent
        width = int(values.max(initial=0)) + 1
        if width * (len(self._columns.places) + 1) < FIRST_NUMBERED:
            packed = np.sort(places * width + values)
            if not (packed[1:] == packed[:-1]).any():
                return
        order = np.lexsort((rows, values, places))
        one, other = order[:-1], order[1:]
        again = (places[one] == places[other]) & (values[one] == values[other])
        if again.any():
            first, second = (int(each[again][0]) for each in (one, other))
            wheres = (where(int(rows[each])) for each in (second, first))
            raise HistoryError(
                "{}: this op sends a value that {} also sends to the same key".format(*wheres)
            )


def _ranks(places: Sequence[Place]) -> Ints:
    """Return each place's rank in the order of a table."""
    ranks = np.empty(len(places), np.int64)
    ranks[sorted(range(len(places)), key=places.__getitem__)] = np.arange(len(places))
    return ranks


def _array(column: "Ints | pa.Array[Any]", kind: pa.DataType) -> "pa.Array[Any]":
    if isinstance(column, pa.DictionaryArray):
        return column
    return (column if isinstance(column, pa.Array) else pa.array(column, pa.int64())).cast(kind)


def _spelt(numbers: Ints, words: Sequence[str]) -> "pa.Array[Any]":
    """Return a coded column: for each number, the string that the number stands for."""
    told = [str(word) for word in words]
    if len(set(told)) < len(told):  # Two numbers have one word.
        return pa.array([told[each] for each in numbers.tolist()], pa.string()).dictionary_encode()
    kind = np.int8 if len(told) < _FEW else np.int32
    return pa.DictionaryArray.from_arrays(
        pa.array(numbers.astype(kind)), pa.array(told, pa.string())
    )


def _all(word: str, count: int) -> "pa.Array[Any]":
    """Return a coded column with the same string in every row."""
    return _spelt(np.zeros(count, np.int64), (word,))


def _identities(indexes: Ints | None, entries: int) -> Ints:
    """Return the indexes of entries if they increase; otherwise the entries' positions."""
    if indexes is not None and (np.diff(indexes) > 0).all():
        return indexes
    return np.arange(entries, dtype=np.int64)


def _in_order(times: Ints) -> Ints:
    """Return the times, but each at least one nanosecond later than the time before it."""
    steps = np.arange(len(times), dtype=np.int64)
    return np.asarray(np.maximum.accumulate(np.maximum(times, 0) - steps) + steps, np.int64)
