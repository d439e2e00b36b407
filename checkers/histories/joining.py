"""Join the stretches of a history file. The result is the same as if the file was read at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from checkers.columns import NONE, Ints, distinct, stack
from checkers.histories.columns import moved
from checkers.histories.recording import Words
from checkers.histories.stretches import Begun, Collected, Deeds, IrregularError, Stretch
from checkers.histories.tables import OUTCOMES, Columns, Place
from checkers.positions import REBALANCES
from results.record.terms import Outcome

_INFO = OUTCOMES.index(Outcome.INFO)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class _Part:
    """The effects of a group of ops, and the ops' rows in the whole history."""

    deeds: Deeds
    rows: Ints


@dataclass(slots=True, kw_only=True)
class _Joined:
    """The state of joining: everything that was joined so far.

    Attributes:
        open: The open op of each process.
        retired: Processes that must not begin another op.
        entries, rows: The number of entries and of rows so far.
        words: A number for each `f` of ops.
        ops: Columns of ops as in `Columns`: one tuple for each stretch, and at last one tuple for
            the ops that never ended.
        parts: The effects of the ops.
    """

    open: dict[int, Begun] = field(default_factory=dict)
    retired: set[int] = field(default_factory=set)
    entries: int = 0
    rows: int = 0
    words: dict[str, int] = field(default_factory=dict)
    ops: list[tuple[Ints, ...]] = field(default_factory=list)
    parts: list[_Part] = field(default_factory=list)


def joined(stretches: Sequence[Stretch], words: Words) -> Columns:
    """Return the columns of a history.

    Args:
        stretches: All stretches of the file, in order.
        words: The spelling of keys in the file's format.

    Raises:
        IrregularError, TypeError, ...: The joined stretches are not regular
            (`recording.MISSHAPED`).
    """
    whole = _Joined()
    for stretch in stretches:
        _add(whole, stretch, words)
    _close(whole)
    places, numbers = _places(whole.parts)
    sent = _stacked([(part.deeds.sent, part.rows, at) for part, at in numbers])
    polled = _stacked([(part.deeds.polled, part.rows, at) for part, at in numbers])
    records = tuple(stack([part.deeds.records[side] for part in whole.parts]) for side in (0, 1))
    begun, process, f, ended, outcome = (stack(each) for each in zip(*whole.ops, strict=True))
    return Columns(
        times=stack([each.times for each in stretches]),
        indexes=_indexes(stretches),
        begun=begun, process=process, f=f, ended=ended, outcome=outcome,
        words=tuple(whole.words),
        sent=sent,
        polled=(*polled, np.cumsum(polled[-1]) - polled[-1]),
        records=(records[0], records[1]),
        moves=(*_moves(numbers, process, (sent, polled)), *_turned(numbers)),
        places=places,
    )  # fmt: skip


def _add(whole: _Joined, stretch: Stretch, words: Words) -> None:
    """Add a stretch. The stretch may end ops of earlier stretches, and may begin new ops."""
    begun, process, f, ended, outcome = (each.copy() for each in stretch.ops)
    mine = begun != NONE
    number = np.array([_number(whole, word) for word in stretch.words], np.int64)
    begun[mine] += whole.entries
    f[mine] = number[f[mine]]
    did, rows = Collected(), [each.row for each in stretch.ended]
    for at, each in enumerate(stretch.ended):
        if each.process not in whole.open:
            raise IrregularError
        of = whole.open.pop(each.process)
        begun[each.row], f[each.row] = of.at, _number(whole, of.f)
        did.ended(at, of.f, of.value, outcome=each.outcome, entry=each.entry, words=words)
    if stretch.fresh & (whole.open.keys() | whole.retired):
        raise IrregularError
    whole.ops.append((begun, process, f, ended + whole.entries, outcome))
    whole.parts += [
        _Part(deeds=did.deeds(), rows=np.array(rows, np.int64) + whole.rows),
        _Part(deeds=stretch.deeds, rows=np.arange(len(begun)) + whole.rows),
    ]
    for left in stretch.begun:
        whole.open[left.process] = Begun(
            process=left.process, at=left.at + whole.entries, f=left.f, value=left.value
        )
    whole.retired |= stretch.retired
    whole.entries += len(stretch.times)
    whole.rows += len(begun)


def _close(whole: _Joined) -> None:
    """Give the outcome `info` to the ops that are still open at the end."""
    did, left = Collected(), list(whole.open.values())
    for row, of in enumerate(left):
        did.did(row, of.f, of.value, _INFO)
    columns = [[of.at for of in left], [of.process for of in left],
               [_number(whole, of.f) for of in left], [NONE] * len(left),
               [_INFO] * len(left)]  # fmt: skip
    whole.ops.append(tuple(np.array(each, np.int64) for each in columns))
    whole.parts.append(_Part(deeds=did.deeds(), rows=np.arange(len(left)) + whole.rows))


def _number(whole: _Joined, word: str) -> int:
    return whole.words.setdefault(word, len(whole.words))


def _places(parts: Sequence[_Part]) -> tuple[tuple[Place, ...], list[tuple[_Part, Ints]]]:
    """Return all places in order of appearance, and each part with the numbers of its places."""
    came = sorted(
        (int(part.rows[row]), at, place)
        for part in parts
        for at, (place, row) in enumerate(
            zip(part.deeds.places, part.deeds.first_rows, strict=True)
        )
    )
    numbers = {place: at for at, place in enumerate(dict.fromkeys(place for *_, place in came))}
    of = [np.array([numbers[place] for place in part.deeds.places], np.int64) for part in parts]
    return tuple(numbers), list(zip(parts, of, strict=True))


def _stacked(parts: Sequence[tuple[tuple[Ints, ...], Ints, Ints]]) -> tuple[Ints, ...]:
    """Return the columns (row, mop, place, ...) of all parts, numbered as in the whole history."""
    columns = [
        (rows[row], mop, numbers[place], *rest) for (row, mop, place, *rest), rows, numbers in parts
    ]
    return tuple(stack(each) for each in zip(*columns, strict=True))


def _indexes(stretches: Sequence[Stretch]) -> Ints | None:
    known = [each.indexes for each in stretches if each.indexes is not None]
    return stack(known) if len(known) == len(stretches) else None


def _turned(parts: Sequence[tuple[_Part, Ints]]) -> Iterator[tuple[int, int, str]]:
    for part, numbers in parts:
        for row, place in part.deeds.turned:
            yield int(part.rows[row]), int(numbers[place]), REBALANCES[0]


def _moves(
    parts: Sequence[tuple[_Part, Ints]], process: Ints, deeds: Sequence[tuple[Ints, ...]]
) -> Iterator[tuple[int, int, str]]:
    """Yield the rows of assignments. Each assignment replaces the earlier one of its process."""
    told = sorted(
        (int(part.rows[row]), f, {int(numbers[place]) for place in places})
        for part, numbers in parts
        for row, f, places in part.deeds.moves
    )
    met = _met(np.array([row for row, *_ in told], np.int64), process, deeds)
    before: dict[int, set[int]] = {}
    for (row, f, places), among in zip(told, met, strict=True):
        yield from moved(row, f, places, met=among, before=before.get(int(process[row])))
        before[int(process[row])] = places


def _met(rows: Ints, process: Ints, deeds: Sequence[tuple[Ints, ...]]) -> list[set[int]]:
    """Return, for each assignment, the places that its process used since the assignment before."""
    if not len(rows):
        return []
    touched, places = (stack([columns[side] for columns in deeds]) for side in (0, 2))
    _, number = np.unique(process, return_inverse=True)
    key = number * len(process)
    moves = np.sort(key[rows] + rows)
    at = np.searchsorted(moves, key[touched] + touched)
    ours = at < len(moves)
    ours[ours] = moves[at[ours]] // len(process) == number[touched[ours]]
    met: dict[int, set[int]] = {int(move) % len(process): set() for move in moves}
    width = int(places.max(initial=0)) + 1
    for pair in distinct(np.sort(at[ours] * width + places[ours])).tolist():
        met[int(moves[pair // width]) % len(process)].add(pair % width)
    return [met[row] for row in rows.tolist()]
