"""A transaction whose commit timed out committed after all, if a reader was shown any of it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.stored import load_facts
from checkers.transactions import unknown_sends, witnessed
from results.record.paths import RunPaths
from results.record.tables import TABLES
from tests.checkers.faithful import FaithfulRun
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import PLACE, A, B

OTHER = {**PLACE, "partition": 1}


def sent(value: int, op_id: int, /, **changes: object) -> Row:
    return {**PLACE, "value": value, "op_id": op_id, "txn_id": op_id, "outcome": "info", **changes}


def polled(value: int, /, **changes: object) -> Row:
    row = {**PLACE, "value": value, "isolation": "read_committed", "outcome": "ok", "op_id": 99}
    return {**row, **changes}


def table(name: str, *rows: Row) -> "pa.Table":
    return pa.Table.from_pylist(list(rows), schema=TABLES[name])


def ops(sends: list[Row], *polls: Row) -> frozenset[int]:
    return witnessed(unknown_sends(table("sends", *sends)), [table("polls", *polls)])


def test_one_record_that_was_read_is_proof_for_the_whole_transaction() -> None:
    sends = [sent(A, 1), sent(B, 1, **OTHER), sent(B, 2)]
    assert ops(sends, polled(B, **OTHER)) == {1}
    assert ops(sends, polled(A), polled(A), polled(B)) == {1, 2}


@pytest.mark.parametrize(
    ("send", "poll"),
    [
        ({}, {"isolation": "read_uncommitted"}),  # May be shown what is aborted later.
        ({}, {"outcome": "info"}),
        ({}, {"outcome": "fail"}),
        ({}, {"partition": 1}),  # Not where it was sent to: a stranger, and no proof.
        ({}, {"topic": "log-1"}),
        ({}, {"topic_id": "id-1"}),
        ({"topic_id": None}, {"topic_id": None}),  # Around a deletion nobody can tell.
        ({}, {"value": B}),
        ({"txn_id": None}, {}),  # A plain send's outcome is its own.
        ({"outcome": "ok"}, {}),  # Known anyway.
        ({"outcome": "fail"}, {}),  # Aborted for certain: that is a G1a.
        ({"value": None}, {"value": None}),
    ],
)
def test_what_is_no_proof(send: dict[str, Any], poll: dict[str, Any]) -> None:
    assert ops([sent(A, 1, **send)], polled(A, **poll)) == frozenset()


def test_parts_are_looked_through_one_by_one() -> None:
    unknown = unknown_sends(table("sends", sent(A, 1), sent(B, 2)))
    parts = [table("polls", polled(A)), table("polls"), table("polls", polled(B))]
    assert witnessed(unknown, parts) == {1, 2}


def test_a_run_names_its_witnessed_transactions(tmp_path: Path) -> None:
    root = FaithfulRun(1, steps=4).write(tmp_path / "runs" / "log" / "20260101T000000Z-1")
    record = RunPaths(root).record
    for name, schema in TABLES.items():
        pq.write_table(schema.empty_table(), record / f"{name}.parquet")
    pq.write_table(table("sends", sent(A, 7), sent(B, 8)), record / "sends.parquet")
    assert load_facts(root).witnessed == frozenset()
    pq.write_table(table("polls", polled(A)), record / "polls.parquet")
    assert load_facts(root).witnessed == {7}
    (record / "polls.parquet").write_bytes(b"PAR1 and nothing more")
    assert load_facts(root).witnessed == frozenset()
