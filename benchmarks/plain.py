"""The benchmark's checks in plain numpy, in one thread: their lowest possible cost.

The program reads the same Parquet files as the pipeline, each column once, and counts anomalies. It
does not describe, excuse or weigh them. `CHECKS` lists the checks that this program and
`benchmarks/duck.py` both do. Neither of them does these checks:

- checks without rows in a run of the workload `log` (transactions, cycles);
- checks over a few rows only (final reads, quorum, faults, availability);
- `committed-truncation`, because the record has no copies of earlier moments;
- the statistics that the pipeline computes in addition to the checks.

    python -m benchmarks.plain RUN
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

CHECKS = (
    "malformed-history", "lost-write", "unseen", "duplicate", "inconsistent-offsets", "phantom",
    "G1a", "ack-mismatch", "offset-order", "poll-skip", "nonmonotonic-poll", "int-poll-skip",
    "int-nonmonotonic-poll", "nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip",
    "log-divergence", "two-leaders-in-epoch", "epoch-regression", "high-watermark-regression",
    "incomplete-leader", "uncommitted-read",
)  # fmt: skip
Ints = npt.NDArray[np.int64]
Columns = Mapping[str, Ints]
QUORUM_TOPIC = "__cluster_metadata"
WORDS: Mapping[str, tuple[str, ...]] = {
    "outcome": ("ok", "fail", "info"), "phase": ("warmup", "main", "recovery", "final"),
    "node": ("n1", "n2", "n3"), "source": ("list-offsets", "metadata-log", "metadata", "quorum"),
    "topic": ("log-0", QUORUM_TOPIC),
}  # fmt: skip


def read(root: Path, name: str, *columns: str) -> Columns:
    """Read columns of a table as integers.

    A word is replaced by its index in `WORDS`, a null by -1. Rows of the controllers' log are left
    out.
    """
    asked = [*columns, "topic"] if "partition" in columns else [*columns]
    words = [each for each in asked if each in WORDS]
    table = pq.read_table(root / "record" / f"{name}.parquet", columns=asked,
                          read_dictionary=words, use_threads=False)  # fmt: skip
    read = {each: _numbers(table[each].combine_chunks(), each) for each in asked}
    ours = read.pop("topic", None)
    return read if ours is None or (ours == 0).all() else select(read, ours == 0)


def _numbers(column: Any, name: str) -> Ints:  # noqa: ANN401 - dictionaries, and numbers
    if name in WORDS:
        known = [*(WORDS[name].index(word.as_py()) for word in column.dictionary), -1]
        return np.asarray(np.array(known)[column.indices.fill_null(len(known) - 1)], np.int64)
    return np.asarray(column.cast(pa.int64()).fill_null(-1), dtype=np.int64)


def by_partition(columns: Columns) -> dict[int, Columns]:
    """Split columns that are sorted by partition."""
    partition = columns["partition"]
    names = np.unique(partition).tolist()
    cuts = [np.searchsorted(partition, [number, number + 1]) for number in names]
    return {
        number: {name: column[start:end] for name, column in columns.items()}
        for number, (start, end) in zip(names, cuts, strict=True)
    }


def select(columns: Columns, mask: npt.NDArray[np.bool_]) -> Columns:
    """Return the rows where the mask is true."""
    return {name: column[mask] for name, column in columns.items()}


def check(root: Path) -> Counter[str]:
    """Return the number of anomalies that each check finds."""
    found: Counter[str] = Counter(dict.fromkeys(CHECKS, 0))
    found["malformed-history"] += malformed(
        read(root, "ops", "op_id", "process", "outcome", "invoke_ns", "complete_ns")
    )
    ranges = read(root, "reservations", "value_from", "value_to")
    sent = read(root, "sends", "partition", "op_id", "mop", "value", "offset", "outcome", "acked",
                "process", "invoke_ns", "complete_ns")  # fmt: skip
    sends = by_partition(sent)
    polls = by_partition(read(root, "polls", "partition", "op_id", "mop", "pos", "value", "offset",
                              "process", "phase", "complete_ns"))  # fmt: skip
    kept = by_partition(read(root, "replica_records", "partition", "node", "offset", "value",
                             "leader_epoch", "record_hash", "control"))  # fmt: skip
    looks = by_partition(read(root, "leadership", "partition", "source", "asked_ns", "observed_ns",
                              "leader", "leader_epoch", "high_watermark"))  # fmt: skip
    for partition, rows in sends.items():
        seen = select(looks[partition], looks[partition]["source"] == 0)
        logs = [select(kept[partition], kept[partition]["node"] == node) for node in range(3)]
        led = int(seen["leader"][np.argmax(seen["leader_epoch"])]) - 1
        for name, count in (
            *values(rows, polls[partition], logs[led], ranges),
            *order(rows, polls[partition], logs[led]),
            *replicas(logs, seen, polls[partition]),
        ):
            found[name] += int(count)
    return found


def malformed(ops: Columns) -> int:
    """Count repeated ids, ops that end before they begin, and overlapping ops of a process."""
    twice = len(ops["op_id"]) - len(np.unique(ops["op_id"]))
    ended = ops["complete_ns"] >= 0
    turned = int((ended & (ops["complete_ns"] < ops["invoke_ns"])).sum())
    order = np.lexsort((ops["invoke_ns"], ops["process"]))
    process, begun, done = (ops[name][order] for name in ("process", "invoke_ns", "complete_ns"))
    late = (process[1:] == process[:-1]) & ((done[:-1] > begun[1:]) | (done[:-1] < 0))
    return twice + turned + int(late.sum())


def values(
    sends: Columns, polls: Columns, log: Columns, ranges: Columns
) -> Iterator[tuple[str, int]]:
    """Yield the anomalies of single values, such as lost writes, duplicates and phantoms."""
    yield "malformed-history", len(sends["value"]) - len(np.unique(sends["value"]))
    acked = select(sends, sends["acked"] == 1)
    value, offset = acked["value"], acked["offset"]
    last = select(polls, polls["phase"] == WORDS["phase"].index("final"))
    passed = (offset >= 0) & (offset < last["offset"].max(initial=-1))
    gone = ~np.isin(value, log["value"]) | (passed & ~np.isin(value, last["value"]))
    yield "lost-write", gone.sum()
    yield "unseen", (~gone & ~np.isin(value, polls["value"])).sum()
    places = pairs((polls["value"], polls["offset"]), (log["value"], log["offset"]))
    yield "duplicate", (places[0][1:] == places[0][:-1]).sum()
    told = pairs((offset, value), (polls["offset"], polls["value"]))
    yield "inconsistent-offsets", (told[0][1:] == told[0][:-1]).sum()
    order = np.argsort(ranges["value_from"])
    starts, ends = ranges["value_from"][order], ranges["value_to"][order]
    at = np.searchsorted(starts, polls["value"], side="right") - 1
    unknown = (at < 0) | (polls["value"] >= ends[at])
    yield "phantom", (unknown | ~np.isin(polls["value"], sends["value"])).sum()
    yield "G1a", np.isin(polls["value"], sends["value"][sends["outcome"] == 1]).sum()
    by_value = np.argsort(log["value"], kind="stable")
    ranked = log["value"][by_value]
    at = np.minimum(np.searchsorted(ranked, value), len(ranked) - 1)
    there = ranked[at] == value
    yield "ack-mismatch", (there & (log["offset"][by_value[at]] != offset)).sum()


def pairs(*columns: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Return the distinct pairs, sorted."""
    first = np.concatenate([each[0] for each in columns])
    second = np.concatenate([each[1] for each in columns])
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    fresh = np.ones(len(first), dtype=np.bool_)
    fresh[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    return first[fresh], second[fresh]


def order(sends: Columns, polls: Columns, log: Columns) -> Iterator[tuple[str, int]]:
    """Yield the anomalies of order: offsets over time, and skips and steps back of a process."""
    acked = select(sends, (sends["acked"] == 1) & (sends["offset"] >= 0))
    ends = np.argsort(acked["complete_ns"], kind="stable")
    highest = np.maximum.accumulate(acked["offset"][ends])
    before = np.searchsorted(acked["complete_ns"][ends], acked["invoke_ns"]) - 1
    yield "offset-order", ((before >= 0) & (highest[before] > acked["offset"])).sum()
    inside, skipped, back = steps(polls, np.lexsort(
        (polls["pos"], polls["mop"], polls["op_id"], polls["process"])
    ), log["offset"])  # fmt: skip
    yield "int-poll-skip", (inside & skipped).sum()
    yield "poll-skip", (~inside & skipped).sum()
    yield "int-nonmonotonic-poll", (inside & back).sum()
    yield "nonmonotonic-poll", (~inside & back).sum()
    inside, skipped, back = steps(
        acked, np.lexsort((acked["mop"], acked["op_id"], acked["process"])), log["offset"]
    )
    yield "int-send-skip", (inside & skipped).sum()
    yield "int-nonmonotonic-send", (inside & back).sum()
    yield "nonmonotonic-send", (~inside & back).sum()


def steps(rows: Columns, by: Ints, log: Ints) -> tuple[npt.NDArray[np.bool_], ...]:
    """Return three masks on the steps between two offsets of a process.

    The masks are: both offsets are in one op, the log has records between them, and the second
    offset is not higher.
    """
    process, op, offset = (rows[name][by] for name in ("process", "op_id", "offset"))
    same = process[1:] == process[:-1]
    between = np.searchsorted(log, offset[1:]) - np.searchsorted(log, offset[:-1], side="right")
    return (
        (op[1:] == op[:-1])[same], (between > 0)[same], (offset[1:] <= offset[:-1])[same],
    )  # fmt: skip


def replicas(logs: list[Columns], seen: Columns, polls: Columns) -> Iterator[tuple[str, int]]:
    """Yield the anomalies of replicas, from their logs and the announced high watermarks."""
    for one, other in combinations(logs, 2):
        _, left, right = np.intersect1d(
            one["offset"], other["offset"], assume_unique=True, return_indices=True
        )
        same = one["leader_epoch"][left] == other["leader_epoch"][right]
        alike = one["record_hash"][left] == other["record_hash"][right]
        alike &= one["control"][left] == other["control"][right]
        alone = len(one["offset"]) + len(other["offset"]) - 2 * len(left)
        yield "log-divergence", (~same | ~alike).sum() + alone
        yield "two-leaders-in-epoch", (same & ~alike).sum()
    led = pairs((seen["leader_epoch"], seen["leader"]))
    yield "two-leaders-in-epoch", (led[0][1:] == led[0][:-1]).sum()
    for log in logs:
        yield "epoch-regression", (np.diff(log["leader_epoch"]) < 0).sum()
    by = np.lexsort((seen["asked_ns"], seen["leader_epoch"]))
    epoch, mark = seen["leader_epoch"][by], seen["high_watermark"][by]
    highest = np.maximum.accumulate(mark)
    yield "high-watermark-regression", (highest[:-1] > mark[1:]).sum()
    for log in logs:
        epochs, first = np.unique(log["leader_epoch"], return_index=True)
        earlier = np.searchsorted(epoch, epochs) - 1
        late = (earlier >= 0) & (log["offset"][first] < highest[earlier])
        yield "incomplete-leader", late.sum()
    by = np.argsort(seen["asked_ns"], kind="stable")
    after = np.searchsorted(seen["asked_ns"][by], polls["complete_ns"], side="right")
    told = after < len(by)
    mark = seen["high_watermark"][by][np.minimum(after, len(by) - 1)]
    yield "uncommitted-read", (told & (mark <= polls["offset"])).sum()


if __name__ == "__main__":
    print(json.dumps(check(Path(sys.argv[1]))))
