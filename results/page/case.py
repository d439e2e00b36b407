"""Read the facts about the main anomaly: its operations, replicas, leaders and ISR over time.

The main anomaly is the example that shows the failure best. The code calls this example the
witness. Only rows of the main anomaly's partition are read, so the cost does not grow with the
run's size.
"""

import functools
import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from results.page.holdings import Holding, holdings
from results.page.replicas import is_place_of, is_unicode, place_of
from results.record.terms import Outcome
from results.record.verdict import Example
from results.tables import RunTables

MAX_ROWS = 20_000
"""Maximum number of rows read from a table; later rows are left out."""
_MAX_IDS = 12
_MAX_VALUES = 4
_OPS = ("op_id", "send_op_ids", "poll_op_ids", "previous_op_id", "earlier_op_id")
_VALUES = ("value", "values", "earlier_value", "previous_value", "polled_values")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """An observation of a replica: time, log end offset and, if known, high watermark."""

    at_ns: int
    end: int
    high_watermark: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reign:
    """A period in which a broker was observed as leader of a partition. -1 means no leader."""

    from_ns: int
    to_ns: int
    leader: int
    epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The record's facts about the main anomaly.

    Attributes:
        example: The main anomaly.
        values: The numbers (values) of the messages that the main anomaly is about, beginning with
            its own message.
        sends, polls: Rows of related sends and polls, in order of time. These rows are at the main
            anomaly's offset, have one of `values`, or are named in the anomaly's evidence. `sends`
            also has the sends that failed while the partition was unavailable.
        looks: Observations of each replica, in order of time.
        reigns: Periods of leadership, in order of time.
        isr: (time, brokers) for each observed change of the ISR.
        truncations: All truncations of the main anomaly's partition, because any of them may
            explain an observation.
        held: The final content of each replica's log at the main anomaly's offset.
    """

    example: Example
    values: tuple[int, ...]
    sends: tuple[Row, ...]
    polls: tuple[Row, ...]
    looks: Mapping[str, tuple[Look, ...]]
    reigns: tuple[Reign, ...]
    isr: tuple[tuple[int, tuple[int, ...]], ...]
    truncations: tuple[Row, ...]
    held: Mapping[str, Holding]

    @property
    def offset(self) -> int:
        """The main anomaly's offset; -1 if it has none."""
        return self.example.offset

    @property
    def place(self) -> str:
        """The main anomaly's partition as text: `log-0-1`."""
        return f"{self.example.topic}-{self.example.partition}"


def case_of(tables: RunTables, example: Example) -> Case:
    """Return the record's facts about an example of an anomaly."""
    values = tuple(dict.fromkeys(_numbers(example, _VALUES)))[:_MAX_VALUES]
    placed = bool(example.topic) and is_unicode(example.topic + example.topic_id)
    ours = place_of(example) if placed else None
    concerned = _concerned(example, values)
    looks, isr = _looks(tables, ours), tuple(_isr(tables, ours))
    return Case(
        example=example,
        values=values,
        sends=_rows(tables, "sends", ours, _either(concerned, _in_vain(example)), by="invoke_ns"),
        polls=_rows(tables, "polls", ours, concerned, by="complete_ns"),
        looks=looks,
        reigns=_reigns(tables, example) if placed else (),
        isr=isr,
        truncations=_truncations(tables, ours),
        held=_held(tables, ours, example.offset, members=_members(looks, isr)),
    )


def _numbers(example: Example, keys: Iterable[str]) -> Iterator[int]:
    for key in keys:
        found = example.evidence.get(key)
        for each in found if isinstance(found, list) else [found]:
            if isinstance(each, int) and not isinstance(each, bool):
                yield each


def _concerned(example: Example, values: Sequence[int]) -> pc.Expression | None:
    parts = [pc.field("offset") == example.offset] if example.offset >= 0 else []
    if values:
        parts.append(pc.field("value").isin(list(values)))
    if ops := list(_numbers(example, _OPS))[:_MAX_IDS]:
        parts.append(pc.field("op_id").isin(ops))
    return _either(*parts)


def _in_vain(example: Example) -> pc.Expression | None:
    """Return a filter for sends that failed while the main anomaly's partition was unavailable."""
    begin, end = example.evidence.get("from_ns"), example.evidence.get("to_ns")
    if not (isinstance(begin, int) and isinstance(end, int)):
        return None
    during = (pc.field("invoke_ns") >= begin) & (pc.field("invoke_ns") <= end)
    return during & (pc.field("outcome") != Outcome.OK.value)


def _either(*parts: pc.Expression | None) -> pc.Expression | None:
    known = [part for part in parts if part is not None]
    return functools.reduce(operator.or_, known) if known else None


def _rows(
    tables: RunTables,
    name: str,
    ours: pc.Expression | None,
    concerned: pc.Expression | None,
    *,
    by: str,
) -> tuple[Row, ...]:
    if ours is None or concerned is None:
        return ()
    table = tables.record(name, filters=ours & concerned)
    return tuple(table.sort_by(by).slice(0, MAX_ROWS).to_pylist())


def _looks(tables: RunTables, ours: pc.Expression | None) -> dict[str, tuple[Look, ...]]:
    if ours is None:
        return {}
    seen = tables.record("replica_states", filters=ours & pc.field("observed_ns").is_valid())
    looks: dict[str, list[Look]] = defaultdict(list)
    names = ["node", "observed_ns", "log_end_offset", "high_watermark", "high_watermark_source"]
    for row in seen.select(names).sort_by("observed_ns").to_pylist():
        if row["log_end_offset"] is not None:
            # A checkpoint file may be seconds old, so it is not an observation of the replica.
            told = row["high_watermark"] if row["high_watermark_source"] == "fetch" else None
            look = Look(at_ns=row["observed_ns"], end=row["log_end_offset"], high_watermark=told)
            looks[str(row["node"])].append(look)
    return {node: tuple(mine) for node, mine in sorted(looks.items())}


def _reigns(tables: RunTables, example: Example) -> tuple[Reign, ...]:
    rows = [
        row
        for row in tables.statistics("leaders").to_pylist()
        if is_place_of(example, row) and row["from_ns"] is not None
    ]
    rows.sort(key=lambda row: row["from_ns"])
    return tuple(
        Reign(
            from_ns=row["from_ns"],
            to_ns=row["from_ns"] if row["to_ns"] is None else row["to_ns"],
            leader=-1 if row["leader"] is None else row["leader"],
            epoch=row["leader_epoch"],
        )
        for row in rows
    )


def _isr(tables: RunTables, ours: pc.Expression | None) -> Iterator[tuple[int, tuple[int, ...]]]:
    if ours is None:
        return
    told = ours & pc.field("isr").is_valid() & pc.field("observed_ns").is_valid()
    rows = tables.record("leadership", filters=told)
    # A broker that is cut off reports an old state, so older epochs are skipped.
    newest, before = -1, None
    for row in (
        rows.select(["observed_ns", "leader_epoch", "isr"]).sort_by("observed_ns").to_pylist()
    ):
        epoch = -1 if row["leader_epoch"] is None else row["leader_epoch"]
        isr = tuple(sorted(row["isr"]))
        if epoch >= newest and isr != before:
            newest, before = epoch, isr
            yield row["observed_ns"], isr


def _truncations(tables: RunTables, ours: pc.Expression | None) -> tuple[Row, ...]:
    if ours is None:
        return ()
    return tuple(tables.record("truncations", filters=ours).slice(0, MAX_ROWS).to_pylist())


def _members(looks: Iterable[str], isr: Iterable[tuple[int, tuple[int, ...]]]) -> frozenset[str]:
    """Return the nodes that had a replica, according to observations and the ISR."""
    return frozenset({*looks, *(f"n{each}" for _, brokers in isr for each in brokers)})


def _held(
    tables: RunTables, ours: pc.Expression | None, offset: int, *, members: frozenset[str]
) -> dict[str, Holding]:
    if ours is None or offset < 0:
        return {}
    return holdings(tables, ours, offset, expected=members)
