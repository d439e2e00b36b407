"""Twins for single conditions of `phantom`: what a reader was given that nobody sent there."""

import numpy as np
import pyarrow as pa

from checkers import phantom
from checkers.facts import RunFacts
from checkers.findings import known
from checkers.group import group_of
from results.record.tables import TABLES
from results.record.values import pack_value
from results.record.verdict import Anomaly
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import PLACE, A, B, S, facts, found, group, read, timed_out

TWO: dict[str, object] = {"partitions": 2}


def strangers(on: RunFacts | None = None, /, **rows: list[Row]) -> tuple[Anomaly, ...]:
    return found(phantom.CHECKER, group(on, **rows)).anomalies


def places(on: RunFacts | None = None, /, **rows: list[Row]) -> list[tuple[int, object]]:
    return [(each.offset or 0, each.evidence["value"]) for each in strangers(on, **rows)]


def test_a_reservation_holds_its_first_value_and_not_its_end() -> None:
    about = facts(reservations=((A + 2, A + 4),), cut_streams=True)
    polls = [read(A + number, number) for number in range(1, 6)]
    assert places(about, polls=polls) == [(1, A + 1), (4, A + 4), (5, A + 5)]


def test_each_of_several_reservations_counts_also_one_that_began_in_another_partition() -> None:
    first, other = pack_value(1, 0), pack_value(2, 0)
    spans = ((A, A + 1), (first - 5, A + 1), (B, other + 3))
    about = facts(plan=TWO, reservations=spans, cut_streams=True)
    assert places(about, polls=[read(A, 0), read(B + 9, 1), read(first, 2)]) == []
    elsewhere = facts(plan=TWO, reservations=((other, other + 9),), cut_streams=True)
    assert places(elsewhere, polls=[read(A, 0)]) == [(0, A)]
    behind = facts(plan=TWO, reservations=((other, other + 9), (A, B)), cut_streams=True)
    assert places(behind, polls=[read(A, 0)]) == []


def test_what_was_reserved_for_another_partition_cannot_have_been_sent_here() -> None:
    values = [pack_value(number, 1) for number in (1, 2, 3)]
    spans = tuple((value, value + 9) for value in values)
    about = facts(plan={"partitions": 3}, reservations=spans, cut_streams=True)
    for partition in range(3):
        on = group_of(about, {}, topic="log-0", topic_id="id-0", partition=partition)
        told = phantom.sent_here(on, np.array(values))
        assert np.flatnonzero(told).tolist() == [partition]


def test_a_cut_stream_takes_nothing_from_what_was_sent() -> None:
    cut = facts(reservations=((B, B + 1),), cut_streams=True)
    assert places(cut, sends=[timed_out(A)], polls=[read(A, 0), read(B, 1), read(B + 1, 2)]) == [
        (2, B + 1)
    ]


def test_what_was_sent_is_ours_whatever_became_of_it() -> None:
    assert places(sends=[timed_out(A)], polls=[read(A, 0), read(B, 1)]) == [(1, B)]


def test_what_was_sent_here_is_a_stranger_if_it_names_another_partition() -> None:
    other = pack_value(2, 1)
    (anomaly,) = strangers(facts(plan=TWO), sends=[timed_out(other)], polls=[read(other, 3)])
    assert anomaly.evidence["belongs_to"] == "log-0-1"
    assert anomaly.sentence.endswith("; it belongs to log-0-1")


def test_a_stranger_is_told_once_for_each_place_and_value_by_offset() -> None:
    polls = [read(B, 7, op=1), read(A, 7, op=2), read(A, 5, op=3), read(A, 7, op=4),
             read(A, 5, op=5)]  # fmt: skip
    assert places(polls=polls) == [(5, A), (7, A), (7, B)]
    assert [each.evidence["op_id"] for each in strangers(polls=polls)] == [3, 2, 1]
    assert found(phantom.CHECKER, group(polls=polls)).rows == len(polls)


def test_a_stranger_at_home_was_never_sent() -> None:
    """Its own partition is no other one; a number that no partition has names none."""
    (anomaly,) = strangers(polls=[{**read(A, 4, op=7), "complete_ns": 3 * S}])
    assert anomaly.sentence == (
        f"op 7 read {facts().name_of(A)} at offset 4 of log-0-0; it was never sent"
    )
    assert anomaly.evidence == {
        "value": A, "offset": 4, "op_id": 7, "time_ns": 3 * S, "belongs_to": "log-0-0",
    }  # fmt: skip
    (far,) = strangers(polls=[read(pack_value(40, 1), 4)])
    assert far.evidence["belongs_to"] is None
    assert far.evidence["time_ns"] == known(-1)


def test_a_record_that_is_not_ours_has_no_home() -> None:
    (anomaly,) = strangers(polls=[read(None, 4)])
    assert (anomaly.evidence["value"], anomaly.evidence["belongs_to"]) == (None, None)
    assert "a record that is not one of this run's messages" in anomaly.sentence
    zero = strangers(polls=[read(0, 1)])
    assert [each.evidence["value"] for each in zero] == [0]
    assert facts().name_of(0) in zero[0].sentence


def test_values_of_a_partition_that_the_plan_does_not_have_are_strangers() -> None:
    about = facts(reservations=((0, 2**40),), cut_streams=True)
    polls = [{**read(value, at), **PLACE, "partition": 7} for at, value in enumerate((A, None))]
    sends = [{**timed_out(A, op=op), **PLACE, "partition": 7, "value": value}
             for op, value in enumerate((A, None))]  # fmt: skip
    for rows in ({"polls": polls}, {"polls": polls, "sends": sends}):
        tables = {name: pa.Table.from_pylist(each, TABLES[name]) for name, each in rows.items()}
        on = group_of(about, tables, topic="log-0", topic_id="id-0", partition=7)
        told = [each.evidence["value"] for each in found(phantom.CHECKER, on).anomalies]
        assert told == [A, None]


def test_a_cut_stream_may_have_lost_a_reservation() -> None:
    cut = facts(cut_streams=("worker-1",))
    (anomaly,) = strangers(cut, polls=[read(A, 0)])
    assert anomaly.broken_premises == ("whole-record",)
    (sure,) = strangers(polls=[read(A, 0)])
    assert (sure.broken_premises, sure.excuses) == ((), ())


def test_a_stranger_from_a_partition_before_this_one_is_one_too() -> None:
    mine = pack_value(2, 1)
    about = facts(plan=TWO, reservations=((0, mine + 9),), cut_streams=True)
    rows = [{**read(value, at), **PLACE, "partition": 1} for at, value in enumerate((A, mine))]
    table = pa.Table.from_pylist(rows, schema=TABLES["polls"])
    on = group_of(about, {"polls": table}, **{**PLACE, "partition": 1})  # type: ignore[arg-type]
    (anomaly,) = found(phantom.CHECKER, on).anomalies
    assert anomaly.sentence.endswith("; it belongs to log-0-0")
