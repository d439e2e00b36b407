"""Rows for partitions that an assignment leaves out, so that each partition can tell."""

import pyarrow as pa

from checkers.left_out import left_out
from results.record.tables import LIVE, TABLES
from tests.checkers.faithful_clients import Row

HERE = {"topic": "log-0", "topic_id": "id-0"}
ONE, TWO, OTHER = (
    {**HERE, "partition": 1}, {**HERE, "partition": 2},
    {"topic": "log-1", "topic_id": "id-1", "partition": 1},
)  # fmt: skip


def op(op_id: int, f: str = "assign", *, process: int = 1, outcome: str = "ok") -> Row:
    return {"op_id": op_id, "process": process, "f": f, "outcome": outcome, "invoke_ns": 10 * op_id}


def named(op_id: int, *places: Row, process: int = 1, kind: str = "assign") -> list[Row]:
    return [{"op_id": op_id, "process": process, "kind": kind, **place} for place in places]


def sends(op_id: int, place: Row, *, process: int = 1) -> list[Row]:
    return [{"op_id": op_id, "mop": mop, "process": process, **place} for mop in range(3)]


def told(ops: list[Row], moves: list[Row], sent: list[Row]) -> list[tuple[int, str, int]]:
    found = left_out(
        pa.Table.from_pylist(ops, schema=TABLES["ops"]),
        pa.Table.from_pylist(moves, schema=LIVE["assignments"]),
        pa.Table.from_pylist(sent, schema=TABLES["sends"]),
    ).to_pylist()
    assert all(row["kind"] == "left-out" and row["offset"] is None for row in found)
    assert all(row["time_ns"] == 10 * row["op_id"] for row in found)
    assert {row["process"] for row in found} <= {1}
    return sorted((row["op_id"], row["topic"], row["partition"]) for row in found)


def test_an_assignment_leaves_out_what_the_one_before_it_named() -> None:
    ops = [op(1), op(2), op(3)]
    moves = [*named(1, ONE, TWO), *named(2, ONE), *named(3, TWO)]
    assert told(ops, moves, []) == [(2, "log-0", 2), (3, "log-0", 1)]


def test_an_assignment_of_nothing_leaves_out_all_and_partitions_of_two_topics_are_two() -> None:
    assert told([op(1), op(2)], named(1, ONE, OTHER), []) == [(2, "log-0", 1), (2, "log-1", 1)]
    assert told([op(1), op(2)], [*named(1, ONE), *named(2, OTHER)], []) == [(2, "log-0", 1)]


def test_what_a_process_sent_to_is_left_out_as_well_and_once_only() -> None:
    ops = [op(1, "send"), op(2), op(3, "send"), op(4, "send"), op(5), op(6)]
    moves = [*named(2, ONE), *named(5, ONE), *named(6, ONE)]
    sent = [*sends(1, ONE), *sends(1, OTHER), *sends(3, TWO), *sends(4, TWO)]
    assert told(ops, moves, sent) == [(2, "log-1", 1), (5, "log-0", 2)]


def test_other_processes_failed_assignments_and_other_kinds_do_not_count() -> None:
    first = named(1, ONE)
    assert told([op(1), op(2, process=2)], first, []) == []
    assert told([op(1), op(2, outcome="fail")], first, []) == []
    assert told([op(1), op(2, "subscribe")], first, []) == []
    assert told([op(1), op(2, outcome="info")], first, []) == [(2, "log-0", 1)]
    revoked = named(1, ONE, kind="rebalance-revoked")
    assert told([op(1, "poll"), op(2)], revoked, []) == []
    assert told([op(1), op(2)], [*first, *named(2, ONE, process=2)], []) == [(2, "log-0", 1)]


def test_ops_without_a_process_and_empty_records_leave_out_nothing() -> None:
    assert told([op(1), {**op(2), "process": None}], named(1, ONE), []) == []
    assert told([], [], []) == []
    assert told([op(1)], named(1, ONE), sends(2, TWO)) == []
