"""A transaction whose commit timed out committed after all, if a reader was shown any of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.facts import DiskLoss, UncleanOrder
from checkers.stored import load_facts
from checkers.transactions import doubts, unknown_sends, witnessed
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.tables import TABLES
from tests.checkers.faithful import FaithfulRun
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import PLACE, A, B, C, S

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


NODES = ("n1", "n2", "n3")


def lost(*nodes: str, began_s: int = 10, healed_s: int = 20, **changes: object) -> list[DiskLoss]:
    """Return losses of power in partition 0: each took what stood from an offset on."""
    base: Row = {"topic": "log-0", "partition": 0, "end_after": 4, "end_before": 6}
    values: Row = {**base, **changes}
    return [
        DiskLoss(
            nodes=frozenset({node}), until_ns=(began_s + 1) * S, began_ns=began_s * S,
            healed_ns=healed_s * S, excuse="power-loss", **values,
        )
        for node in nodes
    ]  # fmt: skip


ORDER = UncleanOrder(topic="log-0", partition=0, began_ns=10 * S, seen_ns=20 * S)


@pytest.mark.parametrize(
    ("losses", "orders", "shown"),
    [
        ([], [], {1, 2, 3}),
        (lost(*NODES), [], {1, 3}),
        (lost("n1"), [], {1, 3}),  # It may have been the whole ISR.
        ([*lost("n1"), *lost("n2", began_s=35, healed_s=36)], [], {1}),
        (lost(*NODES, end_after=6, least_after=4), [], {1, 3}),  # One node lost nothing.
        (lost(*NODES, end_after=6), [], {1, 2, 3}),  # It took nothing.
        (lost(*NODES, partition=1), [], {1, 2, 3}),
        (lost(*NODES, topic="", partition=-1), [], {1, 3}),  # Not confirmed: it may take anything.
        (lost(*NODES, healed_s=-1), [], {1}),
        ([], [ORDER], {1, 3}),
        ([], [replace(ORDER, partition=1)], {1, 2, 3}),
        ([], [replace(ORDER, seen_ns=-1)], {1}),
    ],
)
def test_where_markers_may_be_gone_a_record_that_is_read_later_proves_nothing(
    losses: list[DiskLoss], orders: list[UncleanOrder], shown: set[int]
) -> None:
    """The marker of an abort is gone, and the producer's next marker decides for its records."""
    sends = [
        sent(A, 1, invoke_ns=5 * S),
        sent(B, 2, invoke_ns=8 * S),
        sent(C, 3, invoke_ns=30 * S),
    ]
    polls = [polled(A, complete_ns=9 * S), polled(B, complete_ns=40 * S)]
    polls.append(polled(C, complete_ns=41 * S))
    unknown, doubtful = unknown_sends(table("sends", *sends)), doubts(Plan(), losses, orders)
    assert witnessed(unknown, [table("polls", *polls)], doubtful) == shown


def test_a_run_trusts_no_witness_where_its_faults_took_markers(tmp_path: Path) -> None:
    root = FaithfulRun(1, steps=4).write(tmp_path / "runs" / "log" / "20260101T000000Z-1")
    record = RunPaths(root).record
    for name, schema in TABLES.items():
        pq.write_table(schema.empty_table(), record / f"{name}.parquet")
    pq.write_table(table("sends", sent(A, 7, invoke_ns=S)), record / "sends.parquet")
    pq.write_table(table("polls", polled(A, complete_ns=30 * S)), record / "polls.parquet")
    assert load_facts(root).witnessed == {7}
    replicas = [
        {"node": node, "topic": "log-0", "partition": 0, "log_end_before": 6, "log_end_after": 4}
        for node in NODES
    ]
    fault = {
        "fault_id": 1, "kind": "power-loss", "targets": [*NODES], "requested_ns": 10 * S,
        "confirmed_ns": 11 * S, "healed_ns": 20 * S, "spec": '{"begun": true}',
        "effect": json.dumps({"replicas": replicas}), "heal_effect": "{}",
    }  # fmt: skip
    pq.write_table(table("faults", fault), record / "faults.parquet")
    assert load_facts(root).witnessed == frozenset()
