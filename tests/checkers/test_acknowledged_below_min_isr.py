"""acknowledged-below-min-isr: made groups with it and, a hair beside them, without."""

from dataclasses import replace

import pytest

from checkers.acknowledged_below_min_isr import CHECKER
from checkers.group import Group
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    facts,
    found,
    group,
    leads,
    log,
    sentences,
)


def isr(at_s: float, *brokers: int, by: str = "n1") -> Row:
    at = int(at_s * S)
    return {"source": "metadata", "observer": by, "leader": 1, "leader_epoch": 0, "isr": [*brokers],
            "incarnation": 0, "asked_ns": at, "observed_ns": at + 1}  # fmt: skip


def acked(begin_s: float, end_s: float, *, acks: str = "all", op: int = 1) -> Row:
    times = {"invoke_ns": int(begin_s * S), "complete_ns": int(end_s * S)}
    return {**ack((A, B)[op % 2], op, op=op, acks=acks), **times}


LOW = [isr(at, 1) for at in range(10, 31, 2)]
"""From 10 s to 30 s; so what was begun after 14 s and acknowledged before 26 s counts."""
SENDS = [acked(14.001, 14.5), acked(19, 25.9, op=2)]


def made(told: list[Row], sends: list[Row] | None = None) -> Group:
    return group(leadership=told, sends=SENDS if sends is None else sends)


def test_what_was_acknowledged_while_the_isr_was_too_small_is_told_once() -> None:
    result = found(CHECKER, made(LOW))
    assert result.rows == 2
    (anomaly,) = result.anomalies
    assert anomaly.sentence == (
        "log-0-0 acknowledged 2 sends with acks=all from 14.500 s to 25.900 s, although from"
        " 10.000 s to 30.000 s every broker that answered reported an ISR smaller than"
        " min.insync.replicas (2), last [1]"
    )
    assert anomaly.evidence == {
        "acknowledged": 2, "from_ns": 14_500_000_000, "to_ns": 25_900_000_000, "isr": [1],
        "isr_from_ns": 10 * S + 1, "isr_to_ns": 30 * S, "min_insync_replicas": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    "told",
    [
        [*LOW, isr(20, 1, 2, by="n2")],  # Somebody knew of two.
        [*LOW[:4], *LOW[7:]],  # From 16 s to 24 s nobody was asked.
        [isr(at, 1, 2) for at in range(10, 31, 2)],
        [each for each in LOW if each["asked_ns"] < 24 * S],
        [],
    ],
)
def test_what_anybody_may_have_known_otherwise(told: list[Row]) -> None:
    assert sentences(CHECKER, made(told)) == []


@pytest.mark.parametrize(
    "sends",
    [
        [acked(14, 14.5), acked(19, 25.9, op=2)],  # Four seconds behind the first answer.
        [acked(14.001, 14.5), acked(19, 26.1, op=2)],  # Less than four before the last one.
        [acked(14.001, 14.5), acked(19, 19.5, op=2)],  # Five seconds: no longer.
        [acked(15, 15.5, acks="1"), acked(19, 25, op=2)],
        [{**acked(15, 15.5), "acked": False, "outcome": "info"}, acked(19, 25, op=2)],
    ],
)
def test_too_few_acknowledgements_or_too_close_to_another_answer(sends: list[Row]) -> None:
    assert sentences(CHECKER, made(LOW, sends)) == []


@pytest.mark.parametrize(
    ("reported", "written", "count"),
    [(4, 5, 1), (5, 5, 0), (6, 5, 0), (None, 5, 0), (4, 4, 0), (4, -1, 0)],
)
def test_the_isr_of_an_earlier_epoch_is_not_that_of_the_leader_that_acknowledged(
    reported: int | None, written: int, count: int
) -> None:
    """A broker that is cut off still knows the full ISR of the leader before."""
    low: list[Row] = [{**each, "leader_epoch": 5} for each in LOW]
    stale: list[Row] = [
        {**isr(at, 1, 2, 3, by="n3"), "leader": 2, "leader_epoch": reported}
        for at in range(11, 30, 2)
    ]
    on = group(leadership=[*low, *stale, {**leads(1, 5), "isr": [1]}], sends=SENDS,
               replica_records=log("n1", (4, C), (written, B), (written, A)))  # fmt: skip
    result = found(CHECKER, on)
    assert len(result.anomalies) == count
    assert result.rows == 2 * count
    if count:
        assert "every broker that answered about epoch 5 or later reported" in (
            result.anomalies[0].sentence
        )
    # With ZooKeeper, a leader may get its epoch before it gets the news about the ISR.
    old = facts(plan={"system": "kafka:2.8.2:zookeeper"})
    assert not found(CHECKER, replace(on, facts=old)).anomalies


def test_it_applies_where_more_than_one_replica_is_asked_for() -> None:
    assert CHECKER.applies(facts())
    assert not CHECKER.applies(facts(plan={"min_insync": 1}))
    assert not CHECKER.applies(facts(plan={"acks": "1"}))
    assert found(CHECKER, made([])).rows == 0


def exactly(from_ns: int, to_ns: int) -> list[Row]:
    """A small ISR that was first seen at one time, and last asked for at another."""
    times = [*range(from_ns, to_ns, 2 * S), to_ns]
    return [{**isr(0, 1), "asked_ns": at, "observed_ns": at} for at in times]


def test_sends_count_from_the_first_to_the_last_moment_in_which_it_may_show() -> None:
    for longer_ns, counted in ((0, 0), (1, 1)):
        told = exactly(10 * S, 23 * S + longer_ns)
        at_once = {**acked(14, 15), "invoke_ns": 14 * S}
        assert found(CHECKER, made(told, [at_once])).rows == counted
    low = exactly(10 * S, 30 * S)
    for begin_ns, end_ns, counted in (
        (14 * S, 26 * S, 1),
        (14 * S - 1, 26 * S, 0),
        (14 * S, 26 * S + 1, 0),
        (26 * S, None, 1),
        (26 * S + 1, None, 0),
    ):
        send = {**acked(0, 1), "invoke_ns": begin_ns, "complete_ns": end_ns}
        assert found(CHECKER, made(low, [send])).rows == counted, (begin_ns, end_ns)


def test_what_was_refused_counts_and_what_asked_for_less_does_not() -> None:
    refused = {**acked(15, 16), "acked": False, "outcome": "fail"}
    assert found(CHECKER, made(LOW, [refused])).rows == 1
    for weak in ("0", "1"):
        result = found(CHECKER, made(LOW, [acked(15, 16, acks=weak)]))
        assert (result.rows, result.unshown) == (0, ())


def test_the_isr_that_was_told_last_is_in_the_evidence() -> None:
    (anomaly,) = found(CHECKER, made([*LOW[:-1], isr(30, 2)])).anomalies
    assert anomaly.evidence["isr"] == [2]
