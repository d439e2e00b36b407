"""From the files of a unit to complete tables; a unit is a writer's streams, or a node's files.

Both engines call this, in this process or in Spark's tasks. Live streams tell an invocation and a
completion apart; here they are joined, what stayed open is closed with `info`, and ops are copied
onto their sends and polls. A stream that ends without its end mark, or that cannot be read, is told
as a `Problem`, never raised: a broken record must come out as unknown.
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
"""What Kafka says of the id of a topic that has none."""
ASSIGNS, TOUCHES = "assigns", "touches"
"""What parts leave for `left_out`: ops that assign, and partitions that ops sent to."""
_MOP_BITS = 32
_OP_BITS = 31
"""A writer numbers its ops in a row: so many bits, and those of its parts, fit an integer."""
_COPIES = "replica_records"
_RANKED = tuple(sorted(OUTCOME_RANK, key=lambda outcome: OUTCOME_RANK[outcome]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something of the record that could not be read.

    Attributes:
        unit: Of what: a writer, or a node.
        sentence: For people.
        cut: Whether a live stream lacks its end, so that rows may be missing.
    """

    unit: str
    sentence: str
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenStream(Problem):
    """A stream that cannot be read from a place on.

    Attributes:
        stream: The name of its file.
        at: `Span.at`.
    """

    stream: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What of a unit is read: of a writer's streams the rows of some ops, of a node some replicas.

    Attributes:
        number: Of the part.
        parts: How many there are.
        ops: The least and the greatest op id.
        spans: `Span.at` of what holds its rows, by the stream's name.
        folders: Names of the folders of its replicas.
        bytes: About how many these have.
    """

    number: int
    parts: int
    bytes: int = 0
    ops: tuple[int, int] = (0, 0)
    spans: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one task of ingest reads.

    Attributes:
        run_id: Of the run; becomes a column.
        name: The writer, or the node.
        folder: `record/live`, `nodes/<node>`, or `snapshots/<step>/<node>`.
        snapshot: What a node's files are: `FINAL`, `CRASH`, or a step's name; empty for a writer's
            streams.
        sees: What of a node's files is read: what its system shows.
        old: Whether the run's messages are of before `results.record.contents`: nobody can tell
            whether copies of them are intact.
        part: Which part of it is read; None: all.
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
        """Whether it is a copy that a step made, not all that a node left behind."""
        return self.snapshot not in {"", FINAL, CRASH}

    @property
    def label(self) -> str:
        """How problems name it; a step's copy of a node is not the node."""
        return f"{self.snapshot}/{self.name}" if self.of_step else self.name


Tables = dict[str, pa.Table]
NodeReader = Callable[[Unit, list[Problem]], Iterable[tuple[str, pa.RecordBatch]]]
"""Reads a node's files; yields batches of tables without `run_id`, and notes problems."""
NodeLooker = Callable[[Unit], Mapping[str, int]]
"""Tells how many bytes each replica of a node has that is read, by the name of its folder."""


def live_units(run_id: str, live: Path) -> list[Unit]:
    """Return a unit for each writer that has streams in `record/live`."""
    writers = (
        {writer_of(path) for path in live.glob(f"*{STREAM_SUFFIX}")} if live.is_dir() else set()
    )
    return [Unit(run_id=run_id, name=writer, folder=live) for writer in sorted(writers)]


def node_units(run_id: str, nodes: Path, snapshot: str) -> list[Unit]:
    """Return a unit for each node whose files were kept."""
    folders = sorted(path for path in nodes.iterdir() if path.is_dir()) if nodes.is_dir() else []
    return [Unit(run_id=run_id, name=path.name, folder=path, snapshot=snapshot) for path in folders]


def step_units(run_id: str, snapshots: Path) -> list[Unit]:
    """Return a unit for each node's files that a step copied."""
    steps = sorted(path for path in snapshots.iterdir()) if snapshots.is_dir() else []
    return [unit for step in steps for unit in node_units(run_id, step, step.name)]


def ingest(unit: Unit, read_node: NodeReader) -> tuple[Tables, list[Problem]]:
    """Return the complete tables of a unit, and what of it could not be read.

    Those of a part of a writer's streams lack what assignments leave out, which needs all parts;
    `ASSIGNS` and `TOUCHES` have what is needed for it.
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
    """Join invocations with completions, and copy ops onto what they sent and read.

    Args:
        streams: Tables of `LIVE` by name, of one writer; absent ones are empty.
        whole: Whether they have all of its ops, rather than a part of them.

    Returns:
        Tables of `TABLES`, but for `run_id`; of a part also `ASSIGNS` and `TOUCHES`.
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
    """Return every table of the record, the parts of it end to end."""
    gathered: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    for part in parts:
        for name, table in part.items():
            gathered[name].append(table)
    return {
        name: joined([TABLES[name].empty_table(), *tables]) for name, tables in gathered.items()
    }


def with_topic_ids(table: pa.Table, ids: Mapping[str, str]) -> pa.Table:
    """Give rows without a topic_id that of their topic: logs and old requests name topics only.

    Where whoever created the topic was not told its id (before KIP-516, Kafka 2.8), it is `NO_ID`
    in every row of the topic, though some file or answer may know better.

    Args:
        table: Rows of a node or an observer.
        ids: By topic; without those that were created more than once.
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
    """Return whose stream a file is (`polled.worker-0.arrows`: `worker-0`)."""
    return path.name.removesuffix(STREAM_SUFFIX).partition(".")[2]


def stream_paths(unit: Unit) -> list[Path]:
    """Return the live streams of a writer, by name."""
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
                # A cast would make nulls of words, and nobody would know that there was more.
                if not batch.schema.equals(as_recorded(LIVE[name], batch.schema)):
                    raise ValueError("its columns are not those of its table")
                batches.append(_coded(batch))
        except BROKEN as broken:
            problems.append(broken_stream(unit, path, broken, at))
        if batches:
            streams[name] = joined([pa.Table.from_batches(batches)])
    return streams


def broken_stream(unit: Unit, path: Path, broken: BaseException, at: int) -> BrokenStream:
    """Return what is told of a stream that cannot be read from a place on."""
    sentence = f"the stream {path.name} is cut: {broken}"
    return BrokenStream(unit=unit.name, sentence=sentence, cut=True, stream=path.name, at=at)


def _rows(path: Path, part: Part | None) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """Yield the batches of a stream, or of a part of it; None tells where the next one lies."""
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
    """Return rows with their strings as dictionaries: a few words, and a number a row."""
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
    """Add `run_id`, and bring the columns into the table's order and types, strings coded."""
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
    """Return outcomes as 0 ok, 1 fail, 2 info; null, and anything else, is info."""
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
    """Return an integer column at some rows; anything where the row is -1."""
    column = ints(table, name)
    return column[np.maximum(at, 0)] if len(column) else np.full(len(at), NONE, dtype=np.int64)


def _part_keys(parts: pa.Table, others: pa.Table) -> tuple[Ints, Ints]:
    """Number the (op_id, mop) of two tables alike."""
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
    strays = select(done, ~answered_by)  # Of no op, or a second one.
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
    """Return how many messages each op sent or read; of a transaction, how many it sent.

    Of an acknowledgement: of how many records the broker confirmed it.
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
    """Return the last row of each key: rows are written again at each step of their lives."""
    keys = ints(table, key)
    _, last = np.unique(keys[::-1], return_index=True)
    return take(table, np.sort(len(keys) - 1 - last))
