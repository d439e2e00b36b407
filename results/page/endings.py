"""The fate of each message of a scripted run: which replicas have it, and whether it is read."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from results.page.changes import listed
from results.page.scenes import Place, Scene
from results.record.contents import message_name
from results.record.terms import Phase
from results.record.values import SEQUENCE_BITS, partition_number_of
from results.tables import RunTables

_FIRST_PARTITION = 1 << SEQUENCE_BITS
_NAMED = 4
"""If there are at most this many messages, each message is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of one scripted run.

    Attributes:
        acknowledged: Sequence numbers of the acknowledged messages.
        unanswered: Sequence numbers of the messages that were sent but never acknowledged.
        holders: For each sequence number, the replicas that have the message and the offsets, as
            text.
        read: Names of the messages that the last reader got, in order; None if there was no reader.
    """

    acknowledged: frozenset[int]
    unanswered: frozenset[int]
    holders: Mapping[int, str]
    read: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One row of the table: messages with the same fate.

    Attributes:
        name: `message2`, or `message1 … message100`.
        cells: For each run: (fate as text, whether the message was acknowledged and is lost).
    """

    name: str
    cells: tuple[tuple[str, bool], ...]


def ending_of(tables: RunTables, scenes: Sequence[Scene], *, place: Place) -> Ending:
    """Return which messages were acknowledged, and which were stored and read at the end."""
    here = (pc.field("topic") == place.topic) & (pc.field("partition") == place.partition)
    sent: dict[int, bool] = {}
    read = _read(tables, place)
    if not _looked(scenes):
        return Ending(acknowledged=frozenset(), unanswered=frozenset(), holders={}, read=read)
    for row in tables.record("sends", filters=here).to_pylist():
        if _is_message(row["value"]):
            sequence = row["value"] - _FIRST_PARTITION
            sent[sequence] = sent.get(sequence, False) or bool(row["acked"])
    return Ending(
        acknowledged=frozenset(each for each, acked in sent.items() if acked),
        unanswered=frozenset(each for each, acked in sent.items() if not acked),
        holders=_holders(scenes[-1], sent) if scenes else {},
        read=read,
    )


def fates(endings: Sequence[Ending]) -> list[Fate]:
    """Return the fate of each message in each run; neighbours with the same fate share a row."""
    sequences = sorted(set().union(*(each.acknowledged | each.unanswered for each in endings)))
    told = [(each, tuple(_cell(ending, each) for ending in endings)) for each in sequences]
    rows = []
    for cells, group in itertools.groupby(told, key=lambda row: tuple(_kind(c) for c in row[1])):
        members = list(group)
        first, last = members[0], members[-1]
        name = f"message{first[0]}"
        if len(members) == 1:
            rows.append(Fate(name=name, cells=first[1]))
        else:
            between = "and" if len(members) == 2 else "…"  # noqa: PLR2004 - a pair
            rows.append(Fate(name=f"{name} {between} message{last[0]}", cells=cells))
    return rows


def lost_under_all(endings: Sequence[Ending]) -> list[str]:
    """Return the messages that every run acknowledged and every run lost."""
    acknowledged = frozenset.intersection(*(each.acknowledged for each in endings))
    lost = [each for each in sorted(acknowledged) if all(_cell(end, each)[1] for end in endings)]
    return [f"message{each}" for each in lost]


def in_short(names: Sequence[str]) -> list[str]:
    """Return the names, but many consecutive names as a range: `message1 … message100`."""
    told: list[str] = []
    numbered = enumerate(names)
    for _, group in itertools.groupby(numbered, key=lambda each: _number(each[1]) - each[0]):
        members = [name for _, name in group]
        whole = len(members) <= _NAMED
        told += members if whole else [f"{members[0]} … {members[-1]}"]
    return told


def _number(name: str) -> int:
    """Return the number in a message's name; 0 if the name is not a message of the scenario."""
    digits = name.removeprefix("message")
    return int(digits) if digits != name and digits.isdecimal() else 0


def _looked(scenes: Sequence[Scene]) -> bool:
    """Return whether the run's logs have messages. A scenario of the controller quorum has none."""
    runs = [run for scene in scenes for each in scene.replicas for run in each.log.runs]
    return any(run.number is not None for run in runs)


def _holders(scene: Scene, sequences: Iterable[int]) -> dict[int, str]:
    held = {}
    for sequence in sequences:
        places: dict[int, list[str]] = {}
        for replica in scene.replicas:
            for run in replica.log.runs:
                if run.number is None or not 0 <= sequence - run.number <= run.last - run.first:
                    continue
                offset = run.first + sequence - run.number
                places.setdefault(offset, []).append(replica.called)
        if places:
            held[sequence] = "; ".join(
                f"{listed(who)} at offset {offset}" for offset, who in places.items()
            )
    return held


def _read(tables: RunTables, place: Place) -> tuple[str, ...] | None:
    here = (pc.field("topic") == place.topic) & (pc.field("partition") == place.partition)
    rows = tables.record(
        "polls", filters=here & (pc.field("phase") == Phase.FINAL.value)
    ).to_pylist()
    values = {row["offset"]: row["value"] for row in rows}
    read = [values[offset] for offset in sorted(values)]
    named = [message_name(each) if _is_message(each) else str(each) for each in read]
    return tuple(named) if rows else None


def _is_message(value: int | None) -> bool:
    return value is not None and partition_number_of(value) == 1


def _cell(ending: Ending, sequence: int) -> tuple[str, bool]:
    if sequence not in ending.acknowledged | ending.unanswered:
        return "not sent", False
    held = ending.holders.get(sequence)
    gone = not held if ending.read is None else f"message{sequence}" not in ending.read
    where = f"held by {held}" if held else "held by no replica"
    if sequence not in ending.acknowledged:
        return f"not acknowledged; {where}", False
    if gone:
        unread = ", but no reader gets the message" if held else ""
        return f"acknowledged but lost: {where}{unread}", True
    return f"acknowledged; {where if held else 'readers get the message'}", False


def _kind(cell: tuple[str, bool]) -> tuple[str, bool]:
    """Return a cell without its offset, so that cells of several messages can be compared."""
    return "; ".join(part.partition(" at offset ")[0] for part in cell[0].split("; ")), cell[1]
