"""Which of many anomalies are described, and how the others are counted."""

import pytest

from checkers.findings import anomaly_at, findings
from checkers.guarantees import guarantees
from checkers.protocol import MAX_DESCRIBED, Findings, Labels
from results.record.verdict import Anomaly
from tests.checkers.partition_rows import facts, group


def made(count: int, excused: range) -> Findings:
    on = group()

    def describe(offset: int) -> Anomaly:
        return anomaly_at(on, "lost-write", sentence="", evidence={}, offset=offset)

    def labels(offset: int) -> Labels:
        return (("acks-0-1",) if offset in excused else ()), ()

    return findings(7, list(range(count)), describe, labels)


def test_few_are_all_described_in_their_order() -> None:
    few = made(MAX_DESCRIBED, range(10))
    assert [each.offset for each in few.anomalies] == list(range(MAX_DESCRIBED))
    assert (few.rows, few.beyond, few.gaps) == (7, {}, ())
    assert few.anomalies[9].excuses == ("acks-0-1",)
    assert few.anomalies[10].excuses == ()


def test_of_many_those_that_nothing_excuses_are_described_first() -> None:
    many = made(MAX_DESCRIBED + 50, range(MAX_DESCRIBED + 20))
    offsets = [each.offset for each in many.anomalies]
    assert offsets[:30] == list(range(MAX_DESCRIBED + 20, MAX_DESCRIBED + 50))
    assert offsets[30:] == list(range(MAX_DESCRIBED - 30))
    assert many.beyond == {(("acks-0-1",), ()): 50}


def test_what_is_promised_of_the_recovery_is_told() -> None:
    plan: dict[str, object] = {"budgets": {"unavailable_s": 7, "election_s": 2.5, "isr_s": 90}}
    assert guarantees(facts(plan=plan))[-1] == (
        "after the last fault is healed, every partition has a leader within 2.5 s, accepts"
        " messages within 7 s, and has all of its 3 replicas in sync within 90 s"
    )
    alone = guarantees(facts(plan={**plan, "replication": 1, "min_insync": 1}))
    assert alone[-1].endswith("accepts messages within 7 s")
    story = {"workload": "script", "partitions": 1, "scenario": {"name": "by-hand"}}
    assert not any("healed" in each for each in guarantees(facts(plan=story)))


@pytest.mark.parametrize(
    ("plan", "promised", "excepted"),
    [
        ({}, "is stored once", True),
        ({"workload": "txn"}, "is stored once", False),
        ({"idempotence": False}, "may be stored twice", False),
    ],
)
def test_what_the_contract_allows_of_one_copy_is_named_where_it_is_promised(
    plan: dict[str, object], promised: str, *, excepted: bool
) -> None:
    (once,) = [each for each in guarantees(facts(plan=plan)) if "stored" in each]
    assert promised in once
    assert ("in a new producer epoch" in once) == excepted
    assert once.endswith("may store it twice (librdkafka#4953, KIP-360)") == excepted
