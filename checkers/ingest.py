"""Build the complete tables of a unit from its files.

A unit is a writer's streams or a node's files.

The local engine calls this module in this process. Spark calls it in its tasks. Live streams have
separate rows for invocations and completions. This module joins these rows, closes open ops with
`info`, and copies each op's columns to its sends and polls. If a stream has no end mark or cannot
be read, this module reports a `Problem` and raises no error. A broken record must lead to the
verdict unknown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.columns import (
    NONE,
    Ints,
    Mask,
    coded,
    codes,
    equal,
    first_match,
    ints,
    joined,
    nullable,
    repeat,
    rows_at,
    select,
    stack,
    take,
)
from checkers.facts import CRASH, FINAL
from checkers.layout import as_recorded
from checkers.left_out import left_out, moved
from results.record.declared import Sight
from results.record.spans import OP_ID, span_rows
from results.record.stream import STREAM_SUFFIX, read_whole, table_of
from results.record.tables import BROKEN, DAMAGE, LIVE, TABLES
from results.record.terms import OUTCOME_RANK, F, Outcome, ShareAct

NO_ID = "00000000-0000-0000-0000-000000000000"
"""The topic id that Kafka reports for a topic without an id."""
ASSIGNS, TOUCHES = "assigns", "touches"
"""The parts' tables for `left_out`: the ops that assign, and the partitions that ops sent to."""
_MOP_BITS = 32
_OP_BITS = 31
"""The number of bits for the range of a writer's op ids.

These bits and the bits of a mop fit into one integer.
"""
_COPIES = "replica_records"
_RANKED = tuple(sorted(OUTCOME_RANK, key=lambda outcome: OUTCOME_RANK[outcome]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A reason why some data of a run could not be read.

    Attributes:
        unit: The writer or the node.
        sentence: The problem in one sentence.
        cut: Whether the end of a live stream is missing, so that rows may be missing, too.
    """

    unit: str
    sentence: str
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenStream(Problem):
    """A stream that can be read only up to some position.

    Attributes:
        stream: The name of the stream's file.
        at: The position (`Span.at`).
    """

    stream: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a unit: the rows of some ops of a writer, or some replicas of a node.

    Attributes:
        number: The part's number.
        parts: The number of parts.
        ops: The lowest and the highest op id.
        spans: The positions (`Span.at`) of the part's rows, by the stream's name.
        folders: The names of the replicas' folders.
        bytes: About how many bytes the part has.
    """

    number: int
    parts: int
    bytes: int = 0
    ops: tuple[int, int] = (0, 0)
    spans: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The input of one ingest task.

    Attributes:
        run_id: The run's id, which becomes a column.
        name: The writer, or the node.
        folder: `record/live`, `nodes/<node>`, or `snapshots/<step>/<node>`.
        snapshot: The snapshot of a node's files: `FINAL`, `CRASH`, or a step's name. Empty for a
            writer's streams.
        sees: The kinds of observation that the system provides. A node's files for other kinds are
            not read.
        old: Whether the run is older than `results.record.contents`. Then it is unknown whether
            the copies of messages are intact.
        part: The part to read. None means the whole unit.
    """

    run_id: str
    name: str
    folder: Path
    snapshot: str = ""
    sees: frozenset[Sight] = frozenset(Sight)
    old: bool = False
    part: "Part | None" = None

    @property
    def of_step(self) -> bool:
        """Whether the unit is a copy that a scenario's step made, not a node's final files."""
        return self.snapshot not in {"", FINAL, CRASH}

    @property
    def label(self) -> str:
        """The unit's name in problems. The name of a step's copy also names the step."""
        return f"{self.snapshot}/{self.name}" if self.of_step else self.name


Tables = dict[str, pa.Table]
NodeReader = Callable[[Unit, list[Problem]], Iterable[tuple[str, pa.RecordBatch]]]
"""A function that reads a node's files.

It yields batches of tables without `run_id`, and adds problems to the list.
"""
NodeLooker = Callable[[Unit], Mapping[str, int]]
"""A function that returns the size in bytes of each replica of a node, by folder name."""


def live_units(run_id: str, live: Path) -> list[Unit]:
    """Return a unit for each writer that has streams in `record/live`."""
    writers = (
        {writer_of(path) for path in live.glob(f"*{STREAM_SUFFIX}")} if live.is_dir() else set()
    )
    return [Unit(run_id=run_id, name=writer, folder=live) for writer in sorted(writers)]


def node_units(run_id: str, nodes: Path, snapshot: str) -> list[Unit]:
    """Return a unit for each node with stored files."""
    folders = sorted(path for path in nodes.iterdir() if path.is_dir()) if nodes.is_dir() else []
    return [Unit(run_id=run_id, name=path.name, folder=path, snapshot=snapshot) for path in folders]


def step_units(run_id: str, snapshots: Path) -> list[Unit]:
    """Return a unit for each step of a scenario and each node whose files the step copied."""
    steps = sorted(path for path in snapshots.iterdir()) if snapshots.is_dir() else []
    return [unit for step in steps for unit in node_units(run_id, step, step.name)]


def ingest(unit: Unit, read_node: NodeReader) -> tuple[Tables, list[Problem]]:
    """Read a unit; return its complete tables, and the problems that occurred.

    The tables of a part do not show which partitions an assignment left out. That needs the tables
    of all parts. `ASSIGNS` and `TOUCHES` have the data to find these partitions later.
    """
    problems: list[Problem] = []
    try:
        if unit.snapshot:
            tables = _node_tables(unit, read_node, problems)
        else:
            tables = completed(_read_streams(unit, problems), whole=unit.part is None)
        return {
            name: with_run(name, table, unit.run_id) if name in TABLES else table
            for name, table in tables.items()
        }, problems
    except BROKEN as broken:
        sentence = f"{unit.label}: {type(broken).__name__}: {broken}"
        return {}, [*problems, Problem(unit=unit.label, sentence=sentence, cut=not unit.snapshot)]


def completed(streams: Mapping[str, pa.Table], *, whole: bool = True) -> Tables:
    """Join invocations with completions, and copy each op's columns to its sends and reads.

    Args:
        streams: Tables of `LIVE` by name, of one writer. Missing tables count as empty.
        whole: Whether the tables have all ops of the writer, not only a part.

    Returns:
        The tables of `TABLES` without the column `run_id`. For a part, the result also has the
        tables `ASSIGNS` and `TOUCHES`.
    """
    live = {name: streams.get(name, schema.empty_table()) for name, schema in LIVE.items()}
    sends = _sends(live["send_invocations"], live["send_completions"])
    answered = np.isin(*_part_keys(sends, live["send_completions"]))
    ops = _ops(live["op_invocations"], live["op_completions"], sends, answered)
    counts = _messages(ops, sends, live["polled"], live["shared"])
    ops = ops.append_column("messages", pa.array(counts, pa.int64()))
    tables = {name: live[name] for name in LIVE if name in TABLES}
    tables["faults"] = _last_of_each(live["faults"], "fault_id")
    tables["ops"] = ops
    tables["sends"] = _with_op(sends, ops, ("process", "phase", "invoke_ns", "complete_ns"))
    copies = ("process", "phase", "invoke_ns", "complete_ns", "outcome")
    tables["polls"] = _with_op(live["polled"], ops, copies)
    moves = live["assignments"]
    if whole:
        tables["assignments"] = joined([moves, left_out(ops, moves, tables["sends"])])
    else:
        tables[ASSIGNS], tables[TOUCHES] = moved(ops, tables["sends"])
    return tables


def combined(parts: Iterable[Tables]) -> Tables:
    """Return every table of the record, joined from its parts."""
    gathered: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    for part in parts:
        for name, table in part.items():
            gathered[name].append(table)
    return {
        name: joined([TABLES[name].empty_table(), *tables]) for name, tables in gathered.items()
    }


def with_topic_ids(table: pa.Table, ids: Mapping[str, str]) -> pa.Table:
    """Fill missing topic ids with the id that belongs to the topic's name.

    Logs and old requests have only the names of topics, not their ids.

    Before Kafka 2.8 (KIP-516), creating a topic returned no id. Then every row of the topic gets
    `NO_ID`, even if a file or an answer has an id.

    Args:
        table: Rows of a node or an observer.
        ids: The topic ids by topic. A topic that was created more than once is left out.
    """
    if "topic_id" not in table.column_names or not ids:
        return table
    (topic, topics), (told, words) = codes(table, "topic"), codes(table, "topic_id")
    named = sorted({*words, *ids.values(), NO_ID})
    place = {word: at for at, word in enumerate(named)}
    of_topic = np.array([*(place[ids[each]] if each in ids else NONE for each in topics), NONE])
    of_word = np.array([*(place[word] for word in words), NONE])
    known, said = of_topic[topic], of_word[told]
    nameless = (said == place[NO_ID]) | (known == place[NO_ID])
    at = np.where((said < 0) | nameless, known, said)
    at = np.where((at < 0) & nameless, NONE, at)
    filled = pa.DictionaryArray.from_arrays(
        at.astype(np.int32), pa.array(named, pa.string()), mask=at < 0
    )
    return table.set_column(table.column_names.index("topic_id"), "topic_id", coded(filled))


def writer_of(path: Path) -> str:
    """Return the writer of a stream's file (`polled.worker-0.arrows`: `worker-0`)."""
    return path.name.removesuffix(STREAM_SUFFIX).partition(".")[2]


def stream_paths(unit: Unit) -> list[Path]:
    """Return the files of a writer's live streams, by name."""
    return [
        path
        for path in sorted(unit.folder.glob(f"*.{unit.name}{STREAM_SUFFIX}"))
        if table_of(path) in LIVE and writer_of(path) == unit.name
    ]


def _read_streams(unit: Unit, problems: list[Problem]) -> Tables:
    streams: Tables = {}
    for path in stream_paths(unit):
        name = table_of(path)
        batches: list[pa.RecordBatch] = []
        at = 0
        try:
            for at, batch in _rows(path, unit.part):  # noqa: B007 - where it failed
                if batch is None:
                    continue
                # A cast would turn words into nulls, and the loss would go unnoticed.
                if not batch.schema.equals(as_recorded(LIVE[name], batch.schema)):
                    raise ValueError("its columns differ from the columns of its table")
                batches.append(_coded(batch))
        except BROKEN as broken:
            problems.append(broken_stream(unit, path, broken, at))
        if batches:
            streams[name] = joined([pa.Table.from_batches(batches)])
    return streams


def broken_stream(unit: Unit, path: Path, broken: BaseException, at: int) -> BrokenStream:
    """Return the problem for a stream that can be read only up to some position."""
    sentence = f"the stream {path.name} is cut off: {broken}"
    return BrokenStream(unit=unit.name, sentence=sentence, cut=True, stream=path.name, at=at)


def _rows(path: Path, part: Part | None) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """Yield (position, batch) for a stream or a part of it.

    If the batch is None, the pair only marks a position.
    """
    if part is None:
        yield from ((0, batch) for batch in read_whole(path))
        return
    low, high = part.ops
    for at, batch in span_rows(path, part.spans.get(path.name, ())):
        if batch is None or OP_ID not in batch.schema.names:
            yield at, batch
            continue
        ids = batch[OP_ID].fill_null(NONE).to_numpy(zero_copy_only=False)
        inside = (ids >= low) & (ids <= high)
        yield at, batch if inside.all() else batch.filter(pa.array(inside))


def _coded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose strings are dictionary-coded, so that each row has only a number."""
    columns = [
        column.dictionary_encode() if pa.types.is_string(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _node_tables(unit: Unit, read_node: NodeReader, problems: list[Problem]) -> Tables:
    batches: dict[str, list[pa.RecordBatch]] = {}
    try:
        for name, batch in read_node(unit, problems):
            batches.setdefault(name, []).append(batch)
    except BROKEN as broken:
        sentence = f"the files of {unit.label} cannot be read: {broken}"
        problems.append(Problem(unit=unit.label, sentence=sentence))
    tables = {name: joined([pa.Table.from_batches(rows)]) for name, rows in batches.items()}
    if unit.old and _COPIES in tables:
        tables[_COPIES] = tables[_COPIES].drop_columns([DAMAGE[0]])
    return tables


def with_run(name: str, table: pa.Table, run_id: str) -> pa.Table:
    """Return rows with all columns of their table, in order, with `run_id` and coded strings."""
    schema = TABLES[name]
    columns = [
        coded(repeat(run_id, table.num_rows))
        if field.name == "run_id"
        else _as(table[field.name], field.type)
        if field.name in table.column_names
        else coded(pa.nulls(table.num_rows, field.type))
        for field in schema
    ]
    return pa.table(columns, names=schema.names)


def _as(column: "pa.ChunkedArray[Any]", kind: pa.DataType) -> "pa.Array[Any]":
    is_coded = pa.types.is_dictionary(column.type) and pa.types.is_string(kind)
    return coded(column if is_coded else column.cast(kind))


def _ranks(table: pa.Table) -> Ints:
    """Return outcomes as numbers: 0 ok, 1 fail, 2 info. Null and unknown strings are info."""
    numbers, words = codes(table, "outcome")
    known = {str(word): rank for rank, word in enumerate(_RANKED)}
    unknown = OUTCOME_RANK[Outcome.INFO]
    ranks = np.array([*(known.get(word, unknown) for word in words), unknown], dtype=np.int64)
    return np.asarray(ranks[numbers], dtype=np.int64)


def _words(ranks: Ints) -> "pa.Array[Any]":
    words = pa.array([str(outcome) for outcome in _RANKED], pa.string())
    return pa.DictionaryArray.from_arrays(ranks.astype(np.int8), words)


def _sends(invoked: pa.Table, done: pa.Table) -> pa.Table:
    at = first_match(*_part_keys(invoked, done))
    unknown = np.full(len(at), OUTCOME_RANK[Outcome.INFO], dtype=np.int64)
    ranks = np.where(at < 0, unknown, _ranks(done)[np.maximum(at, 0)]) if done.num_rows else unknown
    offsets = np.where(at < 0, NONE, _at(done, "offset", at))
    acked = np.where(at < 0, 0, _at(done, "acked", at)) == 1
    columns: dict[str, pa.Array[Any]] = {
        "offset": nullable(np.maximum(offsets, NONE)),
        "outcome": _words(ranks),
        "acked": pa.array(acked, pa.bool_()),
        "error": rows_at(done, "error", at),
    }
    for name, column in columns.items():
        invoked = invoked.append_column(name, column)
    return invoked


def _at(table: pa.Table, name: str, at: Ints) -> Ints:
    """Return the numbers of a column at the given rows. For row -1, the number has no meaning."""
    column = ints(table, name)
    return column[np.maximum(at, 0)] if len(column) else np.full(len(at), NONE, dtype=np.int64)


def _part_keys(parts: pa.Table, others: pa.Table) -> tuple[Ints, Ints]:
    """Return a key for each pair (op_id, mop) in two tables. Equal pairs have equal keys."""
    count = parts.num_rows
    op = stack([ints(parts, "op_id"), ints(others, "op_id")])
    mop = stack([ints(parts, "mop"), ints(others, "mop")])
    least, wide = (int(op.min()), int(op.max())) if len(op) else (0, 0)
    if wide - least >> _OP_BITS:
        _, op = np.unique(op, return_inverse=True)
        least = 0
    keys = ((op.astype(np.int64) - least) << _MOP_BITS) + mop
    return keys[:count], keys[count:]


def _ops(invoked: pa.Table, done: pa.Table, sends: pa.Table, answered: Mask) -> pa.Table:
    op_ids, done_ids = ints(invoked, "op_id"), ints(done, "op_id")
    at = first_match(op_ids, done_ids)
    ops = invoked
    for name in ("complete_ns", "outcome", "error"):
        ops = ops.append_column(name, rows_at(done, name, at))
    answered_by = np.zeros(len(done_ids), dtype=np.bool_)
    answered_by[at[at >= 0]] = True
    strays = select(done, ~answered_by)  # Completions without an op, or second ones of an op.
    if strays.num_rows:
        absent = [name for name in ops.column_names if name not in strays.column_names]
        for name in absent:
            strays = strays.append_column(name, pa.nulls(strays.num_rows, invoked[name].type))
        ops = joined([ops, strays.select(ops.column_names)])
    ranks = _ranks(ops)
    home = first_match(ints(sends, "op_id"), ints(ops, "op_id"))
    parts = answered & (home >= 0)
    np.maximum.at(ranks, home[parts], _ranks(sends)[parts])
    return ops.set_column(ops.column_names.index("outcome"), "outcome", _words(ranks))


def _messages(ops: pa.Table, sends: pa.Table, polled: pa.Table, shared: pa.Table) -> Ints:
    """Return the number of messages that each op sent or read. For a transaction, only sends count.

    For an op of a share group, the records whose acknowledgements the broker confirmed count, too.
    """
    op_ids = ints(ops, "op_id")
    counts = np.zeros(len(op_ids), dtype=np.int64)
    ok = equal(shared, "outcome", Outcome.OK.value)
    confirmed = select(shared, ok & ~equal(shared, "act", ShareAct.DELIVER.value))
    for parts in (sends, polled, confirmed):
        home = first_match(ints(parts, "op_id"), op_ids)
        if parts is polled:
            home[np.isin(home, np.flatnonzero(equal(ops, "f", F.TXN.value)))] = -1
        counts += np.bincount(home[home >= 0], minlength=len(counts))
    return counts


def _with_op(parts: pa.Table, ops: pa.Table, names: tuple[str, ...]) -> pa.Table:
    at = first_match(ints(parts, "op_id"), ints(ops, "op_id"))
    for name in names:
        parts = parts.append_column(name, rows_at(ops, name, at))
    return parts


def _last_of_each(table: pa.Table, key: str) -> pa.Table:
    """Return the last row of each key. A row is written again at each stage of its op."""
    keys = ints(table, key)
    _, last = np.unique(keys[::-1], return_index=True)
    return take(table, np.sort(len(keys) - 1 - last))
