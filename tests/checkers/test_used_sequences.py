"""A number that librdkafka used twice is named, and excuses nothing else."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from checkers import inconsistent_offsets, lost_write, offset_order, send_order
from checkers.facts import RunFacts
from checkers.group import Group
from checkers.protocol import Checker
from checkers.registry import CHECKERS
from checkers.used_sequences import reason_of, used_twice
from results.record.declared import Declared
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    facts,
    final_read,
    group,
    leads,
    log,
    read,
    state,
)

D = pack_value(1, 4)
EXCUSED = (("sequence-used-twice",), ())
IN_TXN = {"txn_id": 1, "transactional_id": "t-0"}
Change = Callable[[dict[str, list[Row]]], object]


def about(**plan: object) -> RunFacts:
    return facts(plan={"workload": "txn", "after_timeout": "go-on", **plan})


def marker(offset: int, *, epoch: int = 0) -> Row:
    (row,) = log("n1", (3, 0), start=offset)
    return {**row, "value": None, "control": True, "sequence": -1, "producer_epoch": epoch}


def rows() -> dict[str, list[Row]]:
    """A stands at offset 0, unanswered and aborted; B was acknowledged in its place.

    C, of another producer, was acknowledged at offset 2 before B was sent.
    """
    first = {**ack(A, None, op=1, at=S), **IN_TXN, "acked": False, "outcome": "fail"}
    other = {**ack(C, 2, op=2, at=2 * S), **IN_TXN, "transactional_id": "t-1"}
    second = {**ack(B, 0, op=3, at=3 * S), **IN_TXN, "mop": 0}
    return {
        "sends": [first, other, second],
        "polls": [read(A, 0), read(C, 2)],
        "leadership": [leads(1, 3)],
        "replica_records": [
            *log("n1", (3, A)), marker(1), *[{**each, "producer_id": 2} for each in
            log("n1", (3, C), start=2)], {**marker(3), "producer_id": 2}, marker(4),
        ],
        "replica_states": [state("n1", 5, 5)],
    }  # fmt: skip


def history(change: Change | None = None, on: RunFacts | None = None) -> Group:
    tables = rows()
    if change is not None:
        change(tables)
    return group(on or about(), **tables)


def labels(checker: Checker, on: Group) -> tuple[tuple[str, ...], tuple[str, ...]]:
    (anomaly,) = checker.check(on).anomalies
    return anomaly.excuses, anomaly.broken_premises


ALARMED = pytest.mark.parametrize(
    "checker", [lost_write.CHECKER, inconsistent_offsets.CHECKER, offset_order.CHECKER]
)


@ALARMED
def test_a_record_that_was_taken_for_a_copy_is_excused_and_named(checker: Checker) -> None:
    on = history()
    assert labels(checker, on) == EXCUSED
    assert list(used_twice(on)) == [B]
    (anomaly,) = checker.check(on).anomalies
    told = (anomaly.cause or "") + checker.why(on, anomaly)
    assert "librdkafka" in told
    assert "sequence number" in told


def test_the_reason_names_the_number_and_the_first_record() -> None:
    told = reason_of(history(), B)
    assert "the sequence number 0 of producer 1 in epoch 0" in told
    assert "of op 1" in told
    assert reason_of(history(), A) == ""


def _send(tables: dict[str, list[Row]], value: int, **changes: object) -> None:
    (row,) = [row for row in tables["sends"] if row["value"] == value]
    row.update(changes)


def fenced(tables: dict[str, list[Row]], epoch: int = 1) -> None:
    """The second transaction failed, and a new epoch for its producer aborted it."""
    _send(tables, B, outcome="fail")
    tables["replica_records"][-1].update(producer_epoch=epoch)


def test_a_second_transaction_that_a_new_epoch_aborted_had_the_epoch_before_it() -> None:
    """As librdkafka does after OUT_OF_ORDER_SEQUENCE_NUMBER. Nobody gets the marker's epoch."""
    on = history(fenced)
    assert list(used_twice(on)) == [B]
    assert labels(inconsistent_offsets.CHECKER, on) == EXCUSED


@pytest.mark.parametrize("checker", [inconsistent_offsets.CHECKER, offset_order.CHECKER])
def test_a_commit_without_an_answer_may_have_been_aborted_by_a_new_epoch(checker: Checker) -> None:
    """The coordinator's timeout, or the next producer, aborted it. No commit has that epoch."""

    def unanswered(tables: dict[str, list[Row]]) -> None:
        fenced(tables)
        _send(tables, B, outcome="info")

    on = history(unanswered)
    assert list(used_twice(on)) == [B]
    assert labels(checker, on) == EXCUSED
    # A read_committed reader got the record, so the marker of another epoch is not its own.
    assert not used_twice(history(unanswered, replace(about(), witnessed=frozenset({3}))))


@pytest.mark.parametrize(
    ("version", "raised", "excused"),
    [("4.0.0", 2, True), ("4.0.0", 1, True), ("4.0.1", 1, True), ("4.0.1", 2, False),
     ("4.1.0", 1, True), ("4.1.0", 2, False)],
)  # fmt: skip
def test_kafka_4_0_0_may_raise_the_epoch_twice(version: str, raised: int, *, excused: bool) -> None:
    """Once to fence the producer, and once because the transaction ended (KAFKA-19367).

    The client goes on in the epoch after the marker's.
    """

    def change(tables: dict[str, list[Row]]) -> None:
        fenced(tables, raised)
        (record,) = log("n1", (3, D), start=5)
        tables["replica_records"].append({**record, "producer_epoch": raised + 1})
        tables["replica_states"] = [state("n1", 6, 6)]

    on = history(change, about(system=f"kafka:{version}"))
    assert list(used_twice(on)) == [B] * excused


NOT_IT: dict[str, Change] = {
    "the first one was acknowledged": lambda t: _send(t, A, acked=True, offset=0),
    "the first one committed": lambda t: _send(t, A, outcome="ok"),
    "nobody knows how the first one ended": lambda t: _send(t, A, outcome="info"),
    "it is another client's": lambda t: _send(t, A, transactional_id="t-7"),
    "it was sent later": lambda t: _send(t, A, invoke_ns=9 * S, complete_ns=10 * S),
    "the epoch rose, and the second one was not aborted": (
        lambda t: t["replica_records"][-1].update(producer_epoch=1)
    ),
    "no second marker is there": lambda t: t["replica_records"].pop(),
    "the second marker is another producer's": (
        lambda t: t["replica_records"][-1].update(producer_id=5)
    ),
    "nobody sent what stands there": lambda t: t["sends"].pop(0),
    "nothing stands there": lambda t: t["replica_records"].pop(0),
}


def _with_record_of_next_epoch(tables: dict[str, list[Row]]) -> None:
    fenced(tables)
    (record,) = log("n1", (3, D), start=5)
    tables["replica_records"].append({**record, "producer_epoch": 1})
    tables["replica_states"] = [state("n1", 6, 6)]


def _with_first_aborted_by_new_epoch(tables: dict[str, list[Row]]) -> None:
    fenced(tables)
    tables["replica_records"][1].update(producer_epoch=1)


NOT_FENCED: dict[str, Change] = {
    "the epoch rose by two": lambda t: fenced(t, 2),
    "a record has the next epoch": _with_record_of_next_epoch,
    "a new epoch aborted the first one, too": _with_first_aborted_by_new_epoch,
}


@pytest.mark.parametrize("change", NOT_FENCED.values(), ids=NOT_FENCED)
def test_a_marker_of_another_epoch_does_not_show_that_the_epoch_was_the_same(
    change: Change,
) -> None:
    on = history(change)
    assert not used_twice(on)
    assert labels(inconsistent_offsets.CHECKER, on) == ((), ())


@pytest.mark.parametrize("change", NOT_IT.values(), ids=NOT_IT)
def test_whatever_lacks_one_of_its_signs_is_held_against_brokers(change: Change) -> None:
    on = history(change)
    assert not used_twice(on)
    excuses, _ = labels(lost_write.CHECKER, on)
    assert not excuses


def between(tables: dict[str, list[Row]]) -> None:
    """D was written by a transaction between the two, with a higher number."""
    sent = {**ack(D, 5, op=7, at=2 * S), **IN_TXN, "txn_id": 7}
    tables["sends"].append(sent)
    (record,) = log("n1", (3, D), start=5)
    tables["replica_records"] += [{**record, "sequence": 1}, marker(6)]
    tables["replica_states"] = [state("n1", 7, 7)]


def test_a_number_below_one_that_was_used_meanwhile_was_not_used_again() -> None:
    on = history(between)
    assert not used_twice(on)
    assert labels(lost_write.CHECKER, on) == ((), ())


def test_two_others_that_were_given_one_offset_are_not_excused_by_a_third() -> None:
    def also_d(tables: dict[str, list[Row]]) -> None:
        tables["sends"].append({**ack(D, 0, op=9, at=4 * S), **IN_TXN, "transactional_id": "t-3"})

    on = history(also_d)
    assert list(used_twice(on)) == [B]
    assert labels(inconsistent_offsets.CHECKER, on) == ((), ())


@ALARMED
@pytest.mark.parametrize(
    "plan",
    [{"after_timeout": "discard"}, {"client_kind": "java"}, {"client_kind": "java:3.9.1"}],
)
def test_clients_that_never_do_so_have_no_excuse(checker: Checker, plan: dict[str, object]) -> None:
    assert labels(checker, history(on=about(**plan))) == ((), ())


def test_a_record_that_some_log_has_was_written() -> None:
    on = history(lambda t: t["replica_records"].extend(log("n2", (3, B))))
    assert not used_twice(on)


def test_only_what_such_a_record_brings_about_is_excused() -> None:
    excused = {each.name for each in CHECKERS if "sequence-used-twice" in each.excuses}
    assert excused == {
        lost_write.NAME, inconsistent_offsets.NAME, offset_order.NAME, send_order.NONMONOTONIC,
        send_order.INT_NONMONOTONIC,
    }  # fmt: skip


@ALARMED
@pytest.mark.parametrize("after_timeout", ["go-on", "discard"])
def test_where_no_logs_are_shown_nobody_can_tell(checker: Checker, after_timeout: str) -> None:
    tables = {**rows(), "replica_records": [], "replica_states": []}
    tables["polls"] += [read(A, 0, op=8, phase="main")]
    tables["final_reads"] = [final_read(5)]
    plan = {"workload": "txn", "after_timeout": after_timeout}
    on = group(facts(plan=plan, declared=Declared(sees=frozenset())), **tables)
    told = [each.broken_premises for each in checker.check(on).anomalies]
    assert told, "each of them rests on what clients were told, too"
    unknown = ["known-cause" in each or "shown-cause" in each for each in told]
    assert all(unknown) if after_timeout == "go-on" else not any(unknown)
