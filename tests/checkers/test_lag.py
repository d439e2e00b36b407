"""End-to-end lag: from a send's invocation to the end of the first poll that had its value."""

from typing import Any

import pytest

from checkers.statistics import STATISTICS, lag, partition_statistics
from tests.checkers.partition_rows import A, B, S, ack, elected, group, leads, read

MS = 1_000_000
Row = dict[str, Any]


def sent(value: int, at_ns: int) -> Row:
    return {**ack(value, 0), "invoke_ns": at_ns, "complete_ns": at_ns + MS}


def polled(value: int, at_ns: int | None, *, phase: str = "main") -> Row:
    return {**read(value, 0, phase=phase), "invoke_ns": 0, "complete_ns": at_ns}


def rows(*, sends: list[Row], polls: list[Row]) -> list[tuple[int, float, float]]:
    told = lag(group(sends=sends, polls=polls)).to_pylist()
    return [(row["window_ns"] // S, row["p50_ms"], row["max_ms"]) for row in told]


def test_the_first_reader_counts_and_the_second_of_the_send_names_the_row() -> None:
    polls = [polled(A, 9 * S), polled(A, 7 * S), polled(B, 7 * S + 5 * MS)]
    sends = [sent(A, 5 * S + 400 * MS), sent(B, 5 * S + 500 * MS)]
    assert rows(sends=sends, polls=polls) == [(5, 1505.0, 1600.0)]


@pytest.mark.parametrize(
    "polls",
    [
        [],
        [polled(B, 7 * S)],
        [polled(A, None)],
        [polled(A, 7 * S, phase="final")],  # It comes when all is over, and tells no lag.
        [polled(A, 4 * S)],  # Before it was sent: the harness's failing.
    ],
    ids=["none", "another", "open", "final", "backwards"],
)
def test_what_no_reader_had_while_the_run_went_on_has_no_lag(polls: list[Row]) -> None:
    assert rows(sends=[sent(A, 5 * S)], polls=polls) == []


def test_wild_times_and_missing_values_neither_raise_nor_warn() -> None:
    sends = [sent(A, 2**62), {**sent(B, 5 * S), "invoke_ns": None}, {**sent(A, 1), "value": None}]
    polls = [polled(A, 2**63 - 1), {**polled(B, 7 * S), "value": None}]
    table = lag(group(sends=sends, polls=polls))
    assert table.schema == STATISTICS["lag"]
    assert table.num_rows == 1


def test_a_belief_that_those_who_know_deny_is_no_leader() -> None:
    def leaders(*rows: Row) -> list[tuple[int, int]]:
        found = partition_statistics(group(leadership=list(rows)))["leaders"].to_pylist()
        return [(row["leader"], row["epoch"]) for row in found]

    belief = {**leads(3, 2, at=2 * S, source="metadata"), "observer": "n1"}
    assert leaders(leads(1, 1), belief) == [(1, 1), (3, 2)]
    assert leaders(leads(1, 1), belief, elected(2, 2, 9)) == [(1, 1)]
    assert leaders(leads(1, 1), belief, leads(2, 2, at=3 * S)) == [(1, 1), (2, 2)]
