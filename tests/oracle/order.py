"""The order checks of clients' sends and reads, in plain Python on lists of dicts.

The code follows the definitions literally. A place is (op_id, offset) of the later of two records.
The contract judge measures distances in offsets. Jepsen's judge measures them as differences of the
values' indexes.
"""

from collections import defaultdict
from itertools import pairwise
from typing import Any

from tests.oracle.definitions import (
    Row,
    Rows,
    certainly_committed,
    final_log,
    leader_before_stop,
    log_start,
    lost_writes,
)

Place = tuple[int, int]
Step = tuple[Row | None, int, Row]
"""The previous record, if any; the offset after which the reader continued; the next record."""


def version_order(rows: Rows) -> dict[int, int]:
    """Return the value at each offset, for records that every reader must return."""
    never = {row["value"] for row in rows["sends"] if row["outcome"] == "fail"}
    never |= {row["value"] for row in rows["sends"] if row["txn_id"] is not None and
              row["outcome"] != "ok"}  # fmt: skip
    order: dict[int, int] = {}
    logged = {
        offset: row["value"]
        for offset, row in (final_log(rows, leader_before_stop(rows)) or {}).items()
        if row["value"] is not None and not row["control"]
    }
    read = [
        (row["offset"], row["value"])
        for row in rows["polls"]
        if row["offset"] is not None and row["value"] is not None
    ]
    told = [
        (row["offset"], row["value"])
        for row in certainly_committed(rows)
        if row["offset"] is not None
    ]
    for pairs in (sorted(logged.items()), sorted(read)):
        for offset, value in pairs:
            if value not in never:
                order.setdefault(offset, value)
    seen = {value for _, value in [*logged.items(), *read] if value not in never}
    for offset, value in sorted(told):
        if value not in seen:  # A value at another offset was acknowledged wrongly.
            order.setdefault(offset, value)
    return order


def ops_of_readers(rows: Rows) -> dict[int, list[tuple[int, list[Row]]]]:
    """Return, by process, the ok ops that read the partition, each with its records in order."""
    by_op: defaultdict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows["polls"]:
        if row["outcome"] == "ok" and row["offset"] is not None and row["process"] is not None:
            by_op[row["process"], row["op_id"]].append(row)
    found: defaultdict[int, list[tuple[int, list[Row]]]] = defaultdict(list)
    for (process, op_id), records in sorted(by_op.items()):
        ordered = sorted(records, key=lambda row: (row["mop"], row["pos"], row["offset"]))
        found[process].append((op_id, ordered))
    return found


def _places(row: Row) -> bool:
    """Return whether an assignment sets a reader's position, or makes it unknown."""
    if row["kind"] == "rebalance-assigned":
        return row["offset"] is not None
    return row["kind"] in {"assign", "subscribe", "left-out", "seek"}


def steps_between(rows: Rows) -> list[Step]:
    steps: list[Step] = []
    for process, ops in ops_of_readers(rows).items():
        moves = [
            row for row in rows["assignments"]
            if row["process"] == process and _places(row)
        ]  # fmt: skip
        stood: tuple[Row | None, int] | None = None
        since = -1
        for op_id, records in ops:
            since_then = [row for row in moves if since <= row["op_id"] < op_id]
            for move in sorted(since_then, key=lambda row: int(row["op_id"]))[-1:]:
                start, dealt = move["offset"] or 0, move["kind"] in {"rebalance-assigned", "seek"}
                if move["kind"] == "assign" or (dealt and move["op_id"] > since):
                    stood = (None, start - 1)
                elif not dealt:  # The rebalance may precede the op's reads.
                    stood = None
            if stood is not None:
                steps.append((*stood, records[0]))
            stood, since = (records[-1], records[-1]["offset"]), op_id
    return steps


def steps_inside(rows: Rows) -> list[Step]:
    turned = {row["op_id"] for row in rows["assignments"] if "rebalance" in row["kind"]}
    return [
        (before, before["offset"], after)
        for ops in ops_of_readers(rows).values()
        for op_id, records in ops
        for before, after in pairwise(records)
        if op_id not in turned and (before["mop"], before["pos"]) != (after["mop"], after["pos"])
    ]


def skips(rows: Rows, steps: list[Step]) -> set[Place]:
    """Return steps over a committed record that is neither lost nor deleted by retention."""
    order, lost, start = version_order(rows), lost_writes(rows), log_start(rows)
    due = [offset for offset, value in order.items() if value not in lost and offset >= start]
    return {
        (row["op_id"], row["offset"])
        for _, after, row in steps
        if any(after < offset < row["offset"] for offset in due)
    }


def steps_back(steps: list[Step]) -> set[Place]:
    return {(row["op_id"], row["offset"]) for _, after, row in steps if row["offset"] <= after}


def ops_of_writers(rows: Rows) -> dict[int, list[tuple[int, list[Row]]]]:
    """Return, by process, the ops with acknowledged sends that did not fail, each in order."""
    by_op: defaultdict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows["sends"]:
        told = row["acked"] and row["offset"] is not None and row["process"] is not None
        if told and row["outcome"] in {"ok", "info"}:
            by_op[row["process"], row["op_id"]].append(row)
    found: defaultdict[int, list[tuple[int, list[Row]]]] = defaultdict(list)
    for (process, op_id), sent in sorted(by_op.items()):
        found[process].append((op_id, sorted(sent, key=lambda row: (row["mop"], row["value"]))))
    return found


def sends_between(rows: Rows) -> list[Step]:
    return [
        (before[-1], before[-1]["offset"], after[0])
        for ops in ops_of_writers(rows).values()
        for (_, before), (_, after) in pairwise(ops)
    ]


def sends_inside(rows: Rows) -> list[Step]:
    return [
        (before, before["offset"], after)
        for ops in ops_of_writers(rows).values()
        for _, sent in ops
        for before, after in pairwise(sent)
        if before["mop"] != after["mop"]
    ]


def skips_of_others(rows: Rows) -> set[Place]:
    order = version_order(rows)
    return {
        (row["op_id"], row["offset"])
        for _, after, row in sends_inside(rows)
        if any(after < offset < row["offset"] for offset in order)
    }


def offset_order(rows: Rows) -> set[Place]:
    acked = [
        row for row in rows["sends"]
        if row["acked"] and None not in (row["offset"], row["invoke_ns"], row["complete_ns"])
    ]  # fmt: skip
    return {
        (later["op_id"], later["offset"])
        for earlier in acked
        for later in acked
        if earlier["complete_ns"] < later["invoke_ns"] and earlier["offset"] > later["offset"]
    }


def ack_mismatches(rows: Rows) -> dict[tuple[int, int, int], list[int]]:
    """Return wrongly acknowledged sends, with the real offsets of each.

    A send is (op_id, acknowledged offset, value).
    """
    leader = leader_before_stop(rows)
    log = final_log(rows, leader)
    start = 0 if log is None else log_start(rows, leader)
    stands: defaultdict[Any, set[int]] = defaultdict(set)
    for row in rows["polls"] if log is None else log.values():
        if row["offset"] is not None:
            stands[row["value"]].add(row["offset"])
    return {
        (row["op_id"], row["offset"], row["value"]): sorted(stands[row["value"]])
        for row in rows["sends"]
        if row["acked"] and row["offset"] is not None and row["value"] in stands
        and row["offset"] not in stands[row["value"]] and row["offset"] >= start
    }  # fmt: skip
