"""What the ops of a history did, as the tables of our record.

Each op that sends is one transaction, whatever its `f`: its outcome is that of all its sends, as
Jepsen has it. Polls are `read_committed`. A key is a partition: the key 5 is partition 5 of a topic
`key`, any other key a topic of its own, named as it was written. Values that are integers from 0 to
2^62 stay as they are; others are numbered from there on, and `History.names` tells them.

An op's id is the index of its invocation, as the history has it; if its entries have none, or such
as do not grow, it is the place of the invocation among the entries of clients, from 0. Times keep
the order of entries: no entry is earlier than the one before it, nor at the same time (those of one
nanosecond are moved apart). So what real time says is what the order of entries says, as Jepsen
takes it.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from checkers.histories.tables import History, Place, Rows, history_of
from checkers.positions import LEFT_OUT, REBALANCES, SUBSCRIBE
from results.record.terms import F, Outcome

TOPIC = "key"
"""Of all keys that are numbers."""
_MAX_PARTITION = 2**31 - 1
_SEND = frozenset({"send", ":send"})
_POLL = frozenset({"poll", ":poll"})
_PAIR = 2
_PARTED = frozenset({F.SEND.value, F.POLL.value, F.TXN.value})


class Columns:
    """Collects what the ops of a history did, and makes the tables of it at the end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows = Rows()
        self._numbers: dict[object, int] = {}
        self._met: dict[int, set[int]] = {}
        self._assigned: dict[int, set[int]] = {}

    def entry(self, time_ns: int, index: object) -> int:
        """Take the time and index of the next entry; return its place among them."""
        self._rows.times.append(time_ns)
        self._rows.indexes.append(index)
        return len(self._rows.times) - 1

    def op(
        self, begun: int, *, process: int, f: str, ended: int, outcome: Outcome, where: str
    ) -> int:
        """Take an op, by the places of its entries (ended: -1 if it is open); return its row."""
        self._rows.ops.append((begun, process, f, ended, outcome))
        self._rows.wheres.append(where)
        return len(self._rows.ops) - 1

    def history(self) -> History:
        """Return the history of all that was taken.

        Raises:
            HistoryError: An offset is no number, or a key was sent one value twice.
        """
        return history_of(self._name, self._rows)

    def did(self, row: int, process: int, f: str, value: Any) -> None:  # noqa: ANN401 - as in the file
        """Take what an op did.

        Raises:
            TypeError, ValueError, AttributeError, IndexError: Its value has no such shape.
        """
        if f in _PARTED:
            met = self._met.setdefault(process, set())
            for mop, part in enumerate(value or ()):
                if part[0] in _SEND:
                    self._send(row, mop, part, met)
                elif part[0] in _POLL:
                    self._poll(row, mop, part, met)
                else:
                    raise ValueError("a part of an op sends or polls")
        elif f in (F.ASSIGN, F.SUBSCRIBE) and self._rows.ops[row][-1] is not Outcome.FAIL:
            self._move(row, process, f, {self._place(key) for key in value})

    def rebalanced(self, row: int, keys: Iterable[object]) -> None:
        """Take the keys that were assigned anew, or taken away, while an op was under way."""
        self._rows.moves += [(row, place, REBALANCES[0]) for place in map(self._place, keys)]

    def _send(self, row: int, mop: int, part: Sequence[Any], met: set[int]) -> None:
        _, key, said = part
        place = self._numbers.get(key)
        if place is None:
            place = self._place(key)
        met.add(place)
        told = isinstance(said, list | tuple) and len(said) == _PAIR
        offset, value = said if told else (None, said)
        self._rows.sends.append((row, mop, place, offset, value))

    def _poll(self, row: int, mop: int, part: Sequence[Any], met: set[int]) -> None:
        if len(part) < _PAIR or not part[1]:
            return
        pos = 0
        for key, records in part[1].items():
            place = self._numbers.get(key)
            if place is None:
                place = self._place(key)
            if not isinstance(records, list | tuple) or set(map(len, records)) - {_PAIR}:
                raise ValueError("a poll returned other things than pairs of offset and value")
            met.add(place)
            self._rows.polls.append((row, mop, place, pos, len(records)))
            self._rows.polled.extend(chain.from_iterable(records))
            pos += len(records)

    def _move(self, row: int, process: int, f: str, places: set[int]) -> None:
        """An assignment in place of the former: a key that is kept goes on where it was.

        Where another one starts (where the group committed, at the beginning) no history tells, so
        that it is put down as what it is: a subscription, which may start anywhere.
        """
        before = self._assigned.get(process, set())
        fresh = places - before if f == F.ASSIGN else places
        left_out = (self._met.get(process, set()) | before) - places
        self._rows.moves += [(row, place, SUBSCRIBE) for place in sorted(fresh)]
        self._rows.moves += [(row, place, LEFT_OUT) for place in sorted(left_out)]
        self._assigned[process] = places
        self._met[process] = set()

    def _place(self, key: object) -> int:
        """Return the number of a key; JSON has the names of keys in a poll's map as strings."""
        if isinstance(key, bool | float | list | dict | None):
            raise TypeError("a key is a number or a word")
        text = str(key)
        number = int(text) if text.isdecimal() else -1
        ordinary = 0 <= number <= _MAX_PARTITION
        place: Place = (TOPIC, number) if ordinary else (text if text != TOPIC else f"'{text}'", 0)
        self._numbers[key] = self._rows.places.setdefault(place, len(self._rows.places))
        return self._numbers[key]
