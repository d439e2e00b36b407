"""The recent rows of a run in progress.

These rows may still show a new anomaly. The window of each partition begins at an offset, its low
end. Rows of lower offsets are dropped. The low end moves above a record when three conditions
hold: the record is old, every replica has it, and the last leader reported it as committed. Other
records stay. If too many records stay, the oldest records are dropped. Then only the final judge
checks these records.

The rows come from the live streams. Each pass completes these rows as `ingest` completes the rows
of a finished run. An operation that has not ended is open, and its sends count as `info`.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pyarrow as pa

from checkers.columns import (
    Ints,
    Mask,
    codes,
    equal,
    ints,
    joined,
    present,
    select,
    stack,
    texts,
)
from checkers.facts import FINAL
from checkers.ingest import Tables, completed, with_topic_ids
from checkers.layout import Place, split
from checkers.live.history import thinned
from results.record.clock import NS_PER_S
from results.record.plan import Plan
from results.record.tables import LIVE
from results.record.terms import Source
from results.record.topics import CreatedTopic

STREAMS = (
    "op_invocations", "op_completions", "send_invocations", "send_completions", "polled",
    "leadership", "replica_states", "faults",
)  # fmt: skip
"""The live streams that the checks need during the run."""
KEEP_NS = 15 * NS_PER_S
"""The minimum time for which rows stay in the window, unless there are too many rows."""
HISTORY_NS = 300 * NS_PER_S
"""Older answers of observers are reduced to the first answer of each series."""
ROOM_S = 30
"""A send without an answer stays for its delivery timeout plus this many seconds."""
MOST_OFFSETS = 12_000
"""The approximate maximum number of offsets in the window, over all partitions."""
LEAST_OFFSETS = 200
_OBSERVED = ("leadership", "replica_states", "replica_records")
_GIVEN = ("partition", "offset", "value")
_OF_OPS = ("op_invocations", "op_completions", "send_invocations", "send_completions", "polled")

_RECORDS = pa.schema(
    [each for each in LIVE["replica_records"] if not pa.types.is_string(each.type)]
).remove(0)
"""The columns of `replica_records`, without the columns that name the replica."""

TopicPartition = tuple[str, int]


@dataclass(slots=True, kw_only=True)
class Copy:
    """The records of a replica's log, from the window's low end on.

    Attributes:
        rows: Rows of `replica_records` by offset, without the columns that name the replica.
        start: The log's start offset.
        end: The offset after the last record that was read.
        whole: Whether the log was read to its end, without an unreadable record.
    """

    rows: pa.Table = field(default_factory=_RECORDS.empty_table)
    start: int = 0
    end: int = 0
    whole: bool = False


class Window:
    """The recent rows of a run in progress, and the records of its replicas' logs.

    Args:
        plan: The run's plan.
        topics: The topics that the run created.

    Attributes:
        low: The low end of each partition.
        copies: The records of each replica, by partition and node.
    """

    def __init__(self, plan: Plan, topics: Sequence[CreatedTopic]) -> None:
        self._plan = plan
        self._ids = {each.topic: each.topic_id for each in topics}
        self._streams: dict[str, Tables] = {}
        self._whole: dict[str, Tables] = {}
        self._given: dict[str, set[Hashable]] = {}
        self._open_ns = round((plan.delivery_timeout_s + ROOM_S) * NS_PER_S)
        self.low: dict[TopicPartition, int] = dict.fromkeys(plan.topic_partitions, 0)
        self.copies: dict[TopicPartition, dict[str, Copy]] = {
            place: {} for place in plan.topic_partitions
        }

    @property
    def rows(self) -> int:
        """The number of rows that the window holds."""
        streams = sum(t.num_rows for tables in self._streams.values() for t in tables.values())
        copies = sum(c.rows.num_rows for held in self.copies.values() for c in held.values())
        return streams + copies

    @property
    def faults(self) -> pa.Table:
        """The faults so far, each with the last row that was written about it."""
        told = [tables["faults"] for tables in self._streams.values() if "faults" in tables]
        return completed({"faults": joined(told)} if told else {})["faults"]

    def add(self, writer: str, table: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Append new rows of a live stream to the window."""
        new = pa.Table.from_batches([*batches], schema=LIVE[table])
        if table == "polled" and not self._plan.transactional:
            new = self._fresh(writer, new)
        if new.num_rows:
            held = self._streams.setdefault(writer, {})
            held[table] = joined([held[table], new] if table in held else [new])

    def _fresh(self, writer: str, polled: pa.Table) -> pa.Table:
        """Return the polled records that no client of this writer had received before.

        A record that is received again proves nothing.
        """
        given = self._given.setdefault(writer, set())
        columns = [texts(polled, "topic"), *(ints(polled, name).tolist() for name in _GIVEN)]
        fresh = np.zeros(polled.num_rows, dtype=np.bool_)
        for at, row in enumerate(zip(*columns, strict=True)):
            if row not in given:
                given.add(row)
                fresh[at] = True
        return select(polled, fresh)

    def store(
        self, place: TopicPartition, node: str, rows: pa.Table | None, *, cut: int | None
    ) -> Copy:
        """Add newly read records to the copy of a replica's log, and return the copy.

        The caller sets the start and end of the returned copy.

        Args:
            place: The partition.
            node: The node that holds the log.
            rows: Rows of `replica_records`, by offset. None if they could not be read.
            cut: The new records replace all records of the copy from this offset on. None means
                that the new records follow the records of the copy.
        """
        copy = self.copies[place].setdefault(node, Copy())
        if cut is not None and copy.rows.num_rows:
            copy.rows = select(copy.rows, ints(copy.rows, "offset") < cut)
        if rows is not None and rows.num_rows:
            new = rows.select(_RECORDS.names)
            copy.rows = pa.concat_tables([copy.rows, new]).combine_chunks()
        copy.rows = _from(copy.rows, self.low[place])
        return copy

    def tables(self) -> dict[TopicPartition, Tables]:
        """Return each partition's rows as if the run ended now, without the replicas' logs."""
        self._whole = {
            writer: completed({name: streams[name] for name in _OF_OPS if name in streams})
            for writer, streams in self._streams.items()
            if "op_invocations" in streams
        }
        parts = [*self._whole.values(), *self._streams.values()]
        found: dict[TopicPartition, Tables] = {place: {} for place in self.low}
        for name in ("sends", "polls", "leadership", "replica_states"):
            held = [part[name] for part in parts if name in part and part[name].num_rows]
            for (topic, _, partition), rows in _split(name, held, self._ids):
                if (topic, partition) in found:
                    found[topic, partition][name] = rows
        for place, tables in found.items():
            for name in ("sends", "polls"):
                if name in tables:
                    offsets = ints(tables[name], "offset")
                    tables[name] = select(
                        tables[name], (offsets < 0) | (offsets >= self.low[place])
                    )
        return found

    def logs_are_whole(self, place: TopicPartition) -> bool:
        """Return whether the logs of all replicas of a partition were read to their ends."""
        copies = self.copies[place].values()
        return len(copies) >= self._plan.replication and all(copy.whole for copy in copies)

    def held(self, place: TopicPartition) -> Ints:
        """Return the values that at least one replica of a partition holds."""
        return stack([ints(copy.rows, "value") for copy in self.copies[place].values()])

    def differ(self, place: TopicPartition) -> bool:
        """Return whether two replicas of a partition hold different records.

        Offsets after the last record of either log are not compared.
        """
        copies = [copy.rows for copy in self.copies[place].values()]
        return any(_differ(one, other) for one, other in combinations(copies, 2))

    def logs(self, place: TopicPartition, told: pa.Table) -> Tables:
        """Return the rows of a partition's replica logs as if the brokers had stopped now.

        Args:
            place: The partition.
            told: The partition's rows of `replica_states`, read before the logs.
        """
        held = self.copies[place]
        records = [
            _named(copy.rows, topic=place[0], partition=place[1], snapshot=FINAL, node=node)
            for node, copy in sorted(held.items())
        ]
        states = [self._state(place, node, copy, told) for node, copy in sorted(held.items())]
        stated = pa.Table.from_pylist(states, schema=LIVE["replica_states"])
        known = {topic: self._ids[topic] for topic in [place[0]] if topic in self._ids}
        return {
            "replica_records": with_topic_ids(
                joined(records or [LIVE["replica_records"].empty_table()]), known
            ),
            "replica_states": with_topic_ids(joined([stated]), known),
        }

    def _state(
        self, place: TopicPartition, node: str, copy: Copy, told: pa.Table
    ) -> dict[str, object]:
        mine = select(told, equal(told, "node", node)) if told.num_rows else told
        marks = ints(mine, "high_watermark") if mine.num_rows else np.array([-1])
        mark = int(marks[np.argmax(ints(mine, "observed_ns"))]) if mine.num_rows else -1
        return {
            "topic": place[0],
            "topic_id": self._ids.get(place[0]),
            "partition": place[1],
            "snapshot": FINAL,
            "node": node,
            "log_start_offset": copy.start,
            "log_end_offset": copy.end,
            # Records below it never change. But the log may have been truncated since the report.
            "high_watermark": min(mark, copy.end) if mark >= 0 else None,
            "high_watermark_source": "fetch" if mark >= 0 else None,
        }

    def slide(self, now_ns: int, tables: Mapping[TopicPartition, Tables]) -> None:
        """Drop the rows that can no longer show a new anomaly.

        Args:
            now_ns: Nanoseconds since the run's start.
            tables: The result of `tables` in this pass. The pass has judged all these rows.
        """
        for place in self.low:
            self.low[place] = max(self.low[place], self._low(place, now_ns, tables[place]))
            for copy in self.copies[place].values():
                copy.rows = _from(copy.rows, self.low[place])
        for writer, streams in self._streams.items():
            if writer in self._whole:
                self._forget_ops(writer, now_ns)
            for name in ("leadership", "replica_states"):
                if name in streams:
                    streams[name] = thinned(
                        name,
                        streams[name],
                        fresh_ns=now_ns - KEEP_NS,
                        old_ns=now_ns - HISTORY_NS,
                    )

    def _low(self, place: TopicPartition, now_ns: int, tables: Tables) -> int:
        ends = [copy.end for copy in self.copies[place].values()]
        known = min(ends) if len(ends) >= self._plan.replication else 0
        if "leadership" in tables:
            known = min(known, _committed(tables["leadership"]))
        if "sends" in tables:
            sends = tables["sends"]
            fresh = (ints(sends, "invoke_ns") >= now_ns - KEEP_NS) & (ints(sends, "offset") >= 0)
            known = min(known, int(ints(sends, "offset")[fresh].min(initial=known)))
        room = max(LEAST_OFFSETS, MOST_OFFSETS // max(1, len(self.low)))
        return max(known, max(ends, default=0) - room)

    def _forget_ops(self, writer: str, now_ns: int) -> None:
        """Drop a writer's ops, except ops with a row in the window, and recent unanswered ops."""
        streams, whole = self._streams[writer], self._whole[writer]
        ops, sends, polls = whole["ops"], whole["sends"], whole["polls"]
        waits = (ints(sends, "offset") < 0) & (ints(sends, "invoke_ns") >= now_ns - self._open_ns)
        is_open = ~present(ops, "complete_ns") & (ints(ops, "invoke_ns") >= now_ns - self._open_ns)
        kept = np.unique(
            stack([
                ints(sends, "op_id")[waits | self._inside(sends)],
                ints(polls, "op_id")[self._inside(polls)],
                ints(ops, "op_id")[is_open],
            ])
        )  # fmt: skip
        for name in _OF_OPS:
            if name in streams:
                streams[name] = select(streams[name], np.isin(ints(streams[name], "op_id"), kept))
        if "polled" in streams:
            polled = select(streams["polled"], self._inside(streams["polled"]))
            streams["polled"] = polled
            columns = [texts(polled, "topic"), *(ints(polled, name).tolist() for name in _GIVEN)]
            self._given[writer] = {*zip(*columns, strict=True)}

    def _inside(self, rows: pa.Table) -> Mask:
        """Return a mask of the rows at or above the low end of their partition."""
        topic, topics = codes(rows, "topic")
        partition, low = ints(rows, "partition"), np.zeros(rows.num_rows, dtype=np.int64)
        for (name, number), end in self.low.items():
            if name in topics and end:
                low[(topic == topics.index(name)) & (partition == number)] = end
        offsets = ints(rows, "offset")
        return np.asarray((offsets >= 0) & (offsets >= low), dtype=np.bool_)


def _split(
    name: str, held: Sequence[pa.Table], ids: Mapping[str, str]
) -> Iterable[tuple[Place, pa.Table]]:
    if not held:
        return ()
    table = joined(held)
    return split(with_topic_ids(table, ids) if name in _OBSERVED else table)


def _named(rows: pa.Table, **names: object) -> pa.Table:
    """Return a replica's rows, with additional columns that name the replica."""
    columns = [
        rows[each.name]
        if each.name in rows.column_names
        else pa.repeat(pa.scalar(names.get(each.name), each.type), rows.num_rows)
        for each in LIVE["replica_records"]
    ]
    return pa.table(columns, schema=LIVE["replica_records"])


def _from(rows: pa.Table, low: int) -> pa.Table:
    """Return a replica's rows from an offset on."""
    offsets = ints(rows, "offset")
    return rows if not len(offsets) or offsets[0] >= low else select(rows, offsets >= low)


def _differ(one: pa.Table, other: pa.Table) -> bool:
    """Return whether the rows of two replicas differ up to the end of the shorter log."""
    offsets, others = ints(one, "offset"), ints(other, "offset")
    if not len(offsets) or not len(others):
        return False
    end = min(offsets[-1], others[-1])
    rows, more = np.searchsorted(offsets, end, "right"), np.searchsorted(others, end, "right")
    return bool(rows != more) or not all(
        np.array_equal(ints(one, name)[:rows], ints(other, name)[:more])
        for name in ("offset", "record_hash", "leader_epoch", "control")
    )


def _committed(leadership: pa.Table) -> int:
    """Return the highest high watermark of the newest leader epoch, or 0 if none is known."""
    told = equal(leadership, "source", Source.LIST_OFFSETS) & (
        ints(leadership, "high_watermark") >= 0
    )
    rows = select(leadership, told)
    if not rows.num_rows:
        return 0
    epochs = ints(rows, "leader_epoch")
    return int(ints(rows, "high_watermark")[epochs == epochs.max()].max())
