"""Read one stretch of a history's file, so that several stretches can be read in parallel.

A stretch has no information about earlier lines. A stretch lists the ops that are open at its end,
and the ends of ops that began earlier. `joining` joins the stretches of a file.

This reader reads only regular files: each line has one entry, values are integers from 0 to
2^62 - 1, and no entry contradicts another. For any other file, `read_stretch` returns None. Then
`reading` reads the file from its start, line by line. It knows all formats, and reports errors with
the line. Both readers give equal results for regular files, and a test compares them.
"""

import gc
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from checkers.columns import NONE, Ints
from checkers.errors import HistoryError
from checkers.histories.columns import MOVING, PAIR, PARTED, POLL, SEND, indexes_of, place_of
from checkers.histories.plain_edn import entries_of
from checkers.histories.recording import EDN, JSON, MISSHAPED, Words, rebalanced_keys
from checkers.histories.tables import FIRST_NUMBERED, OUTCOMES, Place
from results.record.terms import Outcome

_FAIL, _INFO = OUTCOMES.index(Outcome.FAIL), OUTCOMES.index(Outcome.INFO)
_INVOKE = -1
_LISTS = (list, tuple)
_AT_ONCE = 1 << 16
"""The number of records that are converted together."""
_MAX = 1 << 62
_BOOLEANS = (b"true", b"false")

Entry = Mapping[Any, Any]


class IrregularError(Exception):
    """Content that this reader does not read, because the content is wrong or rare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of a file: the lines that begin in a range of bytes.

    Attributes:
        path: The file, which is not compressed.
        start, end: The range in bytes, `end` exclusive.
        edn: Whether the file is EDN. Otherwise it is JSON lines.
    """

    path: Path
    start: int
    end: int
    edn: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """An op that began in a stretch and did not end in that stretch.

    Attributes:
        at: The position of the entry that began the op.
    """

    process: int
    at: int
    f: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of an op that began before the stretch.

    Attributes:
        row: The op's row among the stretch's ops.
        entry: The entry as it was read.
    """

    process: int
    row: int
    at: int
    outcome: int
    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class Deeds:
    """The effects of a group of ops, in columns as in `tables.Columns`.

    Attributes:
        sent, polled, records: As in `tables.Columns`, but without the last column of `polled`.
        moves: (row, f, places) of assignments.
        turned: (row, place) of rebalances.
        places: The places in the order of their numbers.
        first_rows: For each place, the row of the op that named it first.
    """

    sent: tuple[Ints, ...]
    polled: tuple[Ints, ...]
    records: tuple[Ints, Ints]
    moves: tuple[tuple[int, str, tuple[int, ...]], ...]
    turned: tuple[tuple[int, int], ...]
    places: tuple[Place, ...]
    first_rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class Stretch:
    """The content of a stretch.

    Attributes:
        times, indexes: The times and indexes of the stretch's entries, as in `tables.Columns`.
        ops: (begun, process, number of f, ended, outcome) of the ops that ended in the stretch. For
            `ended` ops, `begun` and f are not known.
        words: The `f` of ops.
        deeds: The effects of the stretch's ops, except the ops in `ended`.
        begun: The ops that are open at the end of the stretch, in order.
        ended: The ops that were open at the start of the stretch, in order.
        fresh: The processes whose first entry in the stretch is an invocation.
        retired: The processes that ended an op with `info`.
    """

    times: Ints
    indexes: Ints | None
    ops: tuple[Ints, ...]
    words: tuple[str, ...]
    deeds: Deeds
    begun: tuple[Begun, ...]
    ended: tuple[Ended, ...]
    fresh: frozenset[int]
    retired: frozenset[int]


def read_stretch(share: Share) -> Stretch | None:
    """Return the content of a share of a file, or None if the share is not regular."""
    collects = gc.isenabled()
    gc.disable()  # With millions of new values, garbage collection takes half of the time.
    try:
        return _Reader(EDN if share.edn else JSON).read(_entries(share))
    except (IrregularError, HistoryError, RecursionError, *MISSHAPED):
        return None
    finally:
        if collects:
            gc.enable()


def _entries(share: Share) -> Iterator[Entry]:
    text = _text(share)
    if b"\r" in text:  # A different line ending.
        raise IrregularError
    lines = [line for line in text.split(b"\n") if line]
    entries = entries_of(lines) if share.edn else map(orjson.loads, lines)
    if not any(word in text for word in _BOOLEANS):
        return entries
    words = EDN if share.edn else JSON
    return (_without_booleans(entry, words) for entry in entries)


def _without_booleans(entry: Entry, words: Words) -> Entry:
    """Return the entry.

    Raise an error if its value has booleans, because Python treats them as ints.
    """
    if type(entry.get(words.process)) is int and _booleans(entry.get(words.value)):
        raise IrregularError
    return entry


def _booleans(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_booleans(each) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple):
        return any(_booleans(each) for each in value)
    return isinstance(value, bool)


def _text(share: Share) -> bytes:
    """Return the lines that begin in a share of a file."""
    with share.path.open("rb") as file:
        if share.start:
            file.seek(share.start - 1)
            file.readline()
        text = file.read(max(share.end - file.tell(), 0))
        whole = not text or text.endswith(b"\n")
        return text if whole else text + file.readline()


@dataclass(slots=True, kw_only=True)
class Collected:
    """A collector of the effects of ops (`Deeds`).

    Attributes:
        sends: Row, mop, place, offset, value, and so on.
        polls: Row, mop, place, index of the first record in the poll, count; and so on.
        told: The new records of `polls`, in the form in which they were read. In this form, they
            need ten times as much memory as numbers.
        records: Offset, value, and so on, of the earlier records.
        moves, turned: As in `Deeds`.
        places: The number of each place.
        first_rows: As in `Deeds`.
        numbers: For each key, the number of its place.
    """

    sends: "array[int]" = field(default_factory=lambda: array("q"))
    polls: "array[int]" = field(default_factory=lambda: array("q"))
    told: list[Sequence[Any]] = field(default_factory=list)
    records: "array[int]" = field(default_factory=lambda: array("q"))
    moves: list[tuple[int, str, tuple[int, ...]]] = field(default_factory=list)
    turned: list[tuple[int, int]] = field(default_factory=list)
    places: dict[Place, int] = field(default_factory=dict)
    first_rows: list[int] = field(default_factory=list)
    numbers: dict[object, int] = field(default_factory=dict)

    def did(self, row: int, f: str, value: Any, outcome: int) -> None:  # noqa: ANN401 - as in the file
        """Add the sends, polls or assignments of an op."""
        if f in PARTED:
            for mop, part in enumerate(value or ()):
                if part[0] in SEND:
                    self._send(row, mop, part)
                elif part[0] in POLL:
                    self._poll(row, mop, part)
                else:
                    raise IrregularError
        elif f in MOVING and outcome != _FAIL:
            self.moves.append((row, f, tuple({self._place(key, row) for key in value})))

    def ended(
        self,
        row: int,
        f: str,
        value: Any,  # noqa: ANN401 - as in the file
        *,
        outcome: int,
        entry: Entry,
        words: Words,
    ) -> None:
        """Add the effects of an op, from the op's last entry and the value of its first entry."""
        told = entry.get(words.value)
        self.did(row, f, value if told is None else told, outcome)
        rebalances = entry.get(words.rebalances)
        if rebalances:
            self.rebalanced(row, rebalanced_keys(rebalances, words))

    def rebalanced(self, row: int, keys: Iterable[object]) -> None:
        """Add the keys in a log of rebalances."""
        self.turned += [(row, self._place(key, row)) for key in keys]

    def deeds(self) -> Deeds:
        """Return all collected effects."""
        self._put_down()
        sent, polled, records = (
            np.array(each, np.int64).reshape(-1, width)
            for each, width in ((self.sends, 5), (self.polls, 5), (self.records, PAIR))
        )
        op, mop, place, offset, value = (np.ascontiguousarray(each) for each in sent.T)
        offsets, values = (np.ascontiguousarray(each) for each in records.T)
        if not all(_plain(each) for each in (value, values)):
            raise IrregularError
        return Deeds(
            sent=(op, mop, place, np.maximum(offset, NONE), value),
            polled=tuple(np.ascontiguousarray(each) for each in polled.T),
            records=(np.maximum(offsets, NONE), values),
            moves=tuple(self.moves),
            turned=tuple(self.turned),
            places=tuple(self.places),
            first_rows=tuple(self.first_rows),
        )

    def _send(self, row: int, mop: int, part: Sequence[Any]) -> None:
        _, key, said = part
        place = self.numbers.get(key)
        if place is None:
            place = self._place(key, row)
        if isinstance(said, _LISTS) and len(said) == PAIR:
            offset, value = said
            self.sends.extend((row, mop, place, NONE if offset is None else offset, value))
        else:
            self.sends.extend((row, mop, place, NONE, said))

    def _poll(self, row: int, mop: int, part: Sequence[Any]) -> None:
        if len(part) < PAIR or not part[1]:
            return
        pos = 0
        for key, records in part[1].items():
            place = self.numbers.get(key)
            if place is None:
                place = self._place(key, row)
            if not isinstance(records, _LISTS):
                raise IrregularError
            self.polls.extend((row, mop, place, pos, len(records)))
            self.told += records
            pos += len(records)
        if len(self.told) > _AT_ONCE:
            self._put_down()

    def _put_down(self) -> None:
        if set(map(len, self.told)) - {PAIR}:
            raise IrregularError
        self.records.extend(chain.from_iterable(self.told))
        self.told.clear()

    def _place(self, key: object, row: int) -> int:
        place = place_of(key)
        if place not in self.places:
            self.places[place] = len(self.places)
            self.first_rows.append(row)
        self.numbers[key] = self.places[place]
        return self.places[place]


def _plain(values: Ints) -> bool:
    return not len(values) or (int(values.min()) >= 0 and int(values.max()) < FIRST_NUMBERED)


class _Reader:
    """A reader of the entries of a stretch, in order."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._times = array("q")
        self._indexes: list[object] = []
        self._ops = array("q")
        self._rows = 0
        self._fs: dict[str, int] = {}
        self._did = Collected()
        self._open: dict[int, tuple[int, str, Any]] = {}
        self._ended: list[Ended] = []
        self._fresh: set[int] = set()
        self._came: set[int] = set()
        self._retired: set[int] = set()
        self._kinds = {words.prefix + each.value: number for number, each in enumerate(OUTCOMES)}
        self._kinds[f"{words.prefix}invoke"] = _INVOKE

    def read(self, entries: Iterable[Entry]) -> Stretch:
        """Read all entries, and return the stretch."""
        words, kinds = self._words, self._kinds
        times, indexes = self._times, self._indexes
        for entry in entries:
            process = entry.get(words.process)
            if type(process) is not int:
                self._leave_aside(process, entry)
                continue
            kind = kinds[entry[words.kind]]
            time_ns = entry.get(words.time)
            times.append(0 if time_ns is None else time_ns)
            indexes.append(entry.get(words.index))
            if kind == _INVOKE:
                self._begin(process, entry, len(times) - 1)
            else:
                self._end(process, entry, len(times) - 1, kind)
        return self._stretch()

    def _leave_aside(self, process: object, entry: Entry) -> None:
        """Ignore an entry of the nemesis. Raise an error if the entry belongs to a client."""
        f = entry.get(self._words.f)
        of_client = isinstance(f, str) and f.removeprefix(self._words.prefix) in PARTED
        if process is None or isinstance(process, float | bool) or of_client:
            raise IrregularError

    def _begin(self, process: int, entry: Entry, at: int) -> None:
        f = entry[self._words.f].removeprefix(self._words.prefix)
        if process in self._open or process in self._retired or not 0 <= process < _MAX:
            raise IrregularError
        if process not in self._came:
            self._came.add(process)
            self._fresh.add(process)
        self._open[process] = (at, f, entry.get(self._words.value))

    def _end(self, process: int, entry: Entry, at: int, outcome: int) -> None:
        begun, row = self._open.pop(process, None), self._rows
        self._rows += 1
        if outcome == _INFO:
            self._retired.add(process)
        if begun is None:
            if process in self._came:
                raise IrregularError
            self._came.add(process)
            self._ops.extend((NONE, process, NONE, at, outcome))
            self._ended.append(
                Ended(process=process, row=row, at=at, outcome=outcome, entry=dict(entry))
            )
            return
        begun_at, f, value = begun
        number = self._fs.setdefault(f, len(self._fs))
        self._ops.extend((begun_at, process, number, at, outcome))
        self._did.ended(row, f, value, outcome=outcome, entry=entry, words=self._words)

    def _stretch(self) -> Stretch:
        times = np.array(self._times, np.int64)
        if len(times) and max(int(times.max()), -int(times.min())) >= _MAX:
            raise IrregularError
        return Stretch(
            times=times,
            indexes=indexes_of(self._indexes),
            ops=tuple(np.array(self._ops, np.int64).reshape(-1, 5).T),
            words=tuple(self._fs),
            deeds=self._did.deeds(),
            begun=tuple(
                Begun(process=process, at=at, f=f, value=value)
                for process, (at, f, value) in self._open.items()
            ),
            ended=tuple(self._ended),
            fresh=frozenset(self._fresh),
            retired=frozenset(self._retired),
        )
