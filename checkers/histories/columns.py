"""Collect the ops of a history, one by one, as columns for the record's tables.

Each op that sends is one transaction, also if its `f` is not `txn`. The op's outcome is the outcome
of all its sends, as in Jepsen. Polls are `read_committed`. A key is a partition. Key 5 is partition
5 of a topic named `key`. Each key that is not a number from 0 to 2^31 - 1 has its own topic, with
the name of the key (in quotes if the name is `key`). Integer values from 0 to 2^62 - 1 stay as they
are. Other values get numbers from 2^62 on, which `History.names` lists.

An op's id is the index of its invocation in the history. If any entry has no index, or the indexes
do not increase, the id is the position of the invocation among the clients' entries, from 0. Times
keep the order of entries: each entry is later than the one before it. Entries with equal times get
different times. So real-time order is the order of entries, as in Jepsen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.columns import NONE, Ints
from checkers.errors import HistoryError
from checkers.histories.tables import FIRST_NUMBERED, OUTCOMES, Columns, Place
from checkers.positions import LEFT_OUT, REBALANCES, SUBSCRIBE
from results.record.terms import F, Outcome

TOPIC = "key"
"""The topic of all keys that are numbers from 0 to `_MAX_PARTITION`."""
_MAX_PARTITION = 2**31 - 1
SEND = frozenset({"send", ":send"})
POLL = frozenset({"poll", ":poll"})
PAIR = 2
_FAIL = OUTCOMES.index(Outcome.FAIL)
PARTED = frozenset({F.SEND.value, F.POLL.value, F.TXN.value})
MOVING = frozenset({F.ASSIGN.value, F.SUBSCRIBE.value})


@dataclass(slots=True, kw_only=True)
class _Rows:
    """The rows that were collected from a history.

    The rows are tuples, because there may be millions of rows.

    Attributes:
        times, indexes: The times and indexes of the entries.
        ops: (entry that began the op, process, f, entry that ended it or -1, number of its
            outcome).
        sends: (row of the op, mop, place, offset, value).
        polls: (row of the op, mop, place, index of the first record in the poll, count), one tuple
            for each key of a poll.
        polled: The records of `polls`, one after another: offset, value, offset, value, ...
        moves: (row of the op, place, kind), for `assignments`.
        places: The number of each place, i.e. of each key.
    """

    times: list[int] = field(default_factory=list)
    indexes: list[object] = field(default_factory=list)
    ops: list[tuple[int, int, str, int, int]] = field(default_factory=list)
    sends: list[tuple[int, int, int, object, object]] = field(default_factory=list)
    polls: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    polled: list[object] = field(default_factory=list)
    moves: list[tuple[int, int, str]] = field(default_factory=list)
    places: dict[Place, int] = field(default_factory=dict)


class Collector:
    """A collector that stores the ops of a history as columns."""

    def __init__(self) -> None:
        self._rows = _Rows()
        self._wheres: list[str] = []
        self._numbers: dict[object, int] = {}
        self._met: dict[int, set[int]] = {}
        self._assigned: dict[int, set[int]] = {}

    def entry(self, time_ns: int, index: object) -> int:
        """Add the time and the index of the next entry; return the entry's position."""
        self._rows.times.append(time_ns)
        self._rows.indexes.append(index)
        return len(self._rows.times) - 1

    def op(self, begun: int, *, process: int, f: str, ended: int, outcome: int, where: str) -> int:
        """Add an op, and return its row.

        `begun` and `ended` are the positions of the op's entries. `ended` is -1 for an open op.
        """
        self._rows.ops.append((begun, process, f, ended, outcome))
        self._wheres.append(where)
        return len(self._rows.ops) - 1

    def where(self, row: int) -> str:
        """Return an op's position in the file, by its row."""
        return self._wheres[row]

    def columns(self) -> Columns:
        """Return all collected data as columns.

        Raises:
            HistoryError: An offset is not a number.
        """
        rows = self._rows
        begun, process, f, ended, outcome = _transposed(rows.ops, 5)
        words = {word: at for at, word in enumerate(dict.fromkeys(f))}
        op, mop, place, offset, value = _transposed(rows.sends, 5)
        numbered = _Numbered()
        sends = _ints(op)
        sent = (sends, _ints(mop), _ints(place), self._offsets(offset, sends))
        polls = tuple(_ints(each) for each in _transposed(rows.polls, 5))
        counts = polls[-1]
        records = self._offsets(rows.polled[::2], np.repeat(polls[0], counts))
        return Columns(
            times=_ints(rows.times),
            indexes=indexes_of(rows.indexes),
            begun=_ints(begun), process=_ints(process), ended=_ints(ended),
            f=_ints([words[each] for each in f]), words=tuple(words), outcome=_ints(outcome),
            sent=(*sent, numbered.values(value)),
            polled=(*polls, np.cumsum(counts) - counts),
            records=(records, numbered.values(rows.polled[1::2])),
            moves=tuple(rows.moves),
            places=tuple(rows.places),
            names={number: text for text, number in numbered.names.items()},
        )  # fmt: skip

    def did(self, row: int, process: int, f: str, value: Any) -> None:  # noqa: ANN401 - as in the file
        """Add the sends, polls or assignments of an op.

        Raises:
            TypeError, ValueError, AttributeError, IndexError: The op's value has a wrong shape.
        """
        if f in PARTED:
            met = self._met.setdefault(process, set())
            for mop, part in enumerate(value or ()):
                if part[0] in SEND:
                    self._send(row, mop, part, met)
                elif part[0] in POLL:
                    self._poll(row, mop, part, met)
                else:
                    raise ValueError("each part of an op must be a send or a poll")
        elif f in MOVING and self._rows.ops[row][-1] != _FAIL:
            self._move(row, process, f, {self._place(key) for key in value})

    def rebalanced(self, row: int, keys: Iterable[object]) -> None:
        """Add the keys that a rebalance during an op assigned or revoked."""
        self._rows.moves += [(row, place, REBALANCES[0]) for place in map(self._place, keys)]

    def _send(self, row: int, mop: int, part: Sequence[Any], met: set[int]) -> None:
        _, key, said = part
        place = self._numbers.get(key)
        if place is None:
            place = self._place(key)
        met.add(place)
        told = isinstance(said, list | tuple) and len(said) == PAIR
        offset, value = said if told else (None, said)
        self._rows.sends.append((row, mop, place, offset, value))

    def _poll(self, row: int, mop: int, part: Sequence[Any], met: set[int]) -> None:
        if len(part) < PAIR or not part[1]:
            return
        pos = 0
        for key, records in part[1].items():
            place = self._numbers.get(key)
            if place is None:
                place = self._place(key)
            if not isinstance(records, list | tuple) or set(map(len, records)) - {PAIR}:
                raise ValueError("a poll must return pairs of offset and value")
            met.add(place)
            self._rows.polls.append((row, mop, place, pos, len(records)))
            self._rows.polled.extend(chain.from_iterable(records))
            pos += len(records)

    def _move(self, row: int, process: int, f: str, places: set[int]) -> None:
        met = self._met.get(process, set())
        self._rows.moves += moved(row, f, places, met=met, before=self._assigned.get(process))
        self._assigned[process] = places
        self._met[process] = set()

    def _place(self, key: object) -> int:
        place = place_of(key)
        self._numbers[key] = self._rows.places.setdefault(place, len(self._rows.places))
        return self._numbers[key]

    def _offsets(self, told: Sequence[object], rows: Ints) -> Ints:
        """Return offsets as an array. Missing and negative offsets become `NONE`."""
        try:
            offsets = pa.array(told, pa.int64())
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as wrong:
            at = next(at for at, each in enumerate(told) if not _is_offset(each))
            where = self._wheres[rows[at]]
            raise HistoryError(f"{where}: {told[at]!r} is not an offset") from wrong
        plain = offsets.fill_null(NONE).to_numpy(zero_copy_only=False)
        return np.asarray(np.maximum(plain, NONE), np.int64)


def moved(
    row: int, f: str, places: set[int], *, met: set[int], before: set[int] | None
) -> list[tuple[int, int, str]]:
    """Return the rows of a new assignment.

    The new assignment replaces the earlier assignment of the process. If an `assign` names a key
    that was assigned before, the process continues from its position. No history shows where the
    process starts to read a new key: at the group's committed offset, or at the beginning. So a new
    key is recorded as a subscription, because a subscription may start at any offset. A `subscribe`
    records all its keys in this way.

    Args:
        row: The op's row.
        f: The op's `f`.
        places: The assigned places.
        met: The places that the process sent to or read from since the earlier assignment.
        before: The places of the earlier assignment.
    """
    kept = before or set()
    fresh = places - kept if f == F.ASSIGN else places
    left_out = (met | kept) - places
    rows = [(row, place, SUBSCRIBE) for place in sorted(fresh)]
    return rows + [(row, place, LEFT_OUT) for place in sorted(left_out)]


def place_of(key: object) -> Place:
    """Return the place of a key.

    In JSON, the keys of a poll's map are strings. So a string of digits counts as a number.

    Raises:
        TypeError: The key is null, a boolean, a float, a list or a map.
    """
    if isinstance(key, bool | float | list | dict | None):
        raise TypeError("a key must be a number or a word")
    text = str(key)
    number = int(text) if text.isdecimal() else -1
    if 0 <= number <= _MAX_PARTITION:
        return TOPIC, number
    return text if text != TOPIC else f"'{text}'", 0


class _Numbered:
    """An object that assigns numbers to values that are not integers, or negative, or too large."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def values(self, told: Sequence[object]) -> Ints:
        try:
            values = pa.array(told, pa.int64())
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return _ints([self._number(each) for each in told])
        plain = np.asarray(values.fill_null(NONE).to_numpy(zero_copy_only=False), np.int64)
        small = (plain >= 0) & (plain < FIRST_NUMBERED)
        return plain if small.all() else _ints([self._number(each) for each in told])

    def _number(self, value: object) -> int:
        if type(value) is int and 0 <= value < FIRST_NUMBERED:
            return value
        text = str(value)
        return self.names.setdefault(text, FIRST_NUMBERED + len(self.names))


def _ints(told: Sequence[int]) -> Ints:
    return np.array(told, np.int64)


def indexes_of(told: Sequence[object]) -> Ints | None:
    """Return the indexes of the entries; None if any index is missing, negative, or too large."""
    numbers = [each for each in told if type(each) is int and 0 <= each < FIRST_NUMBERED]
    return _ints(numbers) if len(numbers) == len(told) else None


def _is_offset(told: object) -> bool:
    return told is None or (type(told) is int and abs(told) < FIRST_NUMBERED)


def _transposed(rows: Sequence[tuple[Any, ...]], width: int) -> list[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width
