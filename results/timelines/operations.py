"""The operations of a run as columns, one row for each operation, in order of lane and time.

A lane is a client thread. After an operation with unknown outcome, the thread continues as a new
process. So a lane has one process after another, and never two processes at the same time. The
final reads have separate lanes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from results.record.atomic import StoreError
from results.record.parquet import open_parquet
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.terms import F, Outcome, Phase
from results.wording.inert import inert

Ints = npt.NDArray[np.int64]
Words = tuple[str, ...]

OUTCOMES: Words = (Outcome.OK, Outcome.FAIL, Outcome.INFO)
KINDS: Words = tuple(F)
PHASES: Words = tuple(Phase)
NONE = -1
_FINAL = 1_000_000
"""Processes of final reads have this number or a higher one."""
_LONGEST = 200
_MOST_ERRORS = 60_000
_AT_ONCE = 1 << 18
_OPS = ("op_id", "process", "worker", "f", "phase", "invoke_ns", "complete_ns", "outcome", "error",
        "messages")  # fmt: skip
_BROKEN = (OSError, KeyError, pa.ArrowException)
"""Exceptions that a damaged table causes; KeyError means that a column is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Columns of a run's operations, sorted by lane, then by time.

    Attributes:
        op_id, process, invoke_ns, complete_ns, messages: The recorded values.
        lane: Index in `lanes`.
        f, phase, outcome: Indexes in `KINDS`, `PHASES` and `OUTCOMES`; -1 for an unknown word.
        error: Index in `errors`; -1 if there was none.
        place: Index in `places` of the partition of the op's first message; -1 if there is none.
        ordinal: Number of the op in its process, from 1: `p22#132` has 132.
        value, offset: Value and offset of the op's first message; -1 if unknown.
        lanes, places, errors: Names, with control characters escaped.
    """

    op_id: Ints
    ordinal: Ints
    process: Ints
    invoke_ns: Ints
    complete_ns: Ints
    messages: Ints
    lane: Ints
    f: Ints
    phase: Ints
    outcome: Ints
    error: Ints
    place: Ints
    value: Ints
    offset: Ints
    lanes: Words
    places: Words
    errors: Words

    @property
    def count(self) -> int:
        """Number of operations."""
        return len(self.op_id)


def load_operations(paths: RunPaths, *, concurrency: int) -> Operations:
    """Return the operations of a run.

    Args:
        paths: The run.
        concurrency: Number of client threads.

    Raises:
        StoreError: A table is damaged.
    """
    table = _table(paths, "ops", _OPS)
    whole = {name: _ints(table, name) for name in _OPS if name not in _WORDY}
    f, phase, outcome = (
        _coded(table[name], words)
        for name, words in (("f", KINDS), ("phase", PHASES), ("outcome", OUTCOMES))
    )
    errors, error = _texts(table["error"])
    del table
    lane, lanes = _lanes(whole["process"], whole["worker"], phase, concurrency=concurrency)
    order = np.lexsort((whole["invoke_ns"], lane))
    op_id = whole["op_id"][order]
    places, place, value, offset = _first_messages(paths, op_id)
    return Operations(
        op_id=op_id,
        ordinal=_ordinals(whole["process"], whole["op_id"])[order],
        process=whole["process"][order],
        invoke_ns=whole["invoke_ns"][order],
        complete_ns=whole["complete_ns"][order],
        messages=np.maximum(whole["messages"][order], 0),
        lane=lane[order],
        f=f[order],
        phase=phase[order],
        outcome=outcome[order],
        error=error[order],
        place=place,
        value=value,
        offset=offset,
        lanes=lanes,
        places=places,
        errors=errors,
    )


def _ordinals(process: Ints, op_id: Ints) -> Ints:
    """Return each op's number within its process, from 1, in the order of op ids."""
    order = np.lexsort((op_id, process))
    _, first, counts = np.unique(process[order], return_index=True, return_counts=True)
    ordinals = np.empty(len(process), np.int64)
    ordinals[order] = np.arange(len(process)) - np.repeat(first, counts) + 1
    return ordinals


_WORDY = {"f", "phase", "outcome", "error"}


def _table(paths: RunPaths, name: str, columns: tuple[str, ...]) -> pa.Table:
    path = paths.table(name)
    if not path.exists():
        return pa.schema([TABLES[name].field(each) for each in columns]).empty_table()
    words = [each for each in columns if pa.types.is_string(TABLES[name].field(each).type)]
    try:
        with open_parquet(path) as file:
            return pq.read_table(file, columns=[*columns], read_dictionary=words)
    except _BROKEN as damaged:
        raise _damaged(paths, name, damaged) from damaged


def _damaged(paths: RunPaths, name: str, why: Exception) -> StoreError:
    path = paths.table(name)
    return StoreError(f"the table {path} cannot be read ({why}); recreate it with `logquake check`")


def _ints(table: pa.Table, name: str) -> Ints:
    plain: pa.ChunkedArray[Any] = table[name].cast(pa.int64())
    return np.asarray(plain.fill_null(pa.scalar(NONE, pa.int64())).to_numpy(), np.int64)


def _words(column: "pa.ChunkedArray[Any]") -> tuple[list[str | None], Ints]:
    """Return a column's distinct texts, and for each row the index of its text; -1 for null."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunks: list[Any] = coded.unify_dictionaries().chunks
    words = chunks[0].dictionary.to_pylist() if chunks else []
    parts = [chunk.indices.fill_null(NONE).to_numpy(zero_copy_only=False) for chunk in chunks]
    rows = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    return words, rows.astype(np.int64)


def _coded(column: "pa.ChunkedArray[Any]", known: Words) -> Ints:
    words, rows = _words(column)
    numbers = [known.index(word) if word in known else NONE for word in words]
    return np.array([*numbers, NONE], np.int64)[rows]


def _texts(column: "pa.ChunkedArray[Any]") -> tuple[Words, Ints]:
    """Return a column's distinct texts, escaped and shortened, and for each row the text's index.

    If there are too many distinct texts, the remaining texts share one name. Usually there are few
    distinct texts: clients report a few kinds of errors, some with an offset or an address in the
    text.
    """
    words, rows = _words(column)
    kept = [_shown(word) for word in words[:_MOST_ERRORS]]
    if len(words) > _MOST_ERRORS:
        kept.append("another error")
    return tuple(kept), np.minimum(rows, len(kept) - 1) if kept else rows


def _shown(word: object) -> str:
    text = str(word)
    return inert(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


def _lanes(process: Ints, worker: Ints, phase: Ints, *, concurrency: int) -> tuple[Ints, Words]:
    """Return the lane of each op, and the lanes' names."""
    final = phase == PHASES.index(Phase.FINAL)
    threads = np.where(final, process, process % max(1, concurrency))
    keys = np.stack([final.astype(np.int64), np.where(final, 0, worker), threads], axis=1)
    distinct, lane = np.unique(keys, axis=0, return_inverse=True)
    named = (
        f"final read {number % _FINAL}" if late else f"thread {number}"
        for late, _, number in distinct.tolist()
    )
    return np.asarray(lane, np.int64).reshape(-1), tuple(named)


def _first_messages(paths: RunPaths, op_id: Ints) -> tuple[Words, Ints, Ints, Ints]:
    """Return partition names, and the partition, value and offset of each op's first message."""
    names: dict[str, int] = {}
    first = np.full((3, len(op_id)), NONE, np.int64)
    order = np.argsort(op_id, kind="stable")
    ranked = op_id[order]
    # For a transaction, the first sent message is more useful than the first read one.
    for name in ("polls", "sends"):
        fresh = np.ones(len(op_id), np.bool_)
        for ids, told in _messages(paths, name, names):
            at = np.minimum(np.searchsorted(ranked, ids), max(0, len(ranked) - 1))
            known = np.flatnonzero(ranked[at] == ids) if len(ranked) else at[:0]
            rows = order[at[known]]
            known, rows = known[fresh[rows]], rows[fresh[rows]]
            # numpy keeps the last of several values for one row, so the first message comes last.
            first[:, rows[::-1]] = told[:, known[::-1]]
            fresh[rows] = False
    place, value, offset = first
    return tuple(names), place, value, offset


def _messages(paths: RunPaths, name: str, names: dict[str, int]) -> Iterator[tuple[Ints, Ints]]:
    """Yield batches of a table of messages: op ids, and rows of (partition, value, offset).

    Args:
        paths: The run.
        name: Name of the table.
        names: The indexes of partitions. Partitions that are not in it yet are added.
    """
    path = paths.table(name)
    if not path.exists():
        return
    columns = ["op_id", "topic", "partition", "value", "offset"]
    try:
        with (
            open_parquet(path) as opened,
            pq.ParquetFile(opened, read_dictionary=["topic"]) as file,
        ):
            for batch in file.iter_batches(_AT_ONCE, columns=columns):
                part = pa.Table.from_batches([batch])
                places = _places(part, names)
                yield (
                    _ints(part, "op_id"),
                    np.stack([places, _ints(part, "value"), _ints(part, "offset")]),
                )
    except _BROKEN as damaged:
        raise _damaged(paths, name, damaged) from damaged


def _places(part: pa.Table, names: dict[str, int]) -> Ints:
    topics, topic = _words(part["topic"])
    keys, at = np.unique(np.stack([topic, _ints(part, "partition")], axis=1), axis=0,
                         return_inverse=True)  # fmt: skip
    told = [_shown(f"{topics[number]}-{partition}") for number, partition in keys.tolist()]
    numbers = [names.setdefault(each, len(names)) for each in told]
    return np.array(numbers, np.int64)[at.reshape(-1)]
