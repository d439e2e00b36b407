"""The rule for KAFKA-20734 with reads of aborted records, and on which releases it counts."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.mechanisms import MECHANISMS
from tests.test_mechanisms import TORN, Case

ABORTED = replace(
    TORN, anomaly="G1a",
    example={
        "partition": 3, "evidence": {"writer": 75, "value": 7},
        "cause": str(TORN.example["cause"]).partition("read, ")[2],
    },
)  # fmt: skip


def test_a_read_of_an_aborted_record_shows_a_skipped_marker(tmp_path: Path) -> None:
    assert ABORTED.shown("KAFKA-20734", tmp_path) == ("G1a",)


def test_a_hidden_part_without_a_marker_shows_a_skipped_marker(tmp_path: Path) -> None:
    told = str(TORN.example["cause"]).replace(", where the record was read,", "")
    assert TORN.told(cause=told).shown("KAFKA-20734", tmp_path) == ("torn-transaction",)


HANGING = replace(
    TORN, anomaly="hanging-transaction",
    example={
        "partition": 3, "evidence": {"last_stable_offset": 340},
        "cause": "its client got the answer at 121.267 s that it had committed, but no marker for"
                 " the transaction of op 75 (txn-8), producer 3 is in the logs of n1, n2, n3: its"
                 " coordinator, n3, leader of __transaction_state-3 in epoch 5, then n2 in epoch 6,"
                 " did not write one",
    },
)  # fmt: skip


def test_a_transaction_that_hangs_shows_a_skipped_marker(tmp_path: Path) -> None:
    assert HANGING.shown("KAFKA-20734", tmp_path) == ("hanging-transaction",)


@pytest.mark.parametrize(
    "case",
    [
        HANGING.told(partition=1),
        HANGING.told(cause=str(HANGING.example["cause"]).replace("op 75", "op 76")),
        HANGING.told(cause=str(HANGING.example["cause"]).replace("then n2", "then n4")),
        ABORTED.told(partition=2),
        ABORTED.told(evidence={"writer": 76}),
        ABORTED.told(evidence={}),
        replace(ABORTED, logs={}),
    ],
)
def test_another_read_shows_none(case: Case, tmp_path: Path) -> None:
    assert case.shown("KAFKA-20734", tmp_path) == ()


def test_only_releases_with_the_bug_count() -> None:
    found = MECHANISMS["KAFKA-20734"]
    assert [found.is_in(f"kafka:{each}") for each in ("4.2.2", "4.3.1", "4.4.0")] == [
        False, True, True
    ]  # fmt: skip
