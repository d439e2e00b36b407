"""Export a run as a Jepsen history: EDN like Jepsen's `history.edn`, or JSON lines.

The history has one entry for each invocation and each completion, in order of time. The fields
`index`, `time`, `process`, `type`, `f` and `value` are the fields of `jepsen.tests.kafka`. Logquake
adds `error` and `op-id`. A key is a partition, named `topic-partition`. `logquake check --history`
reads both formats. Jepsen's own checker reads EDN.

Jepsen's format cannot express everything:

- An op has one outcome for all its sends.
- A send with `acks=0` ends ok, although no broker acknowledged it.
- The history has no brokers, replicas or faults.
- Records that Logquake did not write are left out.
- Records of a topic that was deleted during the run are left out.
- If there are transactions, reads by `read_uncommitted` consumers are left out. Jepsen treats every
  consumer as `read_committed`.
- A seek becomes an assignment of all keys except the keys that the seek moves. So Jepsen forgets
  the process's position in the moved keys.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from results.record.paths import RunPaths
from results.record.terms import AssignmentKind, F, Isolation, Outcome
from results.record.whole import written_whole
from results.tables import read_table
from results.timelines.operations import NONE, Ints
from results.wording.inert import inert

Entry = dict[str, Any]
JSON_SUFFIXES = (".jsonl", ".json")
_GZIP = ".gz"
_INVOKE = "invoke"
_MOVES = (F.ASSIGN.value, F.SUBSCRIBE.value, F.SEEK.value)
_REBALANCES = (AssignmentKind.REBALANCE_ASSIGNED.value, AssignmentKind.REBALANCE_REVOKED.value)
_AT_ONCE = 1 << 14
_PARTED = (F.SEND.value, F.POLL.value, F.TXN.value)


def write_history(paths: RunPaths, target: Path) -> Path:
    """Write a run as a Jepsen history.

    Args:
        paths: The run.
        target: The file. If the name ends with `.jsonl` or `.json`, the format is JSON lines,
            otherwise EDN. If `.gz` follows, the file is compressed with gzip.

    Returns:
        The file.

    Raises:
        StoreError: A table is damaged, or the file cannot be written.
    """
    plain = target.with_suffix("") if target.suffix == _GZIP else target
    line = _json if plain.suffix in JSON_SUFFIXES else _edn
    with written_whole(target) as file:
        if target.suffix == _GZIP:
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                packed.writelines(map(line, entries(paths)))
        else:
            file.writelines(map(line, entries(paths)))
    return target


def _json(entry: Entry) -> bytes:
    return orjson.dumps(entry) + b"\n"


def _edn(entry: Entry) -> bytes:
    told = (f":{key.replace('_', '-')} {_value(key, value)}" for key, value in entry.items())
    return f"{{{', '.join(told)}}}\n".encode()


def _value(key: str, value: object) -> str:
    return f":{value}" if key in ("type", "f") else edn(value)


def edn(value: object) -> str:
    """Return a value as EDN text. `send` or `poll` at the start of a list becomes a keyword."""
    match value:
        case None:
            text = "nil"
        case int() | str():
            text = json.dumps(value, ensure_ascii=False)
        case [("send" | "poll") as head, *rest]:
            text = f"[{' '.join([f':{head}', *map(edn, rest)])}]"
        case list():
            text = f"[{' '.join(map(edn, value))}]"
        case {"keys": keys}:
            text = f"{{:keys {edn(keys)}}}"
        case dict():
            pairs = (f"{edn(key)} {edn(each)}" for key, each in value.items())
            text = f"{{{', '.join(pairs)}}}"
        case _:
            raise TypeError(f"{value!r} has no EDN form")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Messages:
    """The messages that ops sent or read, as rows in order of op, micro-op and position.

    Attributes:
        first: Index of the first row of each op, and as the last entry the number of rows.
        told: Columns (mop, key, value, offset).
        keys: Names of the keys.
    """

    first: Ints
    told: Ints
    keys: Sequence[str]

    def of(self, op: int) -> Iterator[tuple[int, str, int, int]]:
        """Yield (mop, key, value, offset) of each message that one op sent or read, in order."""
        for mop, key, value, offset in self.told[self.first[op] : self.first[op + 1]].tolist():
            yield mop, self.keys[key], value, offset


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ops:
    """The ops of a run in order of their ids, with the messages and assignments of each op."""

    op_id: Ints
    process: Ints
    invoke_ns: Ints
    complete_ns: Ints
    f: Sequence[str]
    outcome: Sequence[str]
    error: Sequence[str | None]
    sends: _Messages
    polls: _Messages
    moved: Mapping[int, Sequence[str]]
    rebalanced: Mapping[int, Sequence[str]]
    keys: Sequence[str]
    """The names of all keys: `topic-partition`."""

    def value(self, op: int, *, ended: bool) -> object:
        """Return the `value` field of an op's entry."""
        f = self.f[op]
        if f == F.SEEK:
            moved = {*self.moved.get(int(self.op_id[op]), ())}
            return [each for each in self.keys if each not in moved]
        if f in _MOVES:
            return list(self.moved.get(int(self.op_id[op]), ()))
        if f not in _PARTED:
            return None
        parts: dict[int, list[Any]] = {}
        if ended:
            for mop, key, value, offset in self.polls.of(op):
                read = parts.setdefault(mop, ["poll", {}])
                read[1].setdefault(key, []).append([offset, value])
        for mop, key, value, offset in self.sends.of(op):
            # Each send has its own `mop` number, also without a transaction.
            parts[mop] = ["send", key, self._sent(op, value, offset, ended=ended)]
        if f == F.POLL and not parts:
            return [["poll", {}]] if ended else [["poll"]]
        return [parts[mop] for mop in sorted(parts)]

    def _sent(self, op: int, value: int, offset: int, *, ended: bool) -> object:
        if ended and (offset >= 0 or self.outcome[op] == Outcome.OK):
            return [None if offset < 0 else offset, value]
        return value


def entries(paths: RunPaths) -> Iterator[Entry]:
    """Yield the entries of a run's Jepsen history.

    Raises:
        StoreError: A table is damaged.
    """
    ops = _load(paths)
    for index, (op, ended) in enumerate(_in_order(ops)):
        entry: Entry = {
            "index": index,
            "time": int((ops.complete_ns if ended else ops.invoke_ns)[op]),
            "process": int(ops.process[op]),
            "type": ops.outcome[op] if ended else _INVOKE,
            "f": F.ASSIGN.value if ops.f[op] == F.SEEK else ops.f[op],
            "value": ops.value(op, ended=ended),
            "op_id": int(ops.op_id[op]),
        }
        if ended and (turned := ops.rebalanced.get(entry["op_id"])):
            entry["rebalance_log"] = [{"keys": list(turned)}]
        if ended and (error := ops.error[op]) is not None:
            entry["error"] = inert(error)
        yield entry


def _in_order(ops: _Ops) -> Iterator[tuple[int, bool]]:
    """Yield an op and whether the entry is its completion, for each entry in order of time.

    At the same nanosecond, an invocation comes before a completion. The two ops then count as
    concurrent. The entries of one process always keep their order.
    """
    count = len(ops.op_id)
    op = np.tile(np.arange(count), 2)
    ended = np.repeat([False, True], count)
    time = np.concatenate([ops.invoke_ns, ops.complete_ns])
    there = time != NONE
    op, ended, time = op[there], ended[there], time[there]
    by_process = np.lexsort((ended, op, time, ops.process[op]))
    same = np.zeros(len(op), np.bool_)
    first, second = by_process[:-1], by_process[1:]
    same[1:] = (ops.process[op[first]] == ops.process[op[second]]) & (time[first] == time[second])
    # The number of earlier entries of the same process with the same time.
    run = np.arange(len(op)) - np.maximum.accumulate(np.where(same, 0, np.arange(len(op))))
    before = np.empty(len(op), np.int64)
    before[by_process] = run
    order = np.lexsort((ended, before, time))
    for start in range(0, len(order), _AT_ONCE):
        part = order[start : start + _AT_ONCE]
        yield from zip(op[part].tolist(), ended[part].tolist(), strict=True)


def _load(paths: RunPaths) -> _Ops:
    table = read_table(paths, "ops").sort_by("op_id")
    op_id = _ints(table, "op_id")
    keys = _Keys()
    moved, rebalanced = _moves(paths, keys)
    return _Ops(
        op_id=op_id,
        process=_ints(table, "process"),
        invoke_ns=_ints(table, "invoke_ns"),
        complete_ns=_ints(table, "complete_ns"),
        f=[str(each) for each in table["f"].to_pylist()],
        outcome=[str(each) for each in table["outcome"].to_pylist()],
        error=table["error"].to_pylist(),
        sends=_messages(paths, "sends", op_id, keys),
        polls=_messages(paths, "polls", op_id, keys, committed=_has_transactions(paths)),
        moved=moved,
        rebalanced=rebalanced,
        keys=keys.names,
    )


def _has_transactions(paths: RunPaths) -> bool:
    txn_ids = read_table(paths, "sends")["txn_id"]
    return txn_ids.null_count < len(txn_ids)


class _Keys:
    """The names of keys (partitions). If a topic is created again, its keys get new names."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[tuple[str, str, int], int] = {}

    def number(self, topic: str | None, topic_id: str | None, partition: int | None) -> int:
        """Return the number of a key (a partition). A new key gets the next number."""
        place = (inert(topic), str(topic_id), NONE if partition is None else partition)
        if place not in self._numbers:
            before = sum(each[::2] == place[::2] for each in self._numbers)
            again = f"#{before + 1}" if before else ""
            self._numbers[place] = len(self.names)
            self.names.append(f"{place[0]}-{place[2]}{again}")
        return self._numbers[place]

    def of(self, table: pa.Table) -> Ints:
        """Return the key number of each row's partition. A row of a deleted topic gets -1."""
        codes = [_codes(table[name]) for name in ("topic", "topic_id")]
        rows = np.stack([codes[0][1], codes[1][1], _ints(table, "partition")], axis=1)
        distinct, at = np.unique(rows, axis=0, return_inverse=True)
        numbers = [
            NONE
            if topic < 0 or (topic_id < 0 and len(codes[1][0]))
            else self.number(codes[0][0][topic], codes[1][0][topic_id] if topic_id >= 0 else None,
                             partition)
            for topic, topic_id, partition in distinct.tolist()
        ]  # fmt: skip
        return np.array(numbers, np.int64)[at.reshape(-1)]


def _codes(column: "pa.ChunkedArray[Any]") -> tuple[list[str], Ints]:
    coded: Any = column.combine_chunks().dictionary_encode()
    rows = coded.indices.fill_null(NONE).to_numpy(zero_copy_only=False).astype(np.int64)
    return coded.dictionary.to_pylist(), rows


def _messages(
    paths: RunPaths, name: str, op_id: Ints, keys: _Keys, *, committed: bool = False
) -> _Messages:
    """Return the messages that ops sent or read.

    Args:
        paths: The run.
        name: The table: `sends` or `polls`.
        op_id: Ids of all ops, ascending.
        keys: Known keys; new keys are added.
        committed: Whether to leave out reads by `read_uncommitted` consumers.
    """
    table = read_table(paths, name)
    watched = np.zeros(table.num_rows, np.bool_)
    if committed:
        isolation = table["isolation"].to_numpy()
        watched = np.asarray(isolation == Isolation.READ_UNCOMMITTED.value, np.bool_)
    key, value = keys.of(table), _ints(table, "value")
    op = np.minimum(np.searchsorted(op_id, _ints(table, "op_id")), max(0, len(op_id) - 1))
    pos = _ints(table, "pos") if name == "polls" else np.zeros(len(op), np.int64)
    mop, offset = _ints(table, "mop"), _ints(table, "offset")
    rows = np.lexsort((pos, mop, op))
    rows = rows[(key[rows] >= 0) & (value[rows] >= 0) & ~watched[rows]]
    told = np.stack([mop, key, value, offset], axis=1)[rows]
    first = np.searchsorted(op[rows], np.arange(len(op_id) + 1))
    return _Messages(first=first, told=told, keys=keys.names)


def _moves(paths: RunPaths, keys: _Keys) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Return (moved keys, rebalanced keys), each as a mapping from op id to keys.

    An op moves the keys that it assigns, subscribes to, or seeks in.
    """
    moved: dict[int, list[str]] = {}
    rebalanced: dict[int, list[str]] = {}
    table = read_table(paths, "assignments")
    numbers = keys.of(table).tolist()
    for op, kind, key in zip(_ints(table, "op_id").tolist(), table["kind"].to_pylist(), numbers,
                             strict=True):  # fmt: skip
        into = moved if kind in _MOVES else rebalanced if kind in _REBALANCES else None
        if into is not None and key >= 0:
            into.setdefault(op, []).append(keys.names[key])
    return moved, rebalanced


def _ints(table: pa.Table, name: str) -> Ints:
    column: pa.ChunkedArray[Any] = table[name].cast(pa.int64())
    return np.asarray(column.fill_null(pa.scalar(NONE, pa.int64())).to_numpy(), np.int64)
